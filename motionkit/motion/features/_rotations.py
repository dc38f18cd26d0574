"""The rotations of a feature row: each bone's smallest turn from rest, relative to the bone before it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from motionkit.motion._skeleton import Skeleton

_SCALE = 2.0**0.25
"""Length of the quaternions below: products of two then have the length whose squares are rotation entries. A
quaternion (1 + cosine, ...) of a unit direction has the squared length 2 (1 + cosine) before it is scaled."""

_TINY = 1e-30

_FAR = 0.1
"""Value of 1 + cosine below which a bone counts as pointing against its rest direction."""


def local_turns(directions: Tensor, angle: Tensor, skeleton: Skeleton) -> Tensor:
    """Return 6D rotations, ``[J - 1, 6, F]``: the first two columns of each local rotation.

    The smallest turn from rest to a direction is the half-angle quaternion ``(1 + u.v, u x v)``. HumanML3D's root
    quaternion takes the world into the heading frame, and its chains start from that very quaternion, not from its
    inverse; recovery from rotations undoes it the same way. Opposite directions have no smallest turn: half a turn
    about an axis at right angles is taken there (the peer divides by zero).

    Args:
        directions: ``[J - 1, 3, F]`` unit vectors from each joint's parent.
        angle: ``[F]`` turn from the world into the heading frame, radians.
        skeleton: Their body.
    """
    body = _tables(skeleton, directions.dtype, directions.device)
    # Six rows: w, x, y, z and x, y again, so that cross products are products of shifted slices.
    turns = torch.baddbmm(body.one, body.products, directions)
    if not turns[:, 0].amin().item() >= _FAR:
        turns = _opposite(turns, body.across)
    turns = turns * (turns[:, :1] * math.sqrt(2.0)).rsqrt()  # to length 2^(1/4), see _SCALE
    zero = torch.zeros_like(angle)
    cos, sin = _SCALE * torch.cos(0.5 * angle), _SCALE * torch.sin(0.5 * angle)
    heading = torch.stack([cos, zero, sin, zero, zero, sin])
    # A local rotation is conj(q_before) q_own: the turn of the bone before it in the chain, undone first.
    before = turns.index_select(0, body.before)
    before = before.index_copy(0, body.heads, heading.expand(len(body.heads), -1, -1))
    # Real part w0 w1 + v0.v1, vector part w0 v1 - w1 v0 - v0 x v1.
    w = (before[:, 0] * turns[:, 0]).addcmul(before[:, 1], turns[:, 1])
    w = w.addcmul(before[:, 2], turns[:, 2]).addcmul(before[:, 3], turns[:, 3])
    v = (before[:, :1] * turns[:, 1:4]).addcmul(turns[:, :1], before[:, 1:4], value=-1)
    v = v.addcmul(before[:, 2:5], turns[:, 3:6], value=-1).addcmul(before[:, 3:6], turns[:, 2:5])
    x, y, z = v.unbind(1)
    # The product has length sqrt(2): x x here is the 2 x x of the unit quaternion in the entries of a rotation.
    xx, yy, zz = (v * v).unbind(1)
    wx, wy, wz = (w[:, None] * v).unbind(1)
    xy, xz, yz, rest = x * y, x * z, y * z, 1.0 - zz
    return torch.stack([rest - yy, xy + wz, xz - wy, xy - wz, rest - xx, yz + wx], dim=1)


def _opposite(turns: Tensor, across: Tensor) -> Tensor:
    """Compute 1 + cosine anew where it is small, without its rounding; give opposite directions an axis."""
    w, axis = turns[:, :1], turns[:, 1:4]
    square = axis.square().sum(dim=1, keepdim=True)
    opposite = (w < _FAR) & (square.sqrt() <= 1e-7)
    w = torch.where(w < _FAR, square / (2.0 - w), w).masked_fill(opposite, _TINY)
    axis = torch.where(opposite, across * math.sqrt(2.0 * _TINY), axis)
    return torch.cat([w, axis, axis[:, :2]], dim=1)


@dataclass(frozen=True)
class _RestTables:
    """What a skeleton contributes, one entry per joint without the root.

    Attributes:
        products: ``[J - 1, 6, 3]``, takes a direction v to (u.v, u x v) and the first two of u x v again.
        one: ``[J - 1, 6, 1]``, 1 in the first row.
        across: ``[J - 1, 3, 1]``, an axis at right angles to u.
        before: ``[J - 1]`` joint whose turn a joint's own counts from; any for the heads.
        heads: Joints that count from the heading.
    """

    products: Tensor
    one: Tensor
    across: Tensor
    before: Tensor
    heads: Tensor


@lru_cache(maxsize=8)
def _tables(skeleton: Skeleton, dtype: torch.dtype, device: torch.device) -> _RestTables:
    rest = torch.tensor(skeleton.raw_offsets, dtype=dtype, device=device)[1:]
    eye = torch.eye(3, dtype=dtype, device=device)
    cross = torch.linalg.cross(rest[:, None], eye.expand(len(rest), 3, 3), dim=-1).transpose(1, 2)
    one = torch.zeros(len(rest), 6, 1, dtype=dtype, device=device)
    one[:, 0] = 1.0
    across = torch.linalg.cross(rest, eye[rest.abs().argmin(dim=1)], dim=-1)
    before = torch.tensor([parent - 1 for parent in skeleton.rotation_parents[1:]], device=device)
    return _RestTables(
        torch.cat([rest[:, None], cross, cross[:, :2]], dim=1).contiguous(),
        one,
        across[..., None],
        before.clamp_min(0),
        (before < 0).nonzero()[:, 0],
    )
