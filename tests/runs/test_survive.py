"""Runs are killed for real here: kill -9 while saving, Ctrl-C, SIGTERM, a full disk. Nothing saved is lost."""

from __future__ import annotations

import importlib.util
import json
import multiprocessing
import os
import runpy
import signal
import time
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from motionkit import runs

TOY = Path(__file__).with_name("toy.py")

# A server process that has imported torch once and forks a fresh process for each toy: nothing of pytest is in them.
_server = multiprocessing.get_context("forkserver")
_server.set_forkserver_preload(["numpy", "torch", "torch._dynamo", "safetensors.torch", "motionkit.trainers._loop"])


def start(*arguments: object) -> BaseProcess:
    words = [str(argument) for argument in arguments]
    options = {"init_globals": {"ARGUMENTS": words}, "run_name": "__main__"}
    process = _server.Process(target=runpy.run_path, args=(str(TOY),), kwargs=options)
    process.start()
    return process


def finished(process: BaseProcess) -> int | None:
    process.join(timeout=60)
    code = process.exitcode
    process.kill()
    return code


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
    specification = importlib.util.spec_from_file_location("toy", TOY)
    assert specification is not None
    assert specification.loader is not None
    toy = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(toy)
    code: int = toy.main([str(argument) for argument in arguments])
    return code


def metrics(folder: Path) -> list[dict[str, float]]:
    lines = [json.loads(text) for text in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in line.items() if key != "seconds"} for line in lines]


def assert_same_run(folder: Path, other: Path) -> None:
    """Every tensor of the last checkpoint (weights, Adam, EMA, generators), its state and all metrics are equal."""
    step = (folder / "checkpoints/last").read_text().strip()
    assert step == (other / "checkpoints/last").read_text().strip() == "step-00000008"
    names = {path.name for path in (folder / "checkpoints" / step).glob("*.safetensors")}
    assert names == {"model.safetensors", "ema.safetensors", "optimizer.safetensors", "random.safetensors"}
    for name in names:
        mine, theirs = (load_file(place / "checkpoints" / step / name) for place in (folder, other))
        assert mine.keys() == theirs.keys()
        for key, value in mine.items():
            assert value.dtype == theirs[key].dtype, key
            assert torch.equal(value.nan_to_num(), theirs[key].nan_to_num()), key
    state = [
        json.loads((place / "checkpoints" / step / "state.json").read_text())["state"] for place in (folder, other)
    ]
    assert state[0] == state[1]
    assert metrics(folder) == metrics(other)
    assert [line["step"] for line in metrics(folder)] == list(range(1, 9))


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of 8 steps that nothing disturbed."""
    folder = tmp_path_factory.mktemp("straight") / "run"
    assert in_this_process(folder, 8, "plain") == 0
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


@pytest.mark.parametrize(("mode", "last_good"), [("die-tensors", 4), ("die-rename", 4), ("die-last", 6)])
def test_kill_9_inside_a_save_loses_no_checkpoint(mode: str, last_good: int, straight: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    assert finished(start(folder, 8, mode)) == -signal.SIGKILL
    assert (folder / "checkpoints/last").read_text().strip() == f"step-{last_good:08d}"
    assert runs.load(folder).status == "interrupted"
    assert in_this_process(folder, 8, "--resume", "plain") == 0
    assert_same_run(folder, straight)
    assert not list(folder.rglob(".tmp-*"))


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
