"""What a motion is like some time after its start: how it moves, slides, goes and stands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from motionkit.datasets.motions._clips import ClipSet, StateClip
from motionkit.evaluation.mpl._figures import Body
from motionkit.metrics import SHORTEST, leading_joint, lower_slide, movement, movement_share
from motionkit.motion.prediction._state import MotionState, follow, state_positions

SPAN = 2.0
"""Seconds up to a time over which a motion is measured: two periods of the slowest movement, half a hertz."""

FEWEST = 3
"""Clips of a label from which its figures are held to those of real clips."""


@dataclass(frozen=True)
class Looks:
    """What N motions are like over some seconds.

    Attributes:
        movement: ``[N, J]`` metres, see `motionkit.metrics.movement`; NaN below its shortest length.
        slide: ``[N]`` m/s of the lower foot, see `motionkit.metrics.lower_slide`; NaN for a body without known feet.
        speed: ``[N]`` m/s of the root along the ground, mean over frames.
        height: ``[N]`` metres of the root above the floor, mean over frames.
    """

    movement: Tensor
    slide: Tensor
    speed: Tensor
    height: Tensor


def looks(state: MotionState, offsets: Tensor, body: Body) -> Looks:
    """Return what motions are like over all of their frames.

    Args:
        state: ``[N, T, ...]`` float64.
        offsets: ``[N, J, 3]`` metres.
        body: The skeleton.
    """
    count, frames = state.heights.shape
    joints = state_positions(state, offsets, body.parents)
    headings = follow(state.steps)[1]
    moved = movement(joints, headings, torch.full((count,), frames), body.fps)
    slide = joints.new_full((count,), torch.nan)
    if body.feet is not None and frames > 1:
        slide = lower_slide(joints[:, :, list(body.feet)], body.fps)
    speed = body.fps * state.steps[..., :2].norm(dim=-1).mean(1)
    return Looks(moved, slide, speed, state.heights.mean(1))


def looks_at(state: MotionState, ends: Tensor, offsets: Tensor, body: Body) -> Looks:
    """Return what motions are like over the last `SPAN` before frames `ends`, ``[N]`` int64 at least 1."""
    span = max(1, round(SPAN * body.fps))
    parts: list[Looks] = []
    places: list[Tensor] = []
    for end in ends.unique().tolist():
        rows = (ends == end).nonzero()[:, 0]
        part = state.map(lambda values, rows=rows: values[rows]).part(max(0, end - span), end)
        parts.append(looks(part, offsets[rows], body))
        places.append(rows)
    order = torch.cat(places).argsort()
    return Looks(*(torch.cat([getattr(part, name) for part in parts])[order] for name in Looks.__annotations__))


@dataclass(frozen=True)
class RealLabel:
    """What the real clips of a label are like, mean over the clips.

    Attributes:
        clips: How many there are.
        joint: The joint that moves most.
        movement: Metres that it moves; NaN where no clip is long enough.
        slide: As in `Looks`.
        speed: As in `Looks`.
        height: As in `Looks`.
    """

    clips: int
    joint: int
    movement: float
    slide: float
    speed: float
    height: float


def real_labels(clips: ClipSet, wanted: Sequence[str], body: Body) -> dict[str, RealLabel]:
    """Measure the real clips of labels, of all splits: each in stretches of `SPAN`, or whole where it is shorter."""
    found = {}
    for label in dict.fromkeys(wanted):
        own = [one for clip in clips.clips if clip.label == label if (one := _looks_of(clip, body)) is not None]
        joint, moved = leading_joint(torch.stack([one.movement for one in own])) if own else (0, float("nan"))
        means = [_mean([getattr(one, name) for one in own]) for name in ("slide", "speed", "height")]
        found[label] = RealLabel(len(own), joint, moved, *means)
    return found


def _mean(values: Sequence[Tensor]) -> float:
    return float(torch.stack(list(values)).nanmean()) if values else float("nan")


def _looks_of(clip: StateClip, body: Body) -> Looks | None:
    """Return what one clip is like, mean over its stretches; None for one too short to move."""
    frames, span = clip.state.frames, round(SPAN * body.fps)
    if frames < SHORTEST * body.fps:
        return None
    length = min(frames, span)
    starts = torch.arange(0, frames - length + 1, max(1, length // 2))
    rows = starts[:, None] + torch.arange(length)
    parts = clip.state.map(lambda values: values[rows].double())
    found = looks(parts, clip.offsets.expand(len(starts), -1, -1), body)
    return Looks(found.movement.mean(0), found.slide.mean(), found.speed.mean(), found.height.mean())


def shares(found: Looks, labels: Sequence[str], real: Mapping[str, RealLabel]) -> Tensor:
    """Return the `movement` of motions as a share of that of real clips of their labels, ``[N]``; NaN as there."""
    joint = torch.tensor([real[label].joint for label in labels])
    size = found.movement.new_tensor([real[label].movement for label in labels])
    return movement_share(found.movement, joint, size)
