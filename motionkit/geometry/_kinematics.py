"""Trees of joints: rotations accumulated by depth, positions by one product with the ancestor matrix."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import torch
from torch import Tensor


def accumulate_rotations(local: Tensor, parents: Sequence[int]) -> Tensor:
    """Multiply local rotations down a tree: ``global[j] = global[parent(j)] @ local[j]``.

    Works level by level, so that the number of steps is the depth of the tree and not the number of joints.

    Args:
        local: ``[..., J, 3, 3]``.
        parents: Parent of each joint; -1 for a root. A parent need not come before its children.

    Returns:
        ``[..., J, 3, 3]`` rotations in the frame of the roots' parent.
    """
    levels, order = _levels(tuple(parents))
    done = [local[..., list(levels[0][0]), :, :]]
    for joints, places in levels[1:]:
        # Rotations of one depth at once: [..., joints of the level, 3, 3].
        done.append(done[-1][..., list(places), :, :] @ local[..., list(joints), :, :])
    # Levels were computed in order of depth; back to the order of the joints.
    return torch.cat(done, dim=-3)[..., list(order), :, :]


def rotations_above(local: Tensor, parents: Sequence[int]) -> Tensor:
    """Return the accumulated rotation of the parent of each joint but joint 0, ``[..., J - 1, 3, 3]``.

    Joints without children are not computed; they are about half of a body with fingers.

    Args:
        local: ``[..., J, 3, 3]``.
        parents: Parent of each joint, -1 for joint 0 alone.
    """
    inner = sorted(set(parents[1:]))
    place = {joint: index for index, joint in enumerate(inner)}
    world = accumulate_rotations(local[..., inner, :, :], [place.get(parents[joint], -1) for joint in inner])
    return world[..., [place[parent] for parent in parents[1:]], :, :]


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
    """Return ``[J, J]`` float64 whose row j marks j and everything above it."""
    matrix = torch.eye(len(parents), dtype=torch.float64)
    for joint in range(len(parents)):
        above = parents[joint]
        while above >= 0:
            matrix[joint, above] = 1.0
            above = parents[above]
    return matrix


@lru_cache(maxsize=64)
def _levels(parents: tuple[int, ...]) -> tuple[tuple[tuple[tuple[int, ...], tuple[int, ...]], ...], tuple[int, ...]]:
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
    return tuple(levels), tuple(order.index(joint) for joint in range(len(parents)))
