"""A run folder and its record: where it is, what is in it, what is refused."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import Result

from motionkit import runs
from motionkit.errors import MotionkitError
from motionkit.runs import Run, open_run
from motionkit.training.settings import RunSettings, TrainerSettings

from ..made.commands import assert_refused
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
    with pytest.raises(MotionkitError) as caught:
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


@pytest.mark.parametrize(
    ("name", "content"),
    [("thesis.tex", "x"), ("run.json", '{"kind": "something else"}'), (".tmp-notes", "precious")],
)
def test_overwrite_never_touches_a_folder_that_is_no_run(name: str, content: str, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / name).write_text(content)
    for place, word in ((tmp_path / "home", "not a motionkit run"), (tmp_path / "home" / name, "is a file")):
        with pytest.raises(MotionkitError, match=word):
            Run.create("grpo", snapshot(), out=place, overwrite=True)
    assert [path.name for path in (tmp_path / "home").iterdir()] == [name]


def test_an_empty_folder_is_fine(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with Run.create("grpo", snapshot(), out=tmp_path / "empty"):
        pass


def test_a_run_in_use_is_left_alone(tmp_path: Path) -> None:
    with Run.create("grpo", snapshot(), out=tmp_path / "run") as run:
        assert runs.load(run.directory).status == "running"
        for call in (lambda: Run.resume(run.directory),
                     lambda: Run.create("grpo", snapshot(), out=run.directory, overwrite=True)):  # fmt: skip
            with pytest.raises(MotionkitError, match="in use"):
                call()
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
    gc.freeze()  # a look at all objects of the process takes a second
    with faults(when, stop), contextlib.suppress(KeyboardInterrupt):
        Run.create("grpo", snapshot(seed=1), out=folder, overwrite=True)
    gc.collect()  # the lock of what was interrupted
    gc.unfreeze()
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
    with pytest.raises(MotionkitError, match="wandb") as caught:
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


Cli = Callable[..., Result]

VALUES = {
    "schema": [2, "1"],
    "id": ["../..", "", 3],
    "command": [None, ["grpo"]],
    "artifacts": [5, "policy", ["../outside"], ["/etc"], [".."], [""], ["a\0b"], [3]],
    "attempts": [3, [3], {}, [{"start_step": -1}], [{"argv": "x"}]],
    "status": ["great", 1, None],
    "steps": [-1, 1.5, "3", 2**70],
    "cpu_seconds": ["x", -1.0, [], 10**400],
    "versions": [[], {"torch": 2}],
    "plugins": ["x"],
    "git": ["abc"],
    "summary": [[], "done"],
    "error": [{}],
}
TEXTS = {
    "empty": "",
    "cut short": "{",
    "a list": "[]",
    "deep": "[" * 2_000,
    "deep inside": '{"kind": "motionkit-run", "x": ' + "[" * 2_000 + "]" * 2_000 + "}",
    "digits": '{"kind": "motionkit-run", "steps": ' + "9" * 5000 + "}",
}


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs under runs/."""
    root = tmp_path_factory.mktemp("template")
    for name in ("bad", "good"):
        with Run.create("pretrain mdm", {"track": [], "checkpoint": {"keep": 2}}, name=name, root=root / "runs"):
            pass
    return root


@pytest.fixture
def folders(template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """The two runs; the first is to be damaged."""
    shutil.copytree(template / "runs", tmp_path / "runs")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "outside").mkdir()
    return Path("runs/pretrain-mdm/bad"), Path("runs/pretrain-mdm/good")


def assert_damaged(bad: Path, good: Path, said: str) -> None:
    before = sorted(path.name for path in bad.iterdir())
    for command in (None, "pretrain mdm"):
        first, last = runs.find(command)
        assert (first.directory, first.status, first.problem) == (good, "done", "")
        assert (last.directory, last.status) == (bad, "damaged")
        assert said in last.problem
        assert (last.command in ("pretrain mdm", "pretrain-mdm"), last.config) == (True, {})
    attempts: list[Callable[[], Any]] = [lambda: runs.load(bad), lambda: Run.resume(bad)]
    if "config.json" not in said:
        attempts.append(lambda: Run.create("grpo", {}, out=bad, overwrite=True))
    for attempt in attempts:
        with pytest.raises(MotionkitError) as caught:
            attempt()
        assert caught.value.code == 2
        assert said in caught.value.why
    assert sorted(path.name for path in bad.iterdir()) == before
    assert Path("outside").is_dir()


@pytest.mark.parametrize(("key", "value"), [(key, value) for key, values in VALUES.items() for value in values])
def test_a_record_with_a_value_of_another_kind_is_damaged(key: str, value: object, folders: tuple[Path, Path]) -> None:
    bad, good = folders
    (bad / "run.json").write_text(json.dumps(json.loads((bad / "run.json").read_text()) | {key: value}))
    assert_damaged(bad, good, "run.json" if isinstance(value, int) and value > 2**64 else f"run.json: {key}")


@pytest.mark.parametrize("name", ["run.json", "config.json"])
@pytest.mark.parametrize("what", [*TEXTS, "no text", "a folder", "a pipe", "a device"])
def test_a_file_that_cannot_be_read_is_damage(name: str, what: str, folders: tuple[Path, Path]) -> None:
    bad, good = folders
    (bad / name).unlink()
    if what in TEXTS:
        (bad / name).write_text(TEXTS[what])
    elif what == "no text":
        (bad / name).write_bytes(b"\xff\xfe\x00")
    elif what == "a folder":
        (bad / name).mkdir()
    elif what == "a pipe":
        os.mkfifo(bad / name)
    else:
        (bad / name).symlink_to("/dev/zero")
    if (name, what) == ("config.json", "deep inside"):
        (bad / name).write_text(TEXTS[what])
    assert_damaged(bad, good, name)


@pytest.mark.parametrize("config", ['{"track": 5}', '{"checkpoint": 3}', '{"checkpoint": {"keep": 0}}', '{"run": []}'])
def test_settings_that_the_run_itself_reads_are_checked(config: str, folders: tuple[Path, Path]) -> None:
    bad, good = folders
    (bad / "config.json").write_text(config)
    assert_damaged(bad, good, "config.json: ")


def test_a_run_of_the_version_before_is_read(folders: tuple[Path, Path]) -> None:
    """Its record said `dirty` beside the commit, and null where nothing was known."""
    bad, _ = folders
    record = json.loads((bad / "run.json").read_text())
    record |= {"git": {"commit": "0" * 40, "dirty": True}, "seed": None, "device": "cpu (1 threads)", "heldout": [1]}
    record["attempts"] += [{"argv": [], "start": "2026", "start_step": 0, "host": "h", "pid": 1, "cwd": "/"}]
    (bad / "run.json").write_text(json.dumps(record))
    assert runs.load(bad).status == "done"
    with Run.resume(bad):
        pass
    after = json.loads((bad / "run.json").read_text())
    assert after["heldout"] == [1]
    assert [len(attempt) > 7 for attempt in after["attempts"]] == [True, False, True]


def test_what_a_trainer_annotates_cannot_damage_its_record(tmp_path: Path) -> None:
    with Run.create("grpo", {}, out=tmp_path / "run") as run:
        run.annotate(shared=[1, 2], device="cpu (1 threads)")
        with pytest.raises(ValueError, match="artifacts"):
            run.annotate(artifacts=["../outside"])
    info = runs.load(tmp_path / "run")
    assert info.record is not None
    assert (info.record.device, info.record.artifacts, info.status) == ("cpu (1 threads)", [], "done")
    assert json.loads((tmp_path / "run/run.json").read_text())["shared"] == [1, 2]


def test_list_and_show(cli: Cli, folders: tuple[Path, Path]) -> None:
    bad, good = folders
    (bad / "config.json").write_text("{")
    listed = cli("runs", "list")
    assert listed.exit_code == 0
    rows = [line.split() for line in listed.stdout.splitlines() if "runs/" in line]
    assert [(row[0], row[1]) for row in rows] == [(str(good), "done"), (str(bad), "damaged")]
    document = json.loads(cli("runs", "list", "pretrain mdm", "--json").stdout)
    assert [run["status"] for run in document["runs"]] == ["done", "damaged"]
    assert "config.json" in document["runs"][1]["problem"]
    assert_refused(cli("runs", "show", bad), f"{bad} is damaged", "config.json")
    assert cli("runs", "show", good).exit_code == 0
    assert json.loads(cli("runs", "show", bad, "--json").stdout)["error"]["code"] == 2


def test_a_terminal_is_told_nothing_by_a_record(cli: Cli, folders: tuple[Path, Path]) -> None:
    bad, _ = folders
    record = json.loads((bad / "run.json").read_text())
    (bad / "run.json").write_text(
        json.dumps(record | {"error": "\x1b[2Jgone", "status": "failed", "created": "\x1b]0;x"})
    )
    for words in (["list"], ["show", bad]):
        result = cli("runs", *words)
        assert result.exit_code == 0
        assert "\x1b" not in result.stdout
