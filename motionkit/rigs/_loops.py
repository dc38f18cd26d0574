"""Motions that can be repeated: the best place to cut, both ends blended to meet, and repetitions one after another."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.geometry import matrix_from_rotvec, matrix_to_rotvec, rotate_yaw, yaw_matrix
from motionkit.motion.motion import Motion
from motionkit.rigs.bodymap import body_yaw

SHORTEST = 0.5
"""Seconds of the shortest loop: a running step takes 0.6."""

_FEWEST = 8
"""Frames of the shortest loop."""

_PART = 0.5
"""Smallest part of the clip that a loop covers."""

BLEND = 0.3
"""Seconds at each end that are blended; a third of the loop at most."""

_AHEAD = 0.1
"""Seconds: the weight of a difference of speed relative to one of place."""

_LOOKS = 2000
"""Frames that are compared with each other; longer clips are searched with a stride first."""

_STRAIGHT = math.radians(20.0)
"""Turn between repetitions below which a loop goes straight; people do not walk exactly straight."""


@dataclass(frozen=True)
class Step:
    """How a loop's next repetition is placed: a turn about the vertical axis at the origin, then a shift."""

    yaw: float  # Radians
    shift: Tensor  # ``[3]`` metres, y is 0

    def times(self, motion: Motion, count: int) -> Motion:
        """Return a motion moved on by `count` steps, or back by a negative number."""
        yaw, shift = 0.0, torch.zeros(3, dtype=torch.float64)
        for _ in range(abs(count)):
            if count > 0:
                shift = rotate_yaw(shift, torch.tensor(self.yaw, dtype=torch.float64)) + self.shift
                yaw += self.yaw
            else:
                shift = rotate_yaw(shift - self.shift, torch.tensor(-self.yaw, dtype=torch.float64))
                yaw -= self.yaw
        return turned(motion, yaw, shift)


class Loop(NamedTuple):
    """A motion that can be repeated."""

    motion: Motion  # N + 1 frames, the last of which is the first one of the next repetition
    step: Step  # From the first frame to the last
    start: int  # First frame in the clip that it was cut from
    stop: int  # Frame of that clip that matched the first one
    # Metres between a joint at the seam and its linear extrapolation from the two frames before, mean over the joints,
    # without blending.
    cut: float
    seam: float  # The same with blending
    seam_most: float  # The same, largest joint
    inside: float  # The same, median over the frames of the loop


def turned(motion: Motion, yaw: float, shift: Tensor | None = None) -> Motion:
    """Return a motion turned about the vertical axis at the origin by `yaw` radians, then shifted (``[3]`` metres)."""
    root = torch.tensor([parent < 0 for parent in motion.parents])
    angle = torch.tensor(yaw, dtype=torch.float64)
    places = rotate_yaw(motion.translations, angle)
    if shift is not None:
        places = places + shift
    return replace(
        motion,
        rotations=torch.where(root[:, None, None], yaw_matrix(angle) @ motion.rotations, motion.rotations),
        translations=torch.where(root[:, None], places, motion.translations),
    )


def make_loop(motion: Motion) -> Loop:
    """Cut a motion where it can be repeated best, and blend both ends to meet.

    Of all pairs of frames at least half of the clip apart, the pair is taken whose poses and speeds relative to the
    body are most alike. The difference is shared by the first 0.3 s and the last: a cubic in time brings pose and speed
    of both ends to their mean and leaves the rest unchanged. A loop continues where it ends; one that turns by less
    than 20 degrees goes straight.

    Args:
        motion: Finite, in metres, Y up.

    Example:
        >>> from motionkit.motion import HUMANML, JointMotion
        >>> from motionkit.rigs import solve
        >>> from motionkit.starter import generate
        >>> walk = generate("walk", frames=80)
        >>> joints = JointMotion(HUMANML.joint_names, HUMANML.parents, torch.from_numpy(walk.joints), walk.fps)
        >>> loop = make_loop(solve(joints).motion)
        >>> loop.seam < 2 * loop.inside
        True
    """
    fps = motion.fps
    least = max(_FEWEST, round(SHORTEST * fps), math.ceil(_PART * (motion.frames - 1)))
    if motion.frames <= max(_FEWEST, round(SHORTEST * fps)):
        raise MotionkitError(
            f"{motion.frames} frames ({motion.frames / fps:.2g} s) are too short for a loop.",
            why=f"a loop has at least {SHORTEST:g} s and {_FEWEST} frames.",
            fix="take a longer part of the motion.",
        )
    positions = motion.positions()
    yaw = body_yaw(motion, positions)
    assert yaw is not None, "a motion with rotations has a heading"
    start, stop = _best(_seen(positions, yaw), fps, least)
    change = float(torch.remainder(yaw[stop] - yaw[start] + math.pi, 2 * math.pi) - math.pi)
    change = change if abs(change) > _STRAIGHT else 0.0
    root = motion.parents.index(-1)
    first, last = motion.translations[start, root], motion.translations[stop, root]
    flat = torch.tensor([1.0, 0.0, 1.0], dtype=torch.float64)
    step = Step(change, flat * (last - rotate_yaw(first, torch.tensor(change, dtype=torch.float64))))
    part = motion.cut(start, stop + 1)
    bent = _bent(part, step)
    return Loop(bent, step, start, stop, seam_of(part, step)[0], *seam_of(bent, step))


def repeated(loop: Motion, step: Step, times: int) -> Motion:
    """Return a loop `times` over, each repetition where the one before ends, and the first frame once more."""
    parts = [step.times(loop.cut(0, loop.frames - 1), number) for number in range(times)]
    parts.append(step.times(loop.cut(0, 1), times))
    tracks = {name: torch.cat([part.tracks[name] for part in parts]) for name in loop.tracks}
    return replace(
        loop,
        rotations=torch.cat([part.rotations for part in parts]),
        translations=torch.cat([part.translations for part in parts]),
        tracks=tracks,
    )


def _seen(positions: Tensor, yaw: Tensor) -> Tensor:
    """Return joints ``[T, J, 3]`` relative to the ground below the root, in the body's heading."""
    below = positions[:, :1] * torch.tensor([1.0, 0.0, 1.0], dtype=positions.dtype)
    return rotate_yaw(positions - below, -yaw[:, None])


def _best(seen: Tensor, fps: float, least: int) -> tuple[int, int]:
    """Return the two frames, at least `least` apart, whose poses and speeds are most alike."""
    speed = torch.zeros_like(seen)
    speed[1:-1] = (seen[2:] - seen[:-2]) * (fps / 2)
    speed[0], speed[-1] = (seen[1] - seen[0]) * fps, (seen[-1] - seen[-2]) * fps
    rows = torch.cat([seen, _AHEAD * speed], dim=-1).flatten(1)
    stride = max(1, math.ceil(len(rows) / _LOOKS))
    starts = stops = torch.arange(0, len(rows), stride)
    start, stop = _closest(rows, starts, stops, least)
    if stride > 1:
        near = torch.arange(-stride, stride + 1)
        starts, stops = ((near + place).clamp(0, len(rows) - 1).unique() for place in (start, stop))
        start, stop = _closest(rows, starts, stops, least)
    return start, stop


def _closest(rows: Tensor, starts: Tensor, stops: Tensor, least: int) -> tuple[int, int]:
    distance = torch.cdist(rows[starts], rows[stops])
    distance = distance.masked_fill(stops[None] - starts[:, None] < least, torch.inf)
    place = int(distance.argmin())
    return int(starts[place // len(stops)]), int(stops[place % len(stops)])


def _bent(loop: Motion, step: Step) -> Motion:
    """Blend pose and speed of both ends to their mean."""
    frames = loop.frames
    root = loop.parents.index(-1)
    width = max(1, min(round(BLEND * loop.fps), (frames - 1) // 3))
    turns, places = loop.rotations, loop.translations
    # The last three frames, moved back by one step onto the first one.
    ended = step.times(loop.cut(frames - 3), -1)

    def at_end(near: Tensor, far: Tensor) -> Tensor:
        """Return the speed at an end from its two nearest steps: that of the parabola through three frames."""
        return 1.5 * near - 0.5 * far

    spins = matrix_to_rotvec(turns[[0, 1, -2, -3]].mT @ turns[[1, 2, -1, -2]])  # [4, J, 3]
    steps, goes = places[1:3] - places[:2], ended.translations.diff(dim=0)
    value = matrix_to_rotvec(turns[0].mT @ ended.rotations[2])  # [J, 3]
    slope = at_end(spins[2], spins[3]) - at_end(spins[0], spins[1])
    shift = ended.translations[2] - places[0]
    drift = at_end(goes[1], goes[0]) - at_end(steps[0], steps[1])
    part = torch.arange(width + 1, dtype=torch.float64) / width
    holds = 2 * part**3 - 3 * part**2 + 1
    # Scaled so that the first step, which may be a large part of the width, has the whole slope.
    leans = (part**3 - 2 * part**2 + part) * width / max((1 - 1 / width) ** 2, 0.25)
    turn = 0.5 * (holds[:, None, None] * value + leans[:, None, None] * slope)
    move = 0.5 * (holds[:, None, None] * shift + leans[:, None, None] * drift)
    # Backwards from the end time is reversed: the value changes its sign, the slope twice.
    back_turn = 0.5 * (-holds[:, None, None] * value + leans[:, None, None] * slope)
    back_move = 0.5 * (-holds[:, None, None] * shift + leans[:, None, None] * drift)
    onward = torch.where(
        torch.tensor([joint == root for joint in range(len(loop.names))])[:, None],
        rotate_yaw(back_move, torch.tensor(step.yaw, dtype=torch.float64)),
        back_move,
    )
    rotations, translations = turns.clone(), places.clone()
    rotations[: width + 1] = turns[: width + 1] @ matrix_from_rotvec(turn)
    translations[: width + 1] += move
    rotations[frames - 1 - width :] = turns[frames - 1 - width :] @ matrix_from_rotvec(back_turn).flip(0)
    translations[frames - 1 - width :] += onward.flip(0)
    made = replace(loop, rotations=rotations, translations=translations)
    # Removes rounding: the last frame is exactly the first one of the next repetition.
    last = step.times(made.cut(0, 1), 1)
    rotations[-1], translations[-1] = last.rotations[0], last.translations[0]
    return replace(made, rotations=rotations, translations=translations)


def _misses(positions: Tensor) -> Tensor:
    """Return the distance ``[F - 2, J]`` of joints from their linear extrapolation."""
    misses: Tensor = (positions[2:] - 2 * positions[1:-1] + positions[:-2]).norm(dim=-1)
    return misses


def seam_of(loop: Motion, step: Step) -> tuple[float, float, float]:
    """Return `seam`, `seam_most` and `inside` of a loop (see `Loop`), of the worse of the two frames at the seam."""
    two = repeated(loop, step, 2)
    middle = loop.frames - 1
    misses = _misses(two.cut(middle - 2, middle + 2).positions())
    mean = misses.mean(-1)
    worst = int(mean.argmax())
    inside = _misses(loop.positions()).mean(-1).median()
    return float(mean[worst]), float(misses[worst].max()), float(inside)
