"""Where a prediction along a path begins: the clip and the frame that move as the path does at first.

A predictor goes on as the known frames went. From a body that stands it cannot follow a path that walks: it glides.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from motionkit.motion.corpus.ids import Split
from motionkit_predictor.data.clips import ClipSet, StateClip

SPLITS: tuple[Split, ...] = ("val", "train")
"""Where a start is looked for, in this order: validation clips were not trained on."""

_FIRST = 1.0
"""Seconds of the path, and at most of the known frames, that are compared."""

_PER_RADIAN = 0.5
"""Metres that a radian counts for, as in the loss `place`."""

_FITS, _FITS_AT_LEAST = 0.25, 0.1
"""A start fits if its velocity is off by at most this share of the path's first speed, or by so many m/s."""

_STANDS = 0.2
"""m/s below which a body is said to stand."""


class Way(NamedTuple):
    """How a root goes, in its own heading."""

    left: float  # m/s
    ahead: float  # m/s
    turn: float  # radians per second to the left

    @property
    def speed(self) -> float:
        """Return metres per second along the ground."""
        return math.hypot(self.left, self.ahead)

    def fits(self, wanted: Way) -> bool:
        """Return whether a root that goes so can begin a path that goes as `wanted`."""
        off = math.hypot(self.left - wanted.left, self.ahead - wanted.ahead)
        return off <= max(_FITS * wanted.speed, _FITS_AT_LEAST)

    def words(self) -> str:
        """Return what it does."""
        return "stands" if self.speed < _STANDS else f"goes {self.speed:.1f} m/s{self._direction()}"

    def _direction(self) -> str:
        angle = abs(math.degrees(math.atan2(self.left, self.ahead)))
        return "" if angle < 45 else " backward" if angle > 135 else " sideways"


class PathStart(NamedTuple):
    """Known frames that a path may begin from."""

    clip: StateClip
    frame: int  # the first known one
    way: Way  # how the last second of them goes


def first_way(path: Tensor, fps: float) -> Way:
    """Return how a path, ``[F, 3]`` steps as in `MotionState`, goes in its first second.

    The turn of its first step, from the body's heading to the path's, is left out if there are more.
    """
    first = path[: max(1, round(_FIRST * fps))].double() * fps
    left, ahead = first[:, :2].mean(0).tolist()
    return Way(left, ahead, float(first[1:, 2].mean()) if len(first) > 1 else float(first[0, 2]))


def start_at(clips: ClipSet, clip: StateClip, frame: int, known: int) -> PathStart:
    """Return the start from a frame of a clip."""
    span = min(known, round(_FIRST * clips.fps))
    steps = clip.state.steps[frame + known - span : frame + known] * clips.fps
    return PathStart(clip, frame, Way(*steps.mean(0).tolist()))


def find_start(clips: ClipSet, wanted: Way, known: int, splits: Sequence[Split] = SPLITS) -> PathStart | None:
    """Return the start that goes as `wanted` most nearly, of the first of `splits` where one fits.

    Nearest is the least mean over the last second of known frames: metres per second that each frame's velocity is
    off, and half of the radians per second that its turn is off.

    Args:
        clips: The clips.
        wanted: How the path goes.
        known: Known frames of a start.
        splits: Where to look; if no start fits, the nearest of all is returned.

    Returns:
        The start; None if every clip is shorter than `known` frames.
    """
    span = min(known, round(_FIRST * clips.fps))
    scale = torch.tensor([1.0, 1.0, _PER_RADIAN], dtype=torch.float64)
    best: tuple[float, PathStart] | None = None
    for split in splits:
        for clip in clips.clips:
            if clip.split != split or clip.state.frames < known:
                continue
            off = (clip.state.steps.double() * clips.fps - torch.tensor(wanted, dtype=torch.float64)) * scale
            cost = off[:, :2].norm(dim=-1) + off[:, 2].abs()
            means = cost[known - span :].unfold(0, span, 1).mean(-1)
            frame = int(means.argmin())
            if best is None or float(means[frame]) < best[0]:
                best = float(means[frame]), start_at(clips, clip, frame, known)
        if best is not None and best[1].way.fits(wanted):
            break
    return None if best is None else best[1]
