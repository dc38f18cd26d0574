"""The clips that ``--data`` names."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from motionkit.datasets.base import Split
from motionkit.datasets.motions._clips import ClipSet
from motionkit.datasets.motions._read import read_clip_set
from motionkit.datasets.motions._starter import starter_clip_set
from motionkit.errors import MotionkitError

STARTER = "starter"
FPS = 30.0
"""Rate of starter clips where ``--fps 0`` keeps the clips' own."""


def open_clip_set(
    names: Sequence[str],
    fps: float,
    splits: Sequence[Split] = ("train", "val", "test"),
    *,
    retarget: str = "",
) -> ClipSet:
    """Open the clips that ``--data`` names.

    Args:
        names: Files and folders, or the word ``starter`` alone.
        fps: Frames per second to bring the clips to; 0 keeps the rate that they all have (starter: 30).
        splits: Splits of the starter that are made; files are read whole.
        retarget: As in `read_clip_set`.

    Raises:
        MotionkitError: As `read_clip_set`; ``starter`` was given with files.
    """
    if STARTER not in names:
        return read_clip_set([Path(name) for name in names], fps=fps, retarget=retarget)
    if len(names) > 1:
        raise MotionkitError("--data starter was given with other data.", fix="give one of them.")
    return starter_clip_set(fps or FPS, splits)
