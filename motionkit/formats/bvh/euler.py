"""Euler angles of BVH channels: to rotation matrices, back without jumps, and the order that avoids gimbal lock."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

_LOCKED = 1e-7
"""Cosine of the middle angle below which it is gimbal lock: only the sum of the two others is determined."""

Entry = float | Tensor


def euler_to_matrix(order: str, angles: Sequence[Tensor]) -> Tensor:
    """Return ``R_first @ R_second @ ...`` (intrinsic rotations).

    Entries of the product are kept apart, so that the zeros and ones of an elementary rotation cost nothing.

    Args:
        order: One to three letters of ``XYZ``, the first turn first.
        angles: One tensor of radians for each letter, all of one shape.

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


def matrix_to_euler(rotations: Tensor, order: str) -> Tensor:
    """Return the Euler angles (intrinsic rotations) of the given rotations, without jumps over time.

    Every rotation has two sets of angles (modulo full turns). The first frame has the one with the middle angle within
    90 degrees; each later frame has the one nearer to its predecessor's, with full turns added so that no angle changes
    by more than half a turn. In gimbal lock the last angle is kept from the frame before.

    Args:
        rotations: ``[T, ..., 3, 3]`` float64.
        order: Three different letters of ``XYZ``, the first turn first.

    Returns:
        ``[T, ..., 3]`` radians.
    """
    # R = R_i(a) R_j(b) R_k(c); sign is -1 for orders that run backwards (XZY, YXZ, ZYX).
    i, j, k = ("XYZ".index(axis) for axis in order)
    sign = 1.0 if (j - i) % 3 == 1 else -1.0
    cos = torch.hypot(rotations[..., i, i], rotations[..., i, j])
    last = torch.atan2(-sign * rotations[..., i, j], rotations[..., i, i])
    last = _keep_while(cos < _LOCKED, last)
    # Undoing the last turn leaves two turns, whose angles are determined even in gimbal lock.
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

    Whether to change the set between two frames does not depend on the set of the first: the distances are the same
    for both. So all frames are compared at once, and the choice is the parity of the number of changes so far.
    """
    twin = torch.stack([angles[..., 0] + math.pi, math.pi - angles[..., 1], angles[..., 2] + math.pi], dim=-1)
    stay = _wrap(angles[1:] - angles[:-1]).square().sum(dim=-1)
    change = _wrap(twin[1:] - angles[:-1]).square().sum(dim=-1)
    changes = torch.zeros(angles.shape[:-1], dtype=torch.long)
    changes[1:] = (change < stay - 1e-9).long().cumsum(dim=0)
    return torch.where((changes % 2 == 1)[..., None], twin, angles)


def _unwrap(angles: Tensor) -> Tensor:
    """Add full turns so that no angle changes by more than half a turn between frames."""
    start = _wrap(angles[:1])
    return torch.cat([start, start + _wrap(angles[1:] - angles[:-1]).cumsum(dim=0)])


def _wrap(angle: Tensor) -> Tensor:
    """Bring angles into [-pi, pi)."""
    return torch.remainder(angle + math.pi, 2 * math.pi) - math.pi


ORDERS = ("ZYX", "ZXY", "YXZ", "YZX", "XZY", "XYZ")
"""The most common first."""

CALM = 60.0
"""Largest middle angle in degrees: up to it the two others turn at most twice as fast as the joint."""


def choose_orders(rotations: Tensor) -> list[str]:
    """Return an order of rotation channels for each joint of a clip.

    If the middle of three Euler angles is 90 degrees, the two others turn about the same axis (gimbal lock); near it
    they change fast in opposite directions, so that a program that interpolates channels between frames leaves the
    motion. Each order has its lock elsewhere. Every joint of a BVH file names its channels, and Blender, MotionBuilder
    and three.js follow that.

    One order is used for the whole file if possible, because simple readers take the first joint's for all: the one
    with which the fewest joints exceed `CALM`, the earliest of `ORDERS` on ties. Joints that still exceed it take the
    order with their smallest maximum of the middle angle.

    Args:
        rotations: ``[T, J, 3, 3]`` local rotations, T > 0.
    """
    worst = torch.stack([_worst_middle(rotations, order) for order in ORDERS])
    common = int((worst > CALM).sum(dim=1).argmin())
    # Rounded, so that rounding errors do not break ties for joints that turn about a single axis.
    best = worst.round(decimals=3).argmin(dim=0)
    chosen = torch.where(worst[common] > CALM, best, common)
    return [ORDERS[place] for place in chosen.tolist()]


def _worst_middle(rotations: Tensor, order: str) -> Tensor:
    """Return the largest size of the middle angle over the clip, ``[J]`` degrees: its sine is one matrix entry."""
    first, last = "XYZ".index(order[0]), "XYZ".index(order[2])
    angle: Tensor = rotations[..., first, last].abs().amax(dim=0).clamp_max(1.0).asin()
    return angle * (180.0 / math.pi)
