"""Runs are killed for real here: kill -9 while saving, Ctrl-C, SIGTERM, a full disk. Nothing saved is lost."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from motionkit import runs
from tests.made.scripts import load_script

from . import kills
from .kills import TOY, Fault, begun, calls_of, differences, finished, metrics, record_of

EARLIER = "checkpoints/step-00000006"


def start(*arguments: object, fault: Fault | None = None, log: Path | None = None) -> BaseProcess:
    return kills.start(arguments, toy=True, fault=fault, log=log)


def signal_in_step_3(process: BaseProcess, folder: Path, number: signal.Signals) -> None:
    wait_for(folder.with_suffix(".step"), "3")
    assert process.pid is not None
    os.kill(process.pid, number)


def wait_for(path: Path, text: str) -> None:
    for _ in range(6000):
        if path.exists() and text in path.read_text():
            return
        time.sleep(0.01)
    raise AssertionError(f"{path} never said {text!r}")


def in_this_process(*arguments: object) -> int:
    """Run the toy here: the interpreter and torch need not start again for what is not going to be killed."""
    code: int = load_script(TOY).main([str(argument) for argument in arguments])
    return code


def assert_same_run(folder: Path, other: Path) -> None:
    """Weights, Adam, EMA, generators, states and metrics are equal, and nothing half or temporary is left."""
    assert differences(folder, other) == []
    assert [line["step"] for line in metrics(folder)] == list(range(1, 9))


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of 8 steps that nothing disturbed."""
    folder = tmp_path_factory.mktemp("straight") / "run"
    assert finished(start(folder, 8, "plain", fault=Fault(), log=folder.with_name("calls"))) == 0
    checkpoint = folder / "checkpoints/step-00000008"
    names = {path.name for path in checkpoint.glob("*.safetensors")}
    assert names == {"model.safetensors", "ema.safetensors", "optimizer.safetensors", "random.safetensors"}
    assert runs.load(folder).status == "done"
    return folder


def test_four_steps_then_resume_equal_eight(straight: Path, tmp_path: Path) -> None:
    assert in_this_process(tmp_path / "run", 4, "plain") == 0
    assert in_this_process(tmp_path / "run", 8, "--resume", "plain") == 0
    assert_same_run(tmp_path / "run", straight)
    record = runs.load(tmp_path / "run").record
    assert record is not None
    assert [part.start_step for part in record.attempts] == [0, 4]
    assert [part.end_step for part in record.attempts] == [4, 8]


@pytest.mark.parametrize("kind", ["mkdir", "fsync", "rename", "replace", "unlink", "rmdir"])
def test_kill_9_at_a_call_to_the_file_system_leaves_nothing_half(kind: str, straight: Path, tmp_path: Path) -> None:
    """In place of the last call of each kind in a save that prunes; test_kills.py has the others."""
    folder, save = tmp_path / "run", 3
    calls = [call.split()[0] for call in calls_of(straight.with_name("calls"))[save - 1]]
    last = len(calls) - calls[::-1].index(kind)
    assert finished(start(folder, 8, "plain", fault=Fault(save, last))) == -signal.SIGKILL
    assert in_this_process(folder, 8, "--resume", "plain") == 0
    assert_same_run(folder, straight)


@pytest.fixture(scope="module")
def renames(straight: Path) -> list[int]:
    """Where a save of a step that is there already renames: the old one away, the new one in, the old one to delete."""
    folder = straight.with_name("again")
    shutil.copytree(straight, folder)
    log = folder.with_suffix(".calls")
    assert finished(start(folder / EARLIER, 8, "--resume", "plain", fault=Fault(), log=log)) == 0
    assert_same_run(folder, straight)
    found = [number for number, call in enumerate(calls_of(log)[0], 1) if call.startswith("rename ")]
    assert len(found) == 3
    return found


@pytest.mark.parametrize(("number", "code"), [(signal.SIGKILL, -9), (signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("rename", [0, 1, 2])
def test_a_checkpoint_that_is_replaced_is_never_missing(
    rename: int, number: int, code: int, renames: list[int], straight: Path, tmp_path: Path
) -> None:
    """Killed, or stopped by two signals, in the middle of saving step 8 once more."""
    folder = tmp_path / "run"
    shutil.copytree(straight, folder)
    fault = Fault(1, renames[rename], (number, number))
    assert finished(start(folder / EARLIER, 8, "--resume", "plain", fault=fault)) == code
    if code > 0:
        names = {path.name for path in (folder / "checkpoints").iterdir() if not path.name.endswith(".replaced")}
        assert names == {"last", "step-00000006", "step-00000008"}
        assert runs.load(folder).status == "interrupted"
    assert in_this_process(folder, 8, "--resume", "plain") == 0
    assert_same_run(folder, straight)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_finishes_the_step_saves_and_says_how_to_go_on(
    number: signal.Signals, code: int, straight: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    process = start(folder, 8, "slow")
    signal_in_step_3(process, folder, number)
    assert finished(process) == code
    assert (folder / "checkpoints/last").read_text().strip() == "step-00000003"
    info = runs.load(folder)
    assert info.record is not None
    assert (info.status, info.record.exit_code, info.summary["status"]) == ("interrupted", code, "interrupted")
    assert f"motionkit toy --resume {folder}" in (folder / "log.txt").read_text()
    assert in_this_process(folder, 8, "--resume", "plain") == 0
    assert_same_run(folder, straight)


def test_a_second_ctrl_c_stops_at_once(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    process = start(folder, 8, "slow")
    signal_in_step_3(process, folder, signal.SIGINT)
    # The first signal is said in the log before the second is sent: otherwise the system may merge the two.
    wait_for(folder / "log.txt", "stopping after this step")
    signal_in_step_3(process, folder, signal.SIGINT)
    assert finished(process) == 130
    assert (folder / "checkpoints/last").read_text().strip() == "step-00000002"
    assert runs.load(folder).status == "interrupted"


def test_a_full_disk_is_one_clear_error_and_the_run_can_go_on(straight: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    assert finished(start(folder, 8, "small-disk")) == 1
    error = folder.with_suffix(".error").read_text()
    assert "cannot save the checkpoint of step 6" in error
    assert "What was saved before is intact" in error
    assert (folder / "checkpoints/last").read_text().strip() == "step-00000004"
    assert not list(folder.rglob(".tmp-*"))
    assert in_this_process(folder, 8, "--resume", "plain") == 0
    assert_same_run(folder, straight)


def test_kills_at_random_moments(straight: Path, tmp_path: Path) -> None:
    """Three runs, each killed twice; test_kills.py does the same to the trainers."""
    draw = random.Random(13)
    for number in range(3):
        folder, kills = tmp_path / f"run-{number}", 0
        while kills < 2:
            words = (folder, 8, *(["--resume"] if (folder / "config.json").exists() else []), "slow")
            before = record_of(folder)
            process = start(*words)
            begun(process, folder, before)
            process.join(timeout=draw.uniform(0, 0.8))
            process.kill()
            assert finished(process) == -signal.SIGKILL
            kills += 1
        again = ["--resume"] if (folder / "config.json").exists() else []
        assert in_this_process(folder, 8, *again, "plain") == 0
        assert_same_run(folder, straight)
