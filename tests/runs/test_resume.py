"""Continuing a run: which one, from where, and with what it may not differ."""

from __future__ import annotations

import errno
import json
import logging
import os
from pathlib import Path

import pytest
import torch

from motionkit.errors import MotionkitError
from motionkit.runs import Run, load, open_run
from motionkit.runs._record import versions

SETTINGS = {"run": {"num_steps": 4, "resume": None}, "policy": {"name": "mdm", "layers": 4}, "seed": 0}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run with checkpoints at 2 and 4, whose metrics reach step 5."""
    with Run.create("grpo", SETTINGS, out=tmp_path / "run") as run:
        for step in range(1, 6):
            run.log(step, {"loss/total": float(step)})
            if step in (2, 4):
                run.save(step, {"model": {"w": torch.tensor([float(step)])}}, {"cursor": step})
    return run.directory


def steps(folder: Path) -> list[int]:
    return [json.loads(line)["step"] for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_continues_the_last_checkpoint_and_cuts_the_metrics(folder: Path) -> None:
    with (folder / "metrics.jsonl").open("a") as file:
        file.write('{"step": 6, "loss/to')
    with Run.resume(folder) as run:
        saved = run.checkpoint()
        assert saved is not None
        assert (run.start_step, saved.state, saved.tensors["model"]["w"].item()) == (4, {"cursor": 4}, 4.0)
        assert steps(folder) == [1, 2, 3, 4]
        run.log(5, {"loss/total": 0.0})
    assert steps(folder) == [1, 2, 3, 4, 5]


def test_seconds_go_on_counting(folder: Path) -> None:
    text = (folder / "metrics.jsonl").read_text().replace('"step": 4, "seconds": 0', '"step": 4, "seconds": 100')
    (folder / "metrics.jsonl").write_text(text)
    with Run.resume(folder) as run:
        run.log(5, {"loss/total": 0.0})
    assert json.loads((folder / "metrics.jsonl").read_text().splitlines()[-1])["seconds"] >= 100


def test_a_checkpoint_folder_can_be_named(folder: Path) -> None:
    with Run.resume(folder / "checkpoints" / "step-00000002") as run:
        assert run.start_step == 2
    assert steps(folder) == [1, 2]
    # From now on the run continues from there, also when it was killed before its next checkpoint.
    with Run.resume(folder) as run:
        assert run.start_step == 2


def test_a_damaged_checkpoint_costs_two_steps_not_the_run(folder: Path) -> None:
    (folder / "checkpoints/step-00000004/model.safetensors").write_bytes(b"")
    with Run.resume(folder) as run:
        assert run.start_step == 2
        assert steps(folder) == [1, 2]
    assert "Falling back" not in (folder / "metrics.jsonl").read_text()


def test_a_run_without_a_checkpoint_starts_over_in_place(tmp_path: Path) -> None:
    with Run.create("grpo", SETTINGS, out=tmp_path / "run") as run:
        run.log(0, {"heldout/reward/mean": 0.5})
        run.log(1, {"loss/total": 1.0})
    with Run.resume(tmp_path / "run") as run:
        assert (run.start_step, run.checkpoint()) == (0, None)
        assert steps(tmp_path / "run") == []


def test_shape_changing_settings_are_refused_by_name(folder: Path) -> None:
    asked = {"run": {"num_steps": 9, "resume": str(folder)}, "policy": {"name": "mdm", "layers": 8}, "seed": 1}
    with pytest.raises(MotionkitError, match=r"policy\.layers was 4, is 8; seed was 0, is 1") as caught:
        open_run("grpo", asked, shape_keys=("policy", "seed", "rollout.prompts"))
    assert caught.value.code == 2
    assert steps(folder) == [1, 2, 3, 4, 5]


def test_a_run_of_another_command_is_refused(folder: Path) -> None:
    with pytest.raises(MotionkitError, match="not of motionkit ppo"):
        open_run("ppo", {**SETTINGS, "run": {"resume": str(folder)}})


def test_other_settings_may_change_and_are_recorded(folder: Path) -> None:
    asked = {**SETTINGS, "run": {"num_steps": 9, "resume": str(folder)}}
    with open_run("grpo", asked, shape_keys=("policy", "seed"), argv=["x"]) as run:
        pass
    config = json.loads((run.directory / "config.json").read_text())
    assert config["run"] == {"num_steps": 9, "resume": None}
    record = json.loads((run.directory / "run.json").read_text())
    assert [attempt["argv"] for attempt in record["attempts"]] == [[], ["x"]]


@pytest.mark.parametrize("what", ["nothing", "no run", "no such checkpoint", "no config"])
def test_what_is_no_run_is_refused(what: str, folder: Path, tmp_path: Path) -> None:
    path = {"nothing": tmp_path / "absent", "no run": tmp_path, "no config": folder}.get(
        what, folder / "checkpoints" / "step-00000099"
    )
    if what == "no config":
        (folder / "config.json").write_text("{")
    with pytest.raises(MotionkitError) as caught:
        Run.resume(path)
    assert caught.value.code == 2
    assert caught.value.fix


def test_every_version_that_differs_is_one_warning(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    record = json.loads((folder / "run.json").read_text())
    record["versions"] |= {"torch": "1.0", "motionkit": "0.0.1", "platform": "other", "peft": "9"}
    record["versions"].pop("numpy")
    (folder / "run.json").write_text(json.dumps(record))
    with caplog.at_level(logging.WARNING, logger="motionkit"), Run.resume(folder):
        pass
    assert [line.getMessage().split(",")[0] for line in caplog.records] == ["motionkit 0.0.1", "torch 1.0"] + (
        ["peft 9"] if "peft" in versions() else []
    )
    caplog.clear()
    with caplog.at_level(logging.WARNING, logger="motionkit"), Run.resume(folder):
        pass
    assert caplog.records == []


@pytest.mark.parametrize("place", ["", "checkpoints/step-00000002"])
@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS])
def test_a_run_that_may_not_be_written_is_refused_before_anything(
    number: int, place: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tests may run as root, whom no permission stops; so the system refuses every file that is to be written."""
    original = os.open

    def refuse(path: object, flags: int, *rest: object, **options: object) -> int:
        if flags & (os.O_WRONLY | os.O_RDWR):
            raise OSError(number, os.strerror(number), str(path))
        return original(path, flags, *rest, **options)

    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(MotionkitError) as caught:
        Run.resume(folder / place)
    assert caught.value.code == 2
    assert os.strerror(number) in caught.value.why
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("name", ["log.txt", "metrics.jsonl", ".lock"])
@pytest.mark.parametrize("kind", ["link", "dangling link", "pipe"])
def test_nothing_is_appended_through_a_link(name: str, kind: str, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "profile").write_text("precious")
    (folder / name).unlink()
    if kind == "pipe":
        os.mkfifo(folder / name)
    else:
        (folder / name).symlink_to(tmp_path / ("profile" if kind == "link" else "absent"))
    if (name, kind) == (".lock", "pipe"):
        with Run.resume(folder):  # opened without waiting, and never written to
            pass
        return
    assert load(folder).status == "done"
    with pytest.raises(MotionkitError) as caught:
        Run.resume(folder)
    assert caught.value.code == 2
    assert name in caught.value.why
    assert (tmp_path / "profile").read_text() == "precious"
    assert not (tmp_path / "absent").exists()


@pytest.mark.parametrize("name", ["checkpoints", "policy", "trackers"])
def test_a_run_is_not_continued_outside_its_folder(name: str, folder: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    if (folder / name).exists():
        (folder / name).rename(elsewhere)
    elsewhere.mkdir(exist_ok=True)
    (elsewhere / ".tmp-12-0011aabb").write_text("precious")  # what a resume would delete as its own
    before = sorted(path.relative_to(elsewhere) for path in elsewhere.rglob("*"))
    (folder / name).symlink_to(elsewhere)
    with pytest.raises(MotionkitError) as caught:
        Run.resume(folder)
    assert caught.value.code == 2
    assert f"{name}: it is a link to a place outside the run folder" in caught.value.why
    assert sorted(path.relative_to(elsewhere) for path in elsewhere.rglob("*")) == before


def test_a_link_within_the_run_folder_is_followed(folder: Path) -> None:
    (folder / "checkpoints").rename(folder / "kept")
    (folder / "checkpoints").symlink_to("kept")
    with Run.resume(folder) as run:
        assert run.checkpoint is not None
