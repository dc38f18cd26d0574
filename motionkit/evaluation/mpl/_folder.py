"""The folder of an evaluation: its document, and predictions to look at."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from motionkit.evaluation._folder import write_record
from motionkit.evaluation.mpl._kept import FILE, Predictions
from motionkit.runs import disk_errors


def write_folder(path: Path, document: Mapping[str, Any], predictions: Predictions) -> None:
    """Write ``evaluation.json`` and ``predictions.npz``.

    Raises:
        MotionkitError: They cannot be written (exit code 1).
    """
    write_record(path, "mpl", document)
    with disk_errors("write the evaluation", path):
        predictions.save(path / FILE)
