"""The folder of an evaluation of a classifier: its document, and the film strips of the worst errors."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from motionkit.evaluation._folder import write_record
from motionkit.evaluation.reward._report import RewardReport
from motionkit.evaluation.reward._strips import FILE, save_strips
from motionkit.runs import disk_errors


def write_reward_folder(path: Path, document: Mapping[str, Any], report: RewardReport) -> None:
    """Write ``evaluation.json`` and ``strips.npz``.

    Raises:
        MotionkitError: They cannot be written (exit code 1).
    """
    write_record(path, "reward", document)
    with disk_errors("write the evaluation", path):
        save_strips(path / FILE, report.strips)
