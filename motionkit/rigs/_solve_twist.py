"""The turn of a bone about itself over time: the path that fits what is seen of it best without jumping."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Array = NDArray[np.float64]

_BINS = 72
_STIFF, _SMOOTH = 0.3, 0.04
"""Seconds over which a twist goes along with what is seen: in the search for a path, and along it. Where a hinge is
suddenly seen from behind, half a turn takes about twice the first: with less, arms spin round in an instant."""

_CLEAR = 8
"""How sharply evidence is left aside that lies beside the path: a quarter counts at 45 degrees, none at 90. With a
wider reach the line would follow a hinge bent the wrong way on one side of a slow turn, the right way on the other."""

_FASTEST = math.radians(1000.0)
"""Radians per second; and at most `_STEP` from one frame to the next."""

_STEP = math.radians(60.0)


@dataclass(frozen=True)
class Evidence:
    """Something seen of a twist.

    Attributes:
        angle: ``[T]`` radians.
        weight: ``[T]``, 0 for nothing seen to 1 for sure.
    """

    angle: Tensor
    weight: Tensor


def about(axis: Tensor, angle: Tensor) -> Tensor:
    """Return rotations ``[T, 3, 3]`` by ``angle [T]`` about a unit axis ``[3]``."""
    import roma

    rotations: Tensor = roma.rotvec_to_rotmat(angle[:, None] * axis)
    return rotations


def twist_path(evidence: Sequence[Evidence], drift: Tensor, fps: float) -> Tensor:
    """Return the twist ``[T]`` in radians, relative to the same zero as the evidence.

    Angles are compared in a frame that is carried along without any twist of its own (parallel transport), so that a
    constant path is a bone that does not spin, wherever it points. There, dynamic programming over 72 angles finds the
    path with the most evidence at the least motion: it knows no branch cuts, and prefers an elbow that bends the wrong
    way for a moment over an arm that spins round. Along that path a least-squares line follows the evidence between
    the 72 angles, and a limit of 1000 degrees a second (60 a frame) is kept without exception.

    Args:
        evidence: What is seen of the twist.
        drift: ``[T - 1]`` by how much the carried frame twists, relative to the evidence's zero, from each frame to
            the next.
        fps: Frames per second.
    """
    carried = np.concatenate([[0.0], np.cumsum(drift.numpy())])
    angles = np.stack([item.angle.numpy() - carried for item in evidence])
    weights = np.stack([item.weight.numpy() for item in evidence])
    limit = min(_FASTEST / fps, _STEP)
    path = _search(angles, weights, 0.5 * (_STIFF * fps) ** 2, limit)
    path = _follow(path, angles, weights, (_SMOOTH * fps) ** 2)
    return torch.from_numpy(_limit(path, limit) + carried)


def _search(angles: Array, weights: Array, stiffness: float, limit: float) -> Array:
    """Return the best path over a circle of angles, unwrapped."""
    width = 2.0 * math.pi / _BINS
    grid = np.arange(_BINS) * width
    cost = np.zeros((angles.shape[1], _BINS))
    for angle, weight in zip(angles, weights, strict=True):
        cost -= weight[:, None] * np.cos(grid - angle[:, None])
    reach = max(1, int(limit / width))
    steps = np.arange(-reach, reach + 1)
    toll = stiffness * (steps * width) ** 2
    source = (np.arange(_BINS)[:, None] - steps) % _BINS
    # Viterbi over a circle: total[b] = least cost of a path that ends in bin b, choice = the step that led there.
    total = cost[0]
    choice = np.zeros((len(cost), _BINS), dtype=np.int64)
    for frame in range(1, len(cost)):
        ways = total[source] + toll
        choice[frame] = ways.argmin(axis=1)
        total = ways[np.arange(_BINS), choice[frame]] + cost[frame]
    place = int(total.argmin())
    path = np.empty(len(cost))
    turns = 0.0
    for frame in range(len(cost) - 1, -1, -1):
        path[frame] = turns
        step = int(steps[choice[frame, place]])
        turns -= step * width
        place = (place - step) % _BINS
    return path + (int(total.argmin()) * width)


def _follow(path: Array, angles: Array, weights: Array, stiffness: float) -> Array:
    """Return the least-squares line through the evidence near a path: a tridiagonal system, solved in two sweeps."""
    off = (angles - path + math.pi) % (2.0 * math.pi) - math.pi
    # Evidence far from the path (a hinge bent the wrong way) was overruled in the search, and is here.
    believed = weights * (0.5 + 0.5 * np.cos(off)) ** _CLEAR + 1e-9
    weight = believed.sum(axis=0)
    target: Array = path + (believed * off).sum(axis=0) / weight
    count = len(path)
    if count == 1:
        return target
    # Minimises sum w (x - target)^2 + stiffness sum (x_t - x_{t-1})^2.
    diagonal = weight + stiffness * np.where((np.arange(count) == 0) | (np.arange(count) == count - 1), 1.0, 2.0)
    right = weight * target
    for frame in range(1, count):
        factor = stiffness / diagonal[frame - 1]
        diagonal[frame] -= factor * stiffness
        right[frame] += factor * right[frame - 1]
    line = np.empty(count)
    line[-1] = right[-1] / diagonal[-1]
    for frame in range(count - 2, -1, -1):
        line[frame] = (right[frame] + stiffness * line[frame + 1]) / diagonal[frame]
    return line


def _limit(path: Array, step: float) -> Array:
    """Return the path between its two nearest neighbours that change by at most `step` a frame."""
    # The largest line below the path and the smallest above it with steps within the limit; their mean keeps it.
    upper, lower = path.copy(), path.copy()
    for frame in range(1, len(path)):
        upper[frame] = min(upper[frame], upper[frame - 1] + step)
        lower[frame] = max(lower[frame], lower[frame - 1] - step)
    for frame in range(len(path) - 2, -1, -1):
        upper[frame] = min(upper[frame], upper[frame + 1] + step)
        lower[frame] = max(lower[frame], lower[frame + 1] - step)
    middle: Array = 0.5 * (upper + lower)
    return middle
