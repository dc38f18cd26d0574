"""Rotations, headings and kinematic trees, all batched and differentiable.

Rotations are matrices inside motionkit; 6D, w-first quaternions and rotation vectors are at its interfaces. Headings
are turns about the vertical axis (+Y). Rotations are accumulated down a tree level by level, positions by one product
with the ancestor matrix.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import torch
from torch import Tensor


def accumulate_rotations(local: Tensor, parents: Sequence[int]) -> Tensor:
    """Multiply local rotations down a tree: ``global[j] = global[parent(j)] @ local[j]``.

    Works level by level, so the number of steps is the depth of the tree, not the number of joints.

    Args:
        local: ``[..., J, 3, 3]``.
        parents: Parent of each joint; -1 for a root. A parent need not come before its children.

    Returns:
        ``[..., J, 3, 3]`` rotations in the frame of the roots' parent.
    """
    levels, order = _levels(tuple(parents), local.device)
    done = [local.index_select(-3, levels[0][0])]
    for joints, places in levels[1:]:
        # Rotations of one depth at once: [..., joints of the level, 3, 3].
        done.append(done[-1].index_select(-3, places) @ local.index_select(-3, joints))
    # From the order of depth back to the order of the joints.
    return torch.cat(done, dim=-3).index_select(-3, order)


def rotations_above(local: Tensor, parents: Sequence[int]) -> Tensor:
    """Return the accumulated rotation of the parent of each joint except joint 0, ``[..., J - 1, 3, 3]``.

    Leaf joints, about half of a body with fingers, are not computed.

    Args:
        local: ``[..., J, 3, 3]``.
        parents: Parent of each joint, -1 for joint 0 only.
    """
    inner, above, places = _inner(tuple(parents), local.device)
    return accumulate_rotations(local.index_select(-3, inner), above).index_select(-3, places)


def positions_from_bones(bones: Tensor, parents: Sequence[int]) -> Tensor:
    """Add bone vectors along the path from the root: ``position[j] = position[parent(j)] + bone[j]``.

    Args:
        bones: ``[..., J, 3]``; the root's entry is its position.
        parents: Parent of each joint; -1 for a root.

    Returns:
        ``[..., J, 3]`` positions.

    Example:
        >>> bones = torch.tensor([[0.0, 1, 0], [0, 0.5, 0], [0, 0.25, 0]])  # a root and a chain of two above it
        >>> positions_from_bones(bones, parents=[-1, 0, 1])[:, 1]
        tensor([1.0000, 1.5000, 1.7500])
    """
    return ancestors(tuple(parents)).to(bones) @ bones


def bones_from_positions(positions: Tensor, parents: Sequence[int]) -> Tensor:
    """Return the vector from each joint's parent to the joint, ``[..., J, 3]``; a root keeps its position."""
    index = [parent if parent >= 0 else joint for joint, parent in enumerate(parents)]
    root = torch.tensor([parent < 0 for parent in parents], device=positions.device)[:, None]
    return torch.where(root, positions, positions - positions[..., index, :])


@lru_cache(maxsize=64)
def ancestors(parents: tuple[int, ...]) -> Tensor:
    """Return ``[J, J]`` float64 whose row j is 1 for j and its ancestors, else 0."""
    matrix = torch.eye(len(parents), dtype=torch.float64)
    for joint in range(len(parents)):
        above = parents[joint]
        while above >= 0:
            matrix[joint, above] = 1.0
            above = parents[above]
    return matrix


@lru_cache(maxsize=64)
def _levels(parents: tuple[int, ...], device: torch.device) -> tuple[list[tuple[Tensor, Tensor]], Tensor]:
    """Return (joints, places of their parents in the level above) per depth, and each joint's place overall."""
    current = tuple(joint for joint, parent in enumerate(parents) if parent < 0)
    levels: list[tuple[tuple[int, ...], tuple[int, ...]]] = [(current, ())]
    order = list(current)
    while current:
        below = tuple(joint for joint, parent in enumerate(parents) if parent in current)
        if below:
            levels.append((below, tuple(current.index(parents[joint]) for joint in below)))
            order.extend(below)
        current = below
    rows = [(_index(joints, device), _index(places, device)) for joints, places in levels]
    return rows, _index([order.index(joint) for joint in range(len(parents))], device)


@lru_cache(maxsize=64)
def _inner(parents: tuple[int, ...], device: torch.device) -> tuple[Tensor, tuple[int, ...], Tensor]:
    """Return the joints that have others below, their parents among them, and each joint's parent among them."""
    inner = sorted(set(parents[1:]))
    place = {joint: index for index, joint in enumerate(inner)}
    above = tuple(place.get(parents[joint], -1) for joint in inner)
    return _index(inner, device), above, _index([place[parent] for parent in parents[1:]], device)


@torch.inference_mode(False)  # kept and used again, also where gradients are wanted
def _index(places: Sequence[int], device: torch.device) -> Tensor:
    return torch.tensor(places, dtype=torch.long, device=device)


def matrix_from_6d(six: Tensor) -> Tensor:
    """Turn 6D rotations into matrices by Gram-Schmidt (Zhou et al., CVPR 2019).

    Args:
        six: ``[..., 6]``: the first column of the matrix, then the second; they need not be orthonormal.

    Returns:
        ``[..., 3, 3]`` rotation matrices.

    Example:
        >>> matrix_from_6d(torch.tensor([1.0, 0, 0, 0, 1, 0]))
        tensor([[1., 0., 0.],
                [0., 1., 0.],
                [0., 0., 1.]])
    """
    first, second = six[..., :3], six[..., 3:]
    x = first / first.norm(dim=-1, keepdim=True)
    second = second - (x * second).sum(-1, keepdim=True) * x
    y = second / second.norm(dim=-1, keepdim=True)
    return torch.stack([x, y, torch.linalg.cross(x, y, dim=-1)], dim=-1)


def matrix_to_6d(matrix: Tensor) -> Tensor:
    """Return the first two columns of ``[..., 3, 3]`` matrices, one after the other: ``[..., 6]``."""
    return matrix[..., :2].transpose(-1, -2).flatten(-2)


def matrix_from_quaternion(wxyz: Tensor) -> Tensor:
    """Turn quaternions ``[..., 4]`` in (w, x, y, z) order, of any length, into matrices ``[..., 3, 3]``."""
    w, x, y, z = (wxyz / wxyz.norm(dim=-1, keepdim=True)).unbind(-1)
    rows = [
        [x * x - y * y - z * z + w * w, 2 * (x * y - z * w), 2 * (x * z + y * w)],
        [2 * (x * y + z * w), y * y - x * x - z * z + w * w, 2 * (y * z - x * w)],
        [2 * (x * z - y * w), 2 * (y * z + x * w), z * z - x * x - y * y + w * w],
    ]
    return torch.stack([torch.stack(row, dim=-1) for row in rows], dim=-2)


def matrix_to_quaternion(matrix: Tensor) -> Tensor:
    """Turn matrices ``[..., 3, 3]`` into unit quaternions ``[..., 4]`` in (w, x, y, z) order.

    Of the four rows of 4 q q^T, which are linear in the matrix, the one of q's largest part is divided by its length
    (Markley 2008): there is no root of a small number, for any rotation.
    """
    (xx, xy, xz), (yx, yy, yz), (zx, zy, zz) = (row.unbind(-1) for row in matrix.unbind(-2))
    rows = [
        [1 + xx + yy + zz, zy - yz, xz - zx, yx - xy],
        [zy - yz, 1 + xx - yy - zz, xy + yx, xz + zx],
        [xz - zx, xy + yx, 1 - xx + yy - zz, yz + zy],
        [yx - xy, xz + zx, yz + zy, 1 - xx - yy + zz],
    ]
    outer = torch.stack([torch.stack(row, dim=-1) for row in rows], dim=-2)
    largest = outer.diagonal(dim1=-2, dim2=-1).argmax(-1)
    chosen = outer.gather(-2, largest[..., None, None].expand(*largest.shape, 1, 4)).squeeze(-2)
    unit: Tensor = chosen / chosen.norm(dim=-1, keepdim=True)
    return unit


_SMALL = 1e-8
"""Squared angle below which two terms of a series are exact in float64, and quotients of sines would be 0 / 0."""


def matrix_from_rotvec(vectors: Tensor) -> Tensor:
    """Turn rotation vectors ``[..., 3]``, axis times radians, into matrices ``[..., 3, 3]`` (Rodrigues).

    Example:
        >>> quarter = matrix_from_rotvec(torch.tensor([0.0, 0, torch.pi / 2]))
        >>> (quarter @ torch.tensor([2.0, 0, 0])).allclose(torch.tensor([0.0, 2, 0]), atol=1e-6)
        True
    """
    square = vectors.square().sum(-1)
    small = square < _SMALL
    angle = torch.where(small, 1.0, square).sqrt()
    # sin a / a and (1 - cos a) / a^2; the second by the half angle, where nothing cancels.
    sine = torch.where(small, 1 - square / 6, angle.sin() / angle)
    cosine = torch.where(small, 0.5 - square / 24, 2 * ((angle / 2).sin() / angle).square())
    x, y, z = (sine[..., None] * vectors).unbind(-1)
    none = torch.zeros_like(x)
    rows = [torch.stack(row, dim=-1) for row in ((none, -z, y), (z, none, -x), (-y, x, none))]
    outer = vectors[..., :, None] * vectors[..., None, :]
    eye = torch.eye(3, dtype=vectors.dtype, device=vectors.device)
    return (1 - cosine * square)[..., None, None] * eye + torch.stack(rows, dim=-2) + cosine[..., None, None] * outer


def matrix_to_rotvec(matrix: Tensor) -> Tensor:
    """Turn matrices ``[..., 3, 3]`` into rotation vectors ``[..., 3]`` of at most pi radians.

    Half a turn has two of them; its gradient is that of the one returned.
    """
    quaternion = matrix_to_quaternion(matrix)
    quaternion = torch.where(quaternion[..., :1] > 0, quaternion, -quaternion)
    w, axis = quaternion[..., 0], quaternion[..., 1:]
    square = axis.square().sum(-1)  # sine of half the angle, squared
    small = square < _SMALL
    sine = torch.where(small, 1.0, square).sqrt()
    scale = torch.where(small, 2 + square / 3, 2 * torch.atan2(sine, w) / sine)
    return scale[..., None] * axis


def nearest_rotation(matrix: Tensor) -> Tensor:
    """Return the rotations nearest to matrices ``[..., 3, 3]``: R that makes trace(R^T M) largest. Not for gradients.

    By the singular value decomposition (Kabsch 1976).
    """
    left, _, right = torch.linalg.svd(matrix)
    sign = torch.linalg.det(left @ right).sign()
    turned = torch.cat([left[..., :2], left[..., 2:] * sign[..., None, None]], dim=-1)
    nearest: Tensor = turned @ right
    return nearest


def angle_between(first: Tensor, second: Tensor) -> Tensor:
    """Return the angles ``[...]`` in radians between rotations ``[..., 3, 3]``.

    By the length of their difference, 2 sqrt(2) sin(angle / 2), which is exact near 0.
    """
    half = (second - first).norm(dim=(-2, -1)) / math.sqrt(8.0)
    angle: Tensor = 2.0 * half.clamp(max=1.0).asin()
    return angle


def rotation_between(source: Tensor, target: Tensor) -> Tensor:
    """Return the smallest rotation that takes the direction of `source` to that of `target`.

    It uses the half-angle quaternion ``[|u||v| + u.v, u x v]``, as HumanML3D does. For opposite directions, whose
    smallest rotation is not unique, half a turn about an axis perpendicular to `source` is returned (HumanML3D's code
    divides by zero). A zero vector gives the identity.

    Args:
        source: ``[..., 3]``, any length.
        target: ``[..., 3]``, any length; broadcasts with `source`.

    Returns:
        ``[..., 3, 3]`` matrices.

    Example:
        >>> up, forward = torch.tensor([0.0, 1, 0]), torch.tensor([0.0, 0, 1])
        >>> (rotation_between(up, forward) @ up).allclose(forward, atol=1e-6)
        True
    """
    product = source * target
    source, target = source.expand_as(product), target.expand_as(product)
    lengths = (source.square().sum(-1) * target.square().sum(-1)).sqrt()
    axis = torch.linalg.cross(source, target, dim=-1)
    # (w, x, y, z) of half the angle: |u||v| + u.v and u x v, not yet of length 1.
    quaternion = torch.cat([(lengths + product.sum(-1))[..., None], axis], dim=-1)
    opposite = (quaternion.norm(dim=-1) <= 1e-7 * lengths)[..., None]
    quaternion = torch.where(opposite, _half_turn(source), quaternion)
    quaternion = torch.where((lengths == 0)[..., None], quaternion.new_tensor([1.0, 0.0, 0.0, 0.0]), quaternion)
    return matrix_from_quaternion(quaternion)


def _half_turn(direction: Tensor) -> Tensor:
    """Return a (w, x, y, z) quaternion of half a turn about an axis perpendicular to `direction`."""
    helper = torch.zeros_like(direction)
    # The coordinate axis furthest from `direction`; the cross product of both is perpendicular to it.
    helper.scatter_(-1, direction.abs().argmin(dim=-1, keepdim=True), 1.0)
    axis = torch.linalg.cross(direction, helper, dim=-1)
    return torch.cat([torch.zeros_like(axis[..., :1]), axis], dim=-1)


def rotate_yaw(vectors: Tensor, angle: Tensor) -> Tensor:
    """Rotate vectors about +Y by `angle` radians; +Z turns towards +X.

    Args:
        vectors: ``[..., 3]``.
        angle: Broadcasts with ``vectors[..., 0]``.

    Returns:
        ``[..., 3]``.
    """
    x, y, z = vectors.unbind(-1)
    cos, sin = torch.cos(angle), torch.sin(angle)
    turned = x * cos + z * sin
    return torch.stack([turned, y.expand_as(turned), z * cos - x * sin], dim=-1)


def yaw_matrix(angle: Tensor) -> Tensor:
    """Return the matrices ``[..., 3, 3]`` of turns by `angle` (``[...]``, radians) about +Y."""
    cos, sin = torch.cos(angle), torch.sin(angle)
    zero, one = torch.zeros_like(cos), torch.ones_like(cos)
    rows = [torch.stack(row, dim=-1) for row in ((cos, zero, sin), (zero, one, zero), (-sin, zero, cos))]
    return torch.stack(rows, dim=-2)


def heading(forward: Tensor) -> Tensor:
    """Return the yaw ``[...]`` in (-pi, pi] of forward directions ``[..., 3]``; +Z is 0, +X is pi/2.

    Example:
        >>> heading(torch.tensor([[0.0, 0, 1], [1, 0, 0]]))
        tensor([0.0000, 1.5708])
    """
    return torch.atan2(forward[..., 0], forward[..., 2])


def unwrap(angles: Tensor) -> Tensor:
    """Return angles ``[T]`` in radians without jumps of whole turns; the first one is unchanged."""
    steps = angles.diff()
    turns = (steps / (2 * torch.pi)).round() * (2 * torch.pi)
    return angles - torch.nn.functional.pad(turns.cumsum(0), (1, 0))
