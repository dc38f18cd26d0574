"""A run goes on with the content that it began with, or not at all; evaluations leave out what it was trained on."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from motionkit.formats.mpl import write_mpl_npz
from motionkit.motion import Clip
from motionkit.starter import Order, perform
from motionkit_predictor.data.files import _motion
from motionkit_predictor.training.trainer import TrainMpl
from tests.made.commands import assert_refused

TINY = {
    "train-mpl": (
        "--encoder none --num-steps 2 --set model.width=32 --set model.head=delta --set train.seq_len=34 "
        "--set train.known=20 --batch-size 16 --set train.val_stride=20 --set train.long=[] --set checkpoint.every=1"
    ),
    "pretrain mpl-encoder": "--num-steps 2 --set checkpoint.every=1",
}


def write(folder: Path, number: int, split: str, *, seed: int) -> None:
    made = _motion(perform([Order("walk/normal", 60, seed)], fps=30.0)[0])
    write_mpl_npz(folder / f"clip{number:02d}.npz", Clip(made, split=split), source_hash="")


@pytest.fixture
def clips(tmp_path: Path) -> Path:
    (folder := tmp_path / "clips").mkdir()
    for number in range(6):
        write(folder, number, "train" if number < 4 else "val", seed=number)
    return folder


@pytest.fixture(autouse=True)
def _unmeasured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs of two steps do not fit the baselines, which takes much longer."""
    monkeypatch.setattr(TrainMpl, "_finish", lambda *_: {"table": []})


@pytest.mark.parametrize("command", TINY)
def test_other_clips_at_the_same_path_are_refused(
    command: str, clips: Path, tmp_path: Path, cli: Callable[..., Any]
) -> None:
    out = tmp_path / "run"
    done = cli(*command.split(), "--data", clips, *TINY[command].split(), "--out", out)
    assert done.exit_code == 0, done.stderr
    assert json.loads((out / "run.json").read_text())["inputs"]["data"]
    half = out / "checkpoints/step-00000001"
    shutil.copytree(clips, tmp_path / "kept")
    write(clips, 1, "train", seed=99)
    assert_refused(
        cli(*command.split(), "--resume", half), f"the content of data ({clips}) has changed since the run began"
    )
    assert cli(*command.split(), "--resume", half, "--data", tmp_path / "kept").exit_code == 0


def test_eval_mpl_leaves_out_training_clips(clips: Path, tmp_path: Path, cli: Callable[..., Any]) -> None:
    out, other = tmp_path / "run", tmp_path / "other"
    assert cli("train-mpl", "--data", clips, *TINY["train-mpl"].split(), "--out", out).exit_code == 0
    other.mkdir()
    for number in range(3):
        write(other, number, "val", seed=number)  # trained on
    words = ["eval", "mpl", out, "--data", other, "--horizons", "100,200", "--long", ""]
    assert_refused(cli(*words), "the model was trained on all 3 clips of the val split")
    write(other, 3, "val", seed=50)
    shown = cli(*words, "--json")
    assert shown.exit_code == 0, shown.stderr
    document = json.loads(shown.stdout)
    assert document["clips"] == 1
    assert document["notes"][0] == "left out 3 of 4 clips that the model was trained on."
