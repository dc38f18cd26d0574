"""World rotations of joints from the directions of their bones, with a choice of the twists that bones leave open.

`joint_frames` gives the rotations. A bone leaves the turn about itself open; what shows it is evidence
(`bend_evidence`), and `twist_path` follows that over time without jumps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from motionkit.geometry import bones_from_positions, matrix_from_rotvec, matrix_to_rotvec, rotation_between
from motionkit.rigs._solve_bones import SHORT, directions, steady_procrustes
from motionkit.rigs.rest import RestRig

Array = NDArray[np.float64]

_BINS = 72
_STIFF, _SMOOTH = 0.3, 0.04
"""Time constants in seconds with which a twist follows the evidence: in the search for a path, and along it. If the
evidence flips by half a turn, the twist takes about twice the first; with less, arms spin round in an instant."""

_CLEAR = 8
"""How sharply evidence away from the path is discounted: a quarter counts at 45 degrees, none at 90. With a wider reach
the line would follow a hinge bent the wrong way on one side of a slow turn, the right way on the other."""

_FASTEST = math.radians(1000.0)
"""Radians per second; and at most `_STEP` from one frame to the next."""

_STEP = math.radians(60.0)

_FLAT = 0.02
"""Second singular value over the first below which several bones lie on one line and leave their twist open."""

_WIDE = 2.0
"""Radians from the rest direction above which the smallest rotation to it changes too fast to be followed alone."""

_STRAIGHT, _BENT = math.sin(math.radians(10.0)), math.sin(math.radians(35.0))
"""Sine of the bend at which a hinge has weight 0, and at which it has weight 1."""

_FOOT = 0.3
"""Weight of the foot's direction, relative to a hinge's 1: toes point slightly outwards."""


def joint_frames(pose: Tensor, rig: RestRig, fps: float) -> Tensor:
    """Return world rotations ``[T, J, 3, 3]`` that take the rig's bones to those of a pose, continuous in time.

    Several bones that are not on one line fix their joint's rotation. One bone leaves the turn about itself open:

    - it follows the joint above by the smallest rotation, between pelvis and chest a frame on the way between both;
    - a thigh and an upper arm are turned so that knee and elbow are hinges, with more weight the more they are bent;
    - over time it is the path that fits this best while it neither jumps nor spins (`twist_path`).

    A joint without bones keeps the rotation of the joint above it.

    Args:
        pose: ``[T, J, 3]`` joints of the rig, its bones' lengths constant.
        rig: The J joints.
        fps: Frames per second, for how fast a twist may change.
    """
    bones = bones_from_positions(pose, rig.parents)
    bones[:, 0] = 0.0
    tree = _Directions(rig, directions(bones), fps, {})
    for joint in range(rig.joints):
        children = tree.children(joint)
        if len(children) > 1:
            spread = torch.linalg.svdvals(rig.offsets[children])
            if not spread[1] < _FLAT * spread[0]:  # bones on one line leave their twist open
                tree.known[joint] = steady_procrustes(bones[:, children], rig.offsets[children])
    between = _between_known(tree)
    world: list[Tensor] = []
    start = torch.eye(3, dtype=pose.dtype).expand(len(pose), 3, 3)
    for joint, parent in enumerate(rig.parents):
        above = world[parent] if parent >= 0 else start
        children = tree.children(joint)
        if joint in tree.known:
            world.append(tree.known[joint])
        elif children:
            longest = max(children, key=lambda child: float(rig.offsets[child].norm()))
            world.append(_swing(tree, joint, longest, between.get(joint, above)))
        else:
            world.append(above)
    return torch.stack(world, dim=1)


def to_local(world: Tensor, parents: tuple[int, ...]) -> Tensor:
    """Return local rotations of world rotations ``[T, J, 3, 3]``, the inverse of `accumulate_rotations`."""
    index = [max(parent, 0) for parent in parents]
    local = world[:, index].mT @ world
    local[:, 0] = world[:, 0]
    return local


@dataclass(frozen=True)
class _Directions:
    """Directions of all bones in the world ``[T, J, 3]``, and rotations ``[T, 3, 3]`` fixed by several bones."""

    rig: RestRig
    unit: Tensor
    fps: float
    known: dict[int, Tensor]

    def children(self, joint: int) -> list[int]:
        """Return the joints below that have a bone."""
        lengths = self.rig.offsets.norm(dim=-1)
        return [
            child for child, parent in enumerate(self.rig.parents) if parent == joint and float(lengths[child]) > SHORT
        ]


def _between_known(tree: _Directions) -> dict[int, Tensor]:
    """Interpolate the rotations of joints with one bone that lie on the chain between two known ones."""
    frames: dict[int, Tensor] = {}
    for end in tree.known:
        path, joint = [], tree.rig.parents[end]
        while joint >= 0 and joint not in tree.known:
            path.append(joint)
            joint = tree.rig.parents[joint]
        if joint < 0 or not path:
            continue
        # The turn from the known joint above to the known joint below, spread evenly along the chain.
        turn = matrix_to_rotvec(tree.known[joint].mT @ tree.known[end])
        # The direction of half a turn is ambiguous: near it, the frame fades to that of the joint above.
        surely = (torch.pi - turn.norm(dim=-1, keepdim=True)).clamp(0.0, 1.0)
        turn = turn * surely.square() * (3.0 - 2.0 * surely)
        for place, member in enumerate(reversed(path), start=1):
            frames[member] = tree.known[joint] @ matrix_from_rotvec(turn * (place / (len(path) + 1)))
    return frames


def _swing(tree: _Directions, joint: int, child: int, above: Tensor) -> Tensor:
    """Return the rotations ``[T, 3, 3]`` of a joint with one bone, starting from the frame `above`."""
    rest = torch.nn.functional.normalize(tree.rig.offsets[child], dim=-1)
    direction = (above.mT @ tree.unit[:, child, :, None])[..., 0]
    swing = rotation_between(rest, direction)
    evidence = bend_evidence(tree.rig, tree.unit, joint, rest, above @ swing)
    cosine = direction @ rest
    if not evidence and float(cosine.min()) > math.cos(_WIDE):
        return above @ swing
    # Opposite to the rest direction the smallest rotation is undefined: its twist has weight 0 there.
    trust = 0.05 * (0.5 + 0.5 * cosine).clamp_min(0.0).square()
    evidence = [*evidence, Evidence(torch.zeros_like(trust), trust)]
    # Twist of the smallest rotations from frame to frame, against a frame carried without twist.
    carried = rotation_between(direction[:-1], direction[1:])
    drift = matrix_to_rotvec(swing[1:].mT @ carried @ swing[:-1]) @ rest
    twist = twist_path(evidence, drift, tree.fps)
    return above @ swing @ about(rest, twist)


@dataclass(frozen=True)
class Evidence:
    """A measurement of a twist."""

    angle: Tensor  # ``[T]`` radians
    weight: Tensor  # ``[T]``, from 0 for nothing to 1 for certain


@dataclass(frozen=True)
class _Hinge:
    """A hinge that shows the twist of the ball joint above it."""

    middle: str  # The hinge, knee or elbow
    end: str  # The joint below it, ankle or wrist
    foot: str  # A joint below `end` that points forward at rest, or empty
    forward: float  # +1 if the hinge folds its end forward (+Z at rest), -1 if backward


_HINGES = {
    "left_hip": _Hinge("left_knee", "left_ankle", "left_foot", -1.0),
    "right_hip": _Hinge("right_knee", "right_ankle", "right_foot", -1.0),
    "left_shoulder": _Hinge("left_elbow", "left_wrist", "", 1.0),
    "right_shoulder": _Hinge("right_elbow", "right_wrist", "", 1.0),
    "LH": _Hinge("LK", "LA", "LF", -1.0),
    "RH": _Hinge("RK", "RA", "RF", -1.0),
    "LS": _Hinge("LE", "LW", "", 1.0),
    "RS": _Hinge("RE", "RW", "", 1.0),
}
"""By the joint above the hinge. Other skeletons have none, as their hinges are not known by name."""


def bend_evidence(rig: RestRig, unit: Tensor, joint: int, rest: Tensor, frame: Tensor) -> list[Evidence]:
    """Return the evidence for the twist of `joint` from the hinge below it.

    Args:
        rig: The skeleton.
        unit: ``[T, J, 3]`` directions of all bones in the world.
        joint: The joint that may have a hinge below.
        rest: ``[3]`` unit direction of its bone at rest.
        frame: ``[T, 3, 3]`` the joint's rotation without twist.
    """
    hinge = _HINGES.get(rig.names[joint])
    if hinge is None or not {hinge.middle, hinge.end} <= set(rig.names):
        return []
    ahead = rest.new_tensor([0.0, 0.0, hinge.forward])
    axis = torch.linalg.cross(rest, ahead)
    if float(axis.norm()) < 0.5:
        return []
    axis = axis / axis.norm()
    upper = unit[:, rig.names.index(hinge.middle)]
    lower = unit[:, rig.names.index(hinge.end)]
    normal = torch.linalg.cross(upper, lower, dim=-1)  # the hinge's axis; its length is the sine of the bend
    certain = _ramp(normal.norm(dim=-1))
    evidence = [Evidence(_seen_angle(normal, frame, rest, axis), certain)]
    if hinge.foot in rig.names:
        # The foot points forward from the shank, perpendicular to the knee's axis: evidence while the leg is straight.
        toe = unit[:, rig.names.index(hinge.foot)]
        across = -hinge.forward * torch.linalg.cross(toe, lower, dim=-1)
        size = (across - (across * upper).sum(dim=-1, keepdim=True) * upper).norm(dim=-1)
        evidence.append(Evidence(_seen_angle(across, frame, rest, axis), _FOOT * (1.0 - certain) * _ramp(size)))
    return evidence


def _ramp(sine: Tensor) -> Tensor:
    """Smoothstep from 0 for straight to 1 for bent."""
    part = ((sine - _STRAIGHT) / (_BENT - _STRAIGHT)).clamp(0.0, 1.0)
    return part.square() * (3.0 - 2.0 * part)


def _seen_angle(vector: Tensor, frame: Tensor, rest: Tensor, axis: Tensor) -> Tensor:
    """Return the twist ``[T]`` about `rest` that takes the hinge's axis to a vector in the world."""
    local = (frame.mT @ vector[..., None])[..., 0]
    return torch.atan2(local @ torch.linalg.cross(rest, axis), local @ axis)


def about(axis: Tensor, angle: Tensor) -> Tensor:
    """Return rotations ``[T, 3, 3]`` by ``angle [T]`` about a unit axis ``[3]``."""
    return matrix_from_rotvec(angle[:, None] * axis)


def twist_path(evidence: Sequence[Evidence], drift: Tensor, fps: float) -> Tensor:
    """Return the twist ``[T]`` in radians, relative to the same zero as the evidence.

    Angles are compared in a frame that is carried along without twist (parallel transport), so that a constant path is
    a bone that does not spin, wherever it points. There, dynamic programming over 72 angles finds the path with the
    most evidence at the least motion: it has no branch cuts, and prefers an elbow that bends the wrong way for a moment
    to an arm that spins round. Along that path a least-squares line follows the evidence between the 72 angles, and the
    speed is limited to 1000 degrees per second (60 per frame).

    Args:
        evidence: Measurements of the twist.
        drift: ``[T - 1]`` twist of the carried frame, relative to the evidence's zero, from each frame to the next.
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
    # Evidence far from the path (a hinge bent the wrong way) was overruled in the search, and stays so here.
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
