"""Runs are killed for real here: kill -9 while saving, Ctrl-C, SIGTERM, a full disk. Nothing saved is lost."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from motionkit import runs

TOY = Path(__file__).with_name("toy.py")
ROOT = TOY.parents[2]


def start(*arguments: object) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(TOY), *map(str, arguments)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, cwd=TOY.parent
    )


def finished(*arguments: object) -> tuple[int, str]:
    process = start(*arguments)
    _, errors = process.communicate(timeout=120)
    return process.returncode, errors


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
    assert [part["start_step"] for part in record["attempts"]] == [0, 4]
    assert [part["end_step"] for part in record["attempts"]] == [4, 8]


@pytest.mark.parametrize(("mode", "last_good"), [("die-tensors", 4), ("die-rename", 4), ("die-last", 6)])
def test_kill_9_inside_a_save_loses_no_checkpoint(mode: str, last_good: int, straight: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    assert finished(folder, 8, mode)[0] == -signal.SIGKILL
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
    assert process.stdout is not None
    while process.stdout.readline().strip() != "3":
        pass
    process.send_signal(number)
    process.communicate(timeout=60)
    assert process.returncode == code
    assert (folder / "checkpoints/last").read_text().strip() == "step-00000003"
    info = runs.load(folder)
    assert (info.status, info.record["exit_code"], info.summary["status"]) == ("interrupted", code, "interrupted")
    assert f"motionkit toy --resume {folder}" in (folder / "log.txt").read_text()
    assert in_this_process(folder, 8, "--resume", "plain") == 0
    assert_same_run(folder, straight)


def test_a_second_ctrl_c_stops_at_once(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    process = start(folder, 8, "slow")
    assert process.stdout is not None
    while process.stdout.readline().strip() != "3":
        pass
    process.send_signal(signal.SIGINT)
    # The first signal is said in the log before the second is sent: otherwise the system may merge the two.
    while "stopping after this step" not in (folder / "log.txt").read_text():
        pass
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    assert (folder / "checkpoints/last").read_text().strip() == "step-00000002"
    assert runs.load(folder).status == "interrupted"


def test_a_full_disk_is_one_clear_error_and_the_run_can_go_on(straight: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    code, errors = finished(folder, 8, "small-disk")
    assert code == 1
    assert "error: cannot save the checkpoint of step 6" in errors
    assert "What was saved before is intact" in errors
    assert "Traceback" not in errors
    assert (folder / "checkpoints/last").read_text().strip() == "step-00000004"
    assert not list(folder.rglob(".tmp-*"))
    assert in_this_process(folder, 8, "--resume", "plain") == 0
    assert_same_run(folder, straight)
