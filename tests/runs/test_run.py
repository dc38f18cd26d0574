"""A run folder: where it is, what is in it, what is refused."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from motionkit import runs
from motionkit.config import RunSettings, TrainerSettings
from motionkit.errors import MotionkitError
from motionkit.runs import Run, open_run

from .faults import faults


def snapshot(**changes: object) -> dict[str, object]:
    return {**TrainerSettings().model_dump(mode="json"), **changes}


def lines(run: Run) -> list[dict[str, object]]:
    return [json.loads(line) for line in (run.directory / "metrics.jsonl").read_text().splitlines()]


def test_folder_and_record(tmp_path: Path) -> None:
    with Run.create("pretrain mdm", snapshot(seed=5), argv=["a", "b"], origins={"seed": "flag"}, root=tmp_path) as run:
        run.annotate(device="cpu (1 threads)")
        run.log(1, {"loss/total": 1.0})
        document = run.finish({"metrics": {"x": float("inf")}, "heldout": {"reward": {"n": 4}}})
    assert run.directory.parent == tmp_path / "pretrain-mdm"
    record = json.loads((run.directory / "run.json").read_text())
    assert record["argv"] == ["a", "b"]
    assert record["origins"] == {"seed": "flag"}
    assert (record["seed"], record["device"], record["status"], record["exit_code"]) == (
        5,
        "cpu (1 threads)",
        "done",
        0,
    )
    assert record["versions"]["torch"] == torch.__version__
    assert len(record["attempts"]) == 1
    assert list(document)[:7] == ["schema", "command", "status", "run", "steps", "seconds", "cpu_seconds"]
    assert document["metrics"] == {"x": None}
    assert record["summary"] == document
    assert json.loads((run.directory / "config.json").read_text()) == snapshot(seed=5)


@pytest.mark.parametrize(("place", "expected"), [({"name": "one"}, "grpo/one"), ({"out": "here"}, "here")])
def test_name_and_out(place: dict[str, str], expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    settings = TrainerSettings(run=RunSettings.model_validate(place))
    with open_run("grpo", settings.model_dump(mode="json"), root=tmp_path) as run:
        pass
    assert run.directory.resolve() == tmp_path / expected
    # The snapshot starts other runs, so it does not say where this one was.
    assert TrainerSettings.model_validate_json((run.directory / "config.json").read_text()) == TrainerSettings()


def test_metrics_are_finite_json_and_defined(tmp_path: Path) -> None:
    heard = []
    with Run.create("grpo", snapshot(), out=tmp_path / "run") as run:
        run.listeners.append(lambda step, metrics: heard.append((step, dict(metrics))))
        run.log(1, {"loss/total": torch.tensor(0.5), "reward/tmr-dense/mean": float("nan")})
        with pytest.raises(MotionkitError, match="reward/average"):
            run.log(2, {"reward/average": 1.0})
    (line,) = lines(run)
    assert line == {"step": 1, "seconds": line["seconds"], "loss/total": 0.5, "reward/tmr-dense/mean": None}
    assert heard[0][1]["loss/total"] == 0.5


def test_an_existing_run_is_replaced_only_when_told(tmp_path: Path) -> None:
    with Run.create("grpo", snapshot(), out=tmp_path / "run") as run:
        run.log(1, {"loss/total": 1.0})
        run.save(1, {"model": {"w": torch.ones(1)}})
        run.artifact("embeddings").mkdir()
    (run.directory / "my notes.txt").write_text("precious")
    with pytest.raises(MotionkitError, match="already holds a run") as caught:
        Run.create("grpo", snapshot(), out=tmp_path / "run")
    assert caught.value.code == 2
    assert "--overwrite" in caught.value.fix
    assert "--resume" in caught.value.fix
    assert lines(run)[0]["step"] == 1
    with Run.create("grpo", snapshot(), out=tmp_path / "run", overwrite=True) as new:
        assert lines(new) == []
        assert new.checkpoint() is None
    assert sorted(path.name for path in run.directory.iterdir() if path.name != ".lock") == [
        *("config.json", "log.txt", "metrics.jsonl", "my notes.txt", "run.json")
    ]
    assert (run.directory / "my notes.txt").read_text() == "precious"


@pytest.mark.parametrize(("listed", "left"), [([], []), (["tmr"], ["policy"])])
def test_what_trainers_wrote_goes_with_runs_that_do_not_list_it(
    listed: list[str], left: list[str], tmp_path: Path
) -> None:
    """Records of earlier versions list nothing; those of today list everything, so that the rest is the user's."""
    with Run.create("grpo", snapshot(), out=tmp_path / "run") as run:
        for name in ("policy", "tmr"):
            (run.directory / name).mkdir()
        for name in listed:
            run.artifact(name)
    with Run.create("grpo", snapshot(), out=tmp_path / "run", overwrite=True):
        pass
    assert [name for name in ("policy", "tmr") if (run.directory / name).exists()] == left


@pytest.mark.parametrize("content", ["thesis.tex", "run.json"])
def test_overwrite_never_touches_a_folder_that_is_no_run(content: str, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / content).write_text('{"kind": "something else"}')
    with pytest.raises(MotionkitError, match="not a motionkit run"):
        Run.create("grpo", snapshot(), out=tmp_path / "home", overwrite=True)
    assert [path.name for path in (tmp_path / "home").iterdir()] == [content]


def test_an_empty_folder_is_fine_and_a_file_is_not(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with Run.create("grpo", snapshot(), out=tmp_path / "empty"):
        pass
    (tmp_path / "file").write_text("x")
    with pytest.raises(MotionkitError, match="is a file"):
        Run.create("grpo", snapshot(), out=tmp_path / "file", overwrite=True)


def test_a_run_in_use_is_left_alone(tmp_path: Path) -> None:
    with Run.create("grpo", snapshot(), out=tmp_path / "run") as run:
        assert runs.load(run.directory).status == "running"
        with pytest.raises(MotionkitError, match="in use by another process"):
            Run.resume(run.directory)
        with pytest.raises(MotionkitError, match="in use by another process"):
            Run.create("grpo", snapshot(), out=run.directory, overwrite=True)
    assert runs.load(run.directory).status == "done"


@pytest.mark.parametrize("what", ["emptied", "deleted", "moved", "replaced"])
def test_a_run_whose_folder_is_no_longer_its_own_stops_and_writes_nothing_there(what: str, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with (  # noqa: PT012 - any of the lines may find out
        pytest.raises(MotionkitError, match="emptied, moved or replaced") as caught,
        Run.create("grpo", snapshot(), out=folder) as run,
    ):
        run.save(1, {"model": {"w": torch.ones(1)}})
        if what in ("moved", "replaced"):
            folder.rename(tmp_path / "elsewhere")
        else:
            shutil.rmtree(folder)
        if what == "emptied":
            folder.mkdir()
        if what == "replaced":
            with Run.create("grpo", snapshot(seed=77), out=folder) as other:
                other.log(1, {"loss/total": 1.0})
        run.log(2, {"loss/total": 1.0})
        with pytest.raises(MotionkitError, match="emptied, moved or replaced"):
            run.artifact("policy")
        run.save(2, {"model": {"w": torch.ones(1)}})
    assert caught.value.code == run.exit_code == 1
    if what == "replaced":
        info = runs.load(folder)
        assert info.record is not None
        assert (info.record.seed, info.status, info.record.error) == (77, "done", None)
        assert not (folder / "checkpoints").exists()
    else:
        assert not folder.exists() or not list(folder.iterdir())


def test_leftovers_of_a_run_that_was_killed_at_its_first_write_go(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    for name in (".lock", ".tmp-4711-0123abcd"):
        (folder / name).write_text("")
    with Run.create("grpo", snapshot(), out=folder):
        pass
    assert not list(folder.glob(".tmp-*"))


def test_a_file_of_the_users_own_is_no_leftover(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with Run.create("grpo", snapshot(), out=folder) as run:
        run.save(1, {"model": {"w": torch.ones(1)}})
    (folder / ".tmp-notes").write_text("precious")
    (folder / "checkpoints/.tmp-notes").write_text("precious")
    with Run.resume(folder):
        pass
    assert (folder / "checkpoints/.tmp-notes").read_text() == "precious"
    with Run.create("grpo", snapshot(), out=folder, overwrite=True):
        pass
    assert (folder / ".tmp-notes").read_text() == "precious"
    (tmp_path / "new").mkdir()
    (tmp_path / "new/.tmp-notes").write_text("precious")
    with pytest.raises(MotionkitError, match="not a motionkit run"):
        Run.create("grpo", snapshot(), out=tmp_path / "new", overwrite=True)
    assert [path.name for path in (tmp_path / "new").iterdir()] == [".tmp-notes"]


@pytest.mark.parametrize("when", range(1, 14))
def test_overwriting_goes_on_wherever_it_was_interrupted(when: int, tmp_path: Path) -> None:
    """Also with a file of the user's own in the folder, and after all of the old run is gone."""

    def stop() -> None:
        raise KeyboardInterrupt

    folder = tmp_path / "run"
    with Run.create("grpo", snapshot(), out=folder) as run:
        run.log(1, {"loss/total": 1.0})
        run.save(1, {"model": {"w": torch.ones(1)}})
    (folder / "my notes.txt").write_text("precious")
    with faults(when, stop), contextlib.suppress(KeyboardInterrupt):
        Run.create("grpo", snapshot(seed=1), out=folder, overwrite=True)
    gc.collect()  # the lock of what was interrupted
    with Run.create("grpo", snapshot(seed=2), out=folder, overwrite=True) as new:
        assert lines(new) == []
    names = {"config.json", "log.txt", "metrics.jsonl", "my notes.txt", "run.json", ".lock"}
    assert {path.name for path in folder.iterdir()} == names


def test_failures_are_recorded_and_have_exit_code_1(tmp_path: Path) -> None:
    with (
        pytest.raises(MotionkitError, match="bad") as caught,
        Run.create("grpo", snapshot(), out=tmp_path / "run") as run,
    ):
        raise MotionkitError("bad", why="w", fix="f")
    assert (caught.value.code, caught.value.why, caught.value.fix) == (1, "w", "f")
    assert (run.status, run.exit_code) == ("failed", 1)
    info = runs.load(tmp_path / "run")
    assert info.record is not None
    assert info.record.error == "bad"
    assert info.summary["status"] == "failed"
    with pytest.raises(ZeroDivisionError), Run.resume(tmp_path / "run") as again:
        _ = 1 / 0
    assert again.exit_code == 1


def test_signals_set_a_flag_and_handlers_are_given_back(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGTERM)
    with Run.create("grpo", snapshot(), out=tmp_path / "run") as run:
        assert not run.stop_requested
        os.kill(os.getpid(), signal.SIGTERM)
        assert run.stop_requested
    assert signal.getsignal(signal.SIGTERM) is before
    assert (run.status, run.exit_code) == ("interrupted", 143)


def test_an_absent_tracker_stops_before_there_is_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MotionkitError, match="wandb is not installed") as caught:
        Run.create("grpo", snapshot(track=["wandb"]), out=tmp_path / "run")
    assert caught.value.code == 2
    assert not (tmp_path / "run").exists()


def test_listing(tmp_path: Path) -> None:
    for command, name in (("grpo", "a"), ("grpo", "b"), ("pretrain mdm", "c")):
        with Run.create(command, snapshot(), name=name, root=tmp_path) as run:
            run.log(1, {"loss/total": 1.0})
    (tmp_path / "grpo" / "no run").mkdir()
    assert {info.directory.name for info in runs.find("grpo", tmp_path)} == {"a", "b"}
    (found,) = runs.find("pretrain mdm", tmp_path)
    assert (found.command, found.status, len(list(found.metrics()))) == ("pretrain mdm", "done", 1)
    assert len(runs.find(root=tmp_path)) == 3
    assert runs.find(root=tmp_path / "nowhere") == []


def test_listing_imports_no_torch() -> None:
    code = "import sys, motionkit.runs, motionkit.tracking; motionkit.runs.find(); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
