"""Whole motions turned, scaled, mirrored, brought to one place, and freed of jitter."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.geometry import nearest_rotation, positions_from_bones
from motionkit.motion.motion import Motion
from motionkit.rigs._loops import Step, turned
from motionkit.rigs.bodymap import body_height, front_of
from motionkit.rigs.roles import body_joints, find_roles, mirror_order

_PATH = 0.5
"""Standard deviation, in seconds, of the Gaussian that separates a path from the sway of steps (0.4 to 0.6 s each)."""

CUTOFF = 10.0
"""Hz above which movement is jitter: a runner's joints hardly move faster (Winter, Biomechanics, 2009)."""

_ORDER = 3


def scaled(motion: Motion, height: float) -> Motion:
    """Return a motion of a body that is `height` metres tall when it stands; its path is scaled with it."""
    rest = positions_from_bones(motion.offsets, motion.parents)
    current = body_height(motion.names, motion.parents, rest)
    if current <= 0:
        raise MotionkitError(
            "the height of the body is not known, so it cannot be changed.",
            why="legs and head are not found by their names.",
            fix="name them in a table: convert --check IN --write-joint-map FILE, then convert --joint-map FILE.",
        )
    factor = height / current
    return replace(motion, offsets=factor * motion.offsets, translations=factor * motion.translations)


def mirrored(motion: Motion) -> Motion:
    """Return the mirror image of a motion: left and right of the body are swapped, and x with -x.

    The rest pose is mirrored at the body's middle plane, so that a symmetric rig keeps its rest pose. Tracks, which may
    belong to a side, are left out.
    """
    order = mirror_order(motion.names)
    if any(motion.parents[joint] >= 0 and order[motion.parents[joint]] != motion.parents[order[joint]]
           for joint in range(len(order))):  # fmt: skip
        raise MotionkitError("the rig has no mirror image.", why="its left and right joints do not hang alike.")
    across = torch.diag(torch.tensor([-1.0, 1.0, 1.0], dtype=torch.float64))
    rest = positions_from_bones(motion.offsets, motion.parents)[None]
    plane = across
    if (front := front_of(rest, find_roles(motion.names, motion.parents))) is not None and bool(front[1][0]):
        yaw = float(front[0][0])
        normal = torch.tensor([math.cos(yaw), 0.0, -math.sin(yaw)], dtype=torch.float64)
        plane = torch.eye(3, dtype=torch.float64) - 2 * normal[:, None] * normal
    joints = list(order)
    root = torch.tensor([parent < 0 for parent in motion.parents])
    inner = plane @ motion.rotations[:, joints] @ plane
    rotations = torch.where(root[:, None, None], across @ motion.rotations[:, joints] @ plane, inner)
    bones = motion.translations[:, joints] @ plane
    translations = torch.where(root[:, None], motion.translations[:, joints] @ across, bones)
    return replace(
        motion, offsets=motion.offsets[joints] @ plane, rotations=rotations, translations=translations, tracks={}
    )


def root_below_body(motion: Motion) -> Motion:
    """Return a motion whose root travels below the pelvis, in the world the same, where it stayed behind on the ground.

    What is done with a path, a turn or a seam is done with the root. Motions whose root is the pelvis are unchanged.
    """
    pelvis, root = body_joints(motion.names, motion.parents)[0], motion.parents.index(-1)
    if pelvis == root:
        return motion
    away = motion.positions()[:, pelvis] - motion.translations[:, root]
    away = away * torch.tensor([1.0, 0.0, 1.0], dtype=torch.float64)
    children = [joint for joint, parent in enumerate(motion.parents) if parent == root]
    places = motion.translations.clone()
    places[:, root] += away
    places[:, children] -= (motion.rotations[:, root].mT @ away[..., None]).mT
    return replace(motion, translations=places)


def in_place(motion: Motion, step: Step | None = None) -> Motion:
    """Return a motion without its path over the ground; heights, heading and the sway of steps stay.

    Args:
        motion: In metres, Y up.
        step: Of a loop, from its first frame to its last. It is removed evenly, so that the loop ends where it began
            and a standing foot moves back at constant speed. Without it, the path is that of the root, smoothed by a
            Gaussian of 0.5 s.
    """
    root = motion.parents.index(-1)
    flat = torch.tensor([1.0, 0.0, 1.0], dtype=torch.float64)
    if step is None:
        path = _smoothed(motion.translations[:, root], _PATH * motion.fps) * flat
        places = motion.translations.clone()
        places[:, root] -= path
        made = replace(motion, translations=places)
    else:
        made = _taken_back(motion, step)
    places = made.translations.clone()
    places[:, root] -= places[:, root].mean(0) * flat
    return replace(made, translations=places)


def _taken_back(motion: Motion, step: Step) -> Motion:
    """Return frame k of F without k / (F - 1) of a step: along an arc if the step turns, else along a line."""
    parts = torch.arange(motion.frames, dtype=torch.float64) / (motion.frames - 1)
    if step.yaw == 0:
        root = motion.parents.index(-1)
        places = motion.translations.clone()
        places[:, root] -= parts[:, None] * step.shift
        return replace(motion, translations=places)
    # The step is a turn about its fixed point: (1 - turn) centre = shift.
    cos, sin = math.cos(step.yaw), math.sin(step.yaw)
    matrix = torch.tensor([[1 - cos, -sin], [sin, 1 - cos]], dtype=torch.float64)
    centre = torch.zeros(3, dtype=torch.float64)
    centre[[0, 2]] = torch.linalg.solve(matrix, step.shift[[0, 2]])
    around = turned(motion, 0.0, -centre)
    frames = [turned(around.cut(k, k + 1), -float(part) * step.yaw) for k, part in enumerate(parts)]
    return replace(
        motion,
        rotations=torch.cat([frame.rotations for frame in frames]),
        translations=torch.cat([frame.translations for frame in frames]),
    )


def _smoothed(values: Tensor, deviation: float) -> Tensor:
    """Return ``[T, C]`` smoothed by a Gaussian; padding by point reflection, which keeps a constant speed."""
    reach = math.ceil(4 * deviation)
    count = len(values)
    place = torch.arange(-reach, count + reach)
    # A point reflection at each end, repeated if the clip is shorter than the window.
    period = 2 * max(count - 1, 1)
    turn, inside = torch.div(place, period, rounding_mode="floor"), torch.remainder(place, period)
    back = inside >= count
    index = torch.where(back, period - inside, inside).clamp_max(count - 1)
    first, last = values[0], values[-1]
    rows = torch.where(back[:, None], 2 * last - values[index], values[index])
    rows = rows + 2 * turn[:, None] * (last - first)
    offsets = torch.arange(-reach, reach + 1, dtype=values.dtype)
    kernel = torch.exp(-0.5 * (offsets / deviation).square())
    return rows.unfold(0, 2 * reach + 1, 1) @ (kernel / kernel.sum())


def without_jitter(motion: Motion) -> Motion:
    """Return a motion without movement above 10 Hz: rotations and places low-pass filtered, without delay.

    A Savitzky-Golay filter: the value of the least-squares cubic of the frames around each. It keeps the peaks of
    slower movements; at the ends the last full window's cubic is used. The window is the longest that leaves half the
    power at the cutoff, and at least five frames.
    """
    half = 2  # a cubic interpolates fewer frames exactly
    while _gain(half + 1, CUTOFF / motion.fps) >= 0.5**0.5:
        half += 1
    half = min(half, (motion.frames - 1) // 2)
    if half < 2:
        return motion
    turns = _fitted(motion.rotations.flatten(1), half).view_as(motion.rotations)
    places = _fitted(motion.translations.flatten(1), half).view_as(motion.translations)
    still = (motion.translations - motion.translations[:1]).abs().amax(dim=(0, 2)) == 0
    places = torch.where(still[:, None], motion.translations, places)
    return replace(motion, rotations=nearest_rotation(turns), translations=places)


def _gain(half: int, frequency: float) -> float:
    """Return the filter's gain at a frequency in periods per frame."""
    place = torch.arange(-half, half + 1, dtype=torch.float64)
    return float(_hat(half)[half] @ torch.cos(2 * math.pi * frequency * place))


def _hat(half: int) -> Tensor:
    """Return the hat matrix of a cubic fit to `2 half + 1` values."""
    place = torch.arange(-half, half + 1, dtype=torch.float64) / half
    powers = place[:, None] ** torch.arange(_ORDER + 1)
    hat: Tensor = powers @ torch.linalg.pinv(powers)
    return hat


def _fitted(values: Tensor, half: int) -> Tensor:
    """Return ``[T, C]``: each window's cubic at its middle; at the ends, that of the first and last window."""
    width = 2 * half + 1
    hat = _hat(half).to(values)
    inside = values.unfold(0, width, 1) @ hat[half]
    return torch.cat([hat[:half] @ values[:width], inside, hat[half + 1 :] @ values[-width:]])
