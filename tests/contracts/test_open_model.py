"""Devices and models that a command is given by name."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from motionkit import runs, starter
from motionkit.contracts.device import resolve_device
from motionkit.contracts.open_model import export_model, open_model
from motionkit.errors import MotionkitError
from motionkit.runs._record import RunRecord
from motionkit.text_to_motion.evaluator.files import load_evaluator, save_evaluator
from motionkit.text_to_motion.mdm.open import open_policy
from motionkit.text_to_motion.mdm.settings import MDMOptions

from ..made.evaluators import release


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run folder with a policy, one checkpoint and nothing else."""
    policy = open_policy(MDMOptions())
    folder = tmp_path / "run"
    step = folder / "checkpoints" / "step-00000007"
    step.mkdir(parents=True)
    policy.save(folder / "policy", tensors=False)
    (folder / "policy" / runs.TENSORS).unlink(missing_ok=True)
    (step / "state.json").write_text("{}")
    (folder / "checkpoints" / "last").write_text("step-00000007\n")
    policy.save(tmp_path / "whole")
    (step / runs.TENSORS).write_bytes((tmp_path / "whole" / runs.TENSORS).read_bytes())
    record = RunRecord.new("grpo", {})
    record.write(folder)
    (folder / "config.json").write_text("{}")
    return folder


def test_a_policy_is_found_wherever_it_lies(run: Path, tmp_path: Path) -> None:
    for path in (run, run / "checkpoints/step-00000007", run / "policy"):
        found = open_model(str(path))
        assert (found.kind, found.plugin) == ("policies", "mdm")
        assert found.run is not None
        assert found.run.command == "grpo"
        assert "step 7" in found.what
        assert "made by `motionkit grpo`" in found.describe()
    assert open_model(str(tmp_path / "whole")).run is None
    assert open_model("starter").plugin == "mdm"


def test_a_tmr_is_no_policy(tmp_path: Path) -> None:
    found = open_model(str(starter.weights_path("tmr")))
    assert (found.kind, found.plugin, found.what) == ("rewards", "tmr-dense", "a TMR")
    with pytest.raises(MotionkitError, match="cannot be exported to mdm"):
        export_model(str(starter.weights_path("tmr")), "mdm", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_an_evaluator_is_no_policy(tmp_path: Path) -> None:
    file = release(tmp_path) / "t2m/text_mot_match/model/finest.tar"
    save_evaluator(tmp_path / "run" / "evaluator", load_evaluator(file))
    for path in (file, tmp_path / "run", tmp_path / "run" / "evaluator"):
        found = open_model(str(path))
        assert (found.kind, found.plugin) == ("rewards", "mdm-matching")
        assert "evaluator" in found.what


def _run_of(command: str, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    RunRecord.new(command, {}).write(folder)
    (folder / "config.json").write_text("{}")


@pytest.mark.parametrize(
    ("command", "place", "name", "word"),
    [
        ("", "", "no", "does not exist"),
        ("train-mpl", "runs/train-mpl/mine", "mine", f"give {Path('runs/train-mpl/mine')}, the run"),
        ("", "", ".", "neither a model's folder nor a run"),
        ("pretrain tmr", ".", ".", "no policy of motions"),
    ],
)
def test_what_is_no_model_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, place: str, name: str, word: str
) -> None:
    monkeypatch.chdir(tmp_path)
    if command:
        _run_of(command, tmp_path / place)
    with pytest.raises(MotionkitError) as raised:
        open_model(name)
    assert word in raised.value.sentence()


def test_a_file_is_named_by_its_tensors(tmp_path: Path) -> None:
    torch.save({"input_process.poseEmbedding.weight": torch.zeros(4, 263)}, tmp_path / "model.pt")
    assert "MDM" in open_model(str(tmp_path / "model.pt")).what


def test_a_format_that_the_policy_lacks(run: Path, tmp_path: Path) -> None:
    with pytest.raises(MotionkitError) as error:
        export_model(str(run), "fbx", tmp_path / "out")
    assert "mdm" in error.value.fix


def test_devices_that_are_here() -> None:
    assert resolve_device("cpu") == torch.device("cpu")
    assert resolve_device("auto").type in ("cpu", "cuda", "mps")


@pytest.mark.parametrize("device", ["cuda:99", "99"])
def test_a_device_that_is_not_here_is_refused_with_those_that_are(device: str) -> None:
    with pytest.raises(MotionkitError) as caught:
        resolve_device(device)
    assert caught.value.code == 2
    assert "cpu" in caught.value.why


def test_a_name_that_is_no_device_is_refused() -> None:
    with pytest.raises(MotionkitError, match="not a device"):
        resolve_device("gpu")


def test_a_cuda_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert [str(resolve_device(name)) for name in ("auto", "cuda", "1")] == ["cuda:0", "cuda:0", "cuda:1"]
    with pytest.raises(MotionkitError, match="not on this machine"):
        resolve_device("cuda:2")
