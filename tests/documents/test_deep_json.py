"""JSON that is nested without end is refused, also where a file is read without `motionkit.documents`."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from motionkit.errors import MotionkitError
from motionkit.text_to_motion.evaluation.heldout import Shown
from motionkit.tracking import last_metrics
from motionkit_predictor.evaluation.kept import Predictions
from motionkit_regions.sa2va.sizes import weight_shapes

DEEP = 2_000 * "[" + 2_000 * "]"


def test_predictions_and_held_out_motions(tmp_path: Path) -> None:
    path = tmp_path / "kept.npz"
    np.savez(path, features=np.zeros((1, 263), np.float32), about=np.array(DEEP))
    for load, what in ((Predictions.load, "predictions"), (Shown.load, "held-out motions")):
        with pytest.raises(MotionkitError, match=f"cannot be read as {what}"):
            load(path)


def test_a_line_of_metrics_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1, "time": 0.0, "loss": 0.5}\n' + DEEP + "\n")
    assert last_metrics(path)["loss"] == 0.5


def test_a_folder_of_weights_has_no_shapes(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(struct.pack("<Q", len(DEEP)) + DEEP.encode())
    assert weight_shapes(tmp_path) == {}
