"""Output options of `convert`, and checks for options that have no effect."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from motionkit.clips.convert._files import FileKind
from motionkit.errors import MotionkitError
from motionkit.motion._skeleton import HUMANML, KIT

DatasetKind = Literal["humanml", "kit"]
_RATES = {"humanml": HUMANML.fps, "kit": KIT.fps}


@dataclass(frozen=True)
class Wishes:
    """Output options; each is refused where it has no effect.

    Attributes:
        fps: Frames per second; 0 keeps each clip's own, joints get 20. Datasets have a fixed rate.
        bvh_unit: Unit of BVH files.
        min_frames: Shorter clips are left out of a folder of files.
        mirror: Datasets: also each clip's mirror image.
        fix: Cut each clip to its longest clean run.
        overwrite: Replace the file, or the files of an earlier conversion in the folder.
    """

    fps: float = 0.0
    bvh_unit: Literal["cm", "m"] = "cm"
    min_frames: int = 1
    mirror: bool = False
    fix: bool = False
    overwrite: bool = False


def refuse_for_datasets(kind: DatasetKind, wishes: Wishes) -> None:
    """Raise MotionkitError for options that have no effect on datasets."""
    rate = _RATES[kind]
    if wishes.fps not in (0.0, rate):
        raise MotionkitError(f"--fps {wishes.fps:g}: {kind} has {rate:g} frames per second.", fix="leave --fps out.")
    if wishes.min_frames != 1:
        raise MotionkitError(f"--min-frames does not act with --to {kind}.", why="its loaders fix the shortest clip.")
    if wishes.bvh_unit != "cm":
        raise MotionkitError(f"--bvh-unit does not act with --to {kind}.", fix="leave it out.")


def refuse_for_files(kind: FileKind, wishes: Wishes, *, single: bool) -> None:
    """Raise MotionkitError for options that have no effect on this format, or on a single file."""
    if wishes.mirror:
        raise MotionkitError(f"--mirror does not act with --to {kind}.", fix="it belongs to humanml and kit.")
    if wishes.bvh_unit != "cm" and kind != "bvh":
        raise MotionkitError(f"--bvh-unit does not act with --to {kind}.", fix="leave it out.")
    if wishes.min_frames != 1 and single:
        raise MotionkitError(
            "--min-frames does not act where OUT is a single file.",
            why="it leaves short clips out of a folder.",
            fix="leave it out, or give a folder as OUT.",
        )


def refuse_for_check(given: Mapping[str, object]) -> None:
    """Refuse output options together with ``--check``.

    Args:
        given: Options to their values; those that are empty, 0 or False were not given.

    Raises:
        MotionkitError: One was given.
    """
    if names := [name for name, value in given.items() if value]:
        raise MotionkitError(
            f"--check does not go together with {', '.join(names)}.",
            why="it writes nothing.",
            fix="check first; then convert with --fix to keep the longest clean run of each clip.",
        )
