"""Write the parts of a dataset besides its clips: checked ids, splits without leaks, lists and statistics."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from motionkit.clips.convert._dataset_target import FeatureTarget
from motionkit.clips.convert._outcome import Piece
from motionkit.clips.convert._report import ConvertReport
from motionkit.clips.convert._targets import Target
from motionkit.errors import MotionkitError
from motionkit.motion._clip import ClipSource
from motionkit.motion.corpus._folder import finish_folder
from motionkit.motion.corpus._ids import SPLITS, complete_splits


def check_names(sources: Sequence[ClipSource], target: Target) -> None:
    """Raise MotionkitError if the id of a clip is that of another clip's mirror image."""
    if not (isinstance(target, FeatureTarget) and target.mirrored):
        return
    keys = {source.key for source in sources}
    if both := sorted(key for key in keys if f"M{key}" in keys):
        raise MotionkitError(
            f"the mirror image of {both[0]} would be called M{both[0]}, which is another clip.",
            fix="rename one of them, or leave out --mirror.",
        )


def finish_dataset(folder: Path, target: FeatureTarget, pieces: Sequence[Piece], report: ConvertReport) -> None:
    """Assign splits; write split lists and statistics."""
    groups = {piece.key: piece.group for piece in pieces}
    splits = complete_splits({piece.key: piece.split for piece in pieces}, groups)
    found: dict[str, set[str]] = {}
    for key, group in groups.items():
        found.setdefault(group, set()).add(splits[key])
    if leaks := sorted(group for group, where in found.items() if len(where) > 1):
        report.warnings.append(
            f"{len(leaks)} group(s) are in several splits, so held-out figures will flatter: {', '.join(leaks[:5])}"
        )
    report.uncaptioned = [piece.key for piece in pieces if not piece.captions]
    report.splits = {split: sum(value == split for value in splits.values()) for split in SPLITS}
    if not report.splits["train"]:
        report.warnings.append("the train split is empty: Mean and Std were taken over all clips.")
    finish_folder(folder, splits, target.skeleton)
