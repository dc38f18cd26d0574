"""Euler angles of BVH channels: to rotation matrices, back without jumps, and the order that avoids gimbal lock."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

_LOCKED = 1e-7
"""Cosine of the middle angle below which the two others turn about one axis and only their sum is known."""

Entry = float | Tensor


def euler_to_matrix(
    order: str,  # one to three letters of ``XYZ``, the first turn first
    angles: Sequence[Tensor],  # one tensor of radians per letter, all of one shape
) -> Tensor:
    """Return ``R_first @ R_second @ ...``: each turn is about the axis as the turns before it left it.

    Entries of the product are kept apart, so that the zeros and ones of a turn about an axis cost nothing.

    Returns:
        ``[..., 9]`` matrices, row by row.
    """
    rows: list[list[Entry]] = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    for axis, angle in zip(order, angles, strict=True):
        cos, sin = angle.cos(), angle.sin()
        j, k = {"X": (1, 2), "Y": (2, 0), "Z": (0, 1)}[axis]
        for row in rows:
            row[j], row[k] = (
                _sum(_times(row[j], cos), _times(row[k], sin)),
                _difference(_times(row[k], cos), _times(row[j], sin)),
            )
    shape = angles[0]
    entries = [entry if isinstance(entry, Tensor) else torch.full_like(shape, entry) for row in rows for entry in row]
    return torch.stack(entries, dim=-1)


def _times(entry: Entry, factor: Tensor) -> Entry:
    if isinstance(entry, Tensor):
        return entry * factor
    return factor if entry == 1.0 else 0.0


def _sum(a: Entry, b: Entry) -> Entry:
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return a + b
    return a if isinstance(a, Tensor) else b


def _difference(a: Entry, b: Entry) -> Entry:
    if isinstance(b, Tensor):
        return a - b if isinstance(a, Tensor) else -b
    return a


def matrix_to_euler(
    rotations: Tensor,  # [T, ..., 3, 3] float64
    order: str,  # three different letters of ``XYZ``, the first turn first
) -> Tensor:
    """Return angles whose turns, each about the axis as the ones before left it, make the given rotations.

    Every rotation has two sets of angles (besides full turns). The first frame has the one with the middle angle
    within 90 degrees; each later frame has the one nearer to its predecessor's, with full turns added so that no angle
    changes by more than half a turn. In gimbal lock the last angle is kept from the frame before.

    Returns:
        ``[T, ..., 3]`` radians.
    """
    # R = R_i(a) R_j(b) R_k(c); sign is -1 for orders that run backwards (XZY, YXZ, ZYX).
    i, j, k = ("XYZ".index(axis) for axis in order)
    sign = 1.0 if (j - i) % 3 == 1 else -1.0
    cos = torch.hypot(rotations[..., i, i], rotations[..., i, j])
    last = torch.atan2(-sign * rotations[..., i, j], rotations[..., i, i])
    last = _keep_while(cos < _LOCKED, last)
    # Undoing the last turn leaves two turns, whose angles can be read off even in gimbal lock.
    c, s = last.cos(), sign * last.sin()
    first = torch.atan2(
        sign * (rotations[..., k, i] * s + rotations[..., k, j] * c),
        rotations[..., j, i] * s + rotations[..., j, j] * c,
    )
    middle = torch.atan2(sign * rotations[..., i, k], rotations[..., i, i] * c - rotations[..., i, j] * s)
    angles = torch.stack([first, middle, last], dim=-1)
    return _unwrap(_nearer_set(angles))


def _keep_while(locked: Tensor, angle: Tensor) -> Tensor:
    """Replace the angle of locked frames by that of the last unlocked frame before; by 0 at the start."""
    if not bool(locked.any()):
        return angle
    frames = torch.arange(len(angle)).view(-1, *[1] * (angle.ndim - 1)).expand_as(angle)
    source = torch.where(locked, torch.full_like(frames, -1), frames).cummax(dim=0).values
    kept = angle.gather(0, source.clamp_min(0))
    return torch.where(source < 0, torch.zeros_like(kept), kept)


def _nearer_set(angles: Tensor) -> Tensor:
    """Choose between ``(a, b, c)`` and ``(a + pi, pi - b, c + pi)`` in each frame.

    Which of the two is nearer does not depend on which one the frame before has: if that is the other one, so are
    both of these. So all frames are compared at once, and the choices follow from the number of changes so far.
    """
    other = torch.stack([angles[..., 0] + math.pi, math.pi - angles[..., 1], angles[..., 2] + math.pi], dim=-1)
    stay = _wrap(angles[1:] - angles[:-1]).square().sum(dim=-1)
    change = _wrap(other[1:] - angles[:-1]).square().sum(dim=-1)
    changes = torch.zeros(angles.shape[:-1], dtype=torch.long)
    changes[1:] = (change < stay - 1e-9).long().cumsum(dim=0)
    return torch.where((changes % 2 == 1)[..., None], other, angles)


def _unwrap(angles: Tensor) -> Tensor:
    """Add full turns so that no angle changes by more than half a turn between frames; the first is within one."""
    start = _wrap(angles[:1])
    return torch.cat([start, start + _wrap(angles[1:] - angles[:-1]).cumsum(dim=0)])


def _wrap(angle: Tensor) -> Tensor:
    """Bring angles into [-pi, pi)."""
    return torch.remainder(angle + math.pi, 2 * math.pi) - math.pi


ORDERS = ("ZYX", "ZXY", "YXZ", "YZX", "XZY", "XYZ")
"""The most wanted first."""

CALM = 60.0
"""Degrees up to which the middle angle may go: there the two others turn at most twice as fast as the joint."""


def choose_orders(
    rotations: Tensor,  # [T, J, 3, 3] local rotations, T > 0
) -> list[str]:
    """Return an order of rotation channels for each joint of a clip.

    The middle one of three Euler angles decides how well they behave: at 90 degrees the two others turn about one
    axis (gimbal lock), and near it they race in opposite directions, so that a program that shows frames between the
    file's own, and blends channels to get them, leaves the motion. Each order has its lock elsewhere. Every joint of a
    BVH file names its channels itself, and Blender, MotionBuilder and three.js go by that.

    One order serves the whole file wherever it may, because simple readers take the first joint's for all: the one
    with which the fewest joints go beyond `CALM`, the earliest of `ORDERS` where several do. Joints that still go
    beyond it take the order in which their own worst middle angle is least.
    """
    worst = torch.stack([_worst_middle(rotations, order) for order in ORDERS])
    common = int((worst > CALM).sum(dim=1).argmin())
    # Rounded, so that joints that never leave one axis do not choose among equals by the last digit.
    best = worst.round(decimals=3).argmin(dim=0)
    chosen = torch.where(worst[common] > CALM, best, common)
    return [ORDERS[place] for place in chosen.tolist()]


def _worst_middle(rotations: Tensor, order: str) -> Tensor:
    """Return the largest size of the middle angle over the clip, ``[J]`` degrees: its sine is one matrix entry."""
    first, last = "XYZ".index(order[0]), "XYZ".index(order[2])
    angle: Tensor = rotations[..., first, last].abs().amax(dim=0).clamp_max(1.0).asin()
    return angle * (180.0 / math.pi)
