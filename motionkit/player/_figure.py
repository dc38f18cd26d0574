"""How a track is drawn, on the page and in videos: the camera, and a figure with sizes, limbs, head and path."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from motionkit.motion.motion import nearest_finite
from motionkit.player._track import PlayerTrack
from motionkit.rigs import Side, head_joint, sides
from motionkit.rigs.roles import find_roles

Floats = npt.NDArray[np.float64]

PERSON = 1.7
"""Height in metres to which the radii below refer; they scale with the body."""

_LIMB = 0.14
_THIN, _THICK = 0.007, 0.036
_TRUNK = 0.04
_HEAD = 0.086
_CALM = 0.35
"""Standard deviation in seconds of the Gaussian that smooths the camera's path, so that steps do not shake it."""


@dataclass(frozen=True)
class Camera:
    """A view: an orbit around a point, in perspective. ``camera.js`` is the same in the browser."""

    target: tuple[float, float, float]  # The point at the centre of the picture, metres
    yaw: float  # Radians around the vertical; at 0 the camera is on the +Z side and looks towards -Z
    pitch: float  # Radians above the horizon
    distance: float  # Metres from the target
    width: float  # Pixels
    height: float  # Pixels
    fov: float  # Vertical field of view in radians
    shift: float = 0.0  # Pixels of the target below the centre of the picture

    @property
    def focal(self) -> float:
        """Pixels per metre at a depth of one metre."""
        return self.height / 2 / math.tan(self.fov / 2)

    def axes(self) -> tuple[Floats, Floats]:
        """Return the camera's position ``[3]``, and its right, up and forward directions as rows ``[3, 3]``."""
        sy, cy, sp, cp = math.sin(self.yaw), math.cos(self.yaw), math.sin(self.pitch), math.cos(self.pitch)
        forward = np.array([-sy * cp, -sp, -cy * cp])
        eye = np.array(self.target) - self.distance * forward
        return eye, np.array([[cy, 0.0, -sy], [-sy * sp, cp, -cy * sp], forward])

    def see(self, points: Floats) -> Floats:
        """Return points ``[..., 3]`` of the world in camera space: metres to the right, up and away."""
        eye, axes = self.axes()
        seen: Floats = (points - eye) @ axes.T
        return seen

    def place(self, seen: Floats) -> Floats:
        """Return the pixels ``[..., 2]`` of points that `see` returned; they must be in front of the camera."""
        scale = self.focal / seen[..., 2:]
        placed: Floats = seen[..., :2] * scale * np.array([1.0, -1.0]) + np.array(
            [self.width / 2, self.height / 2 + self.shift]
        )
        return placed


def fit_distance(width: float, height: float, fov: float, tall: float, reach: float, spare: float) -> float:
    """Return the distance from which the whole body is visible.

    Args:
        width: Pixels.
        height: Pixels.
        fov: Vertical field of view in radians.
        tall: Height of the body in metres.
        reach: Metres from its centre to its farthest point, seen from above.
        spare: Height of the texts in pixels.
    """
    slope = math.tan(fov / 2)
    free = max(1 - spare / height, 0.5)
    return max(tall * 0.58 / (slope * free), reach / (slope * width / height)) + reach * 0.3


def panels(count: int, width: float, height: float) -> tuple[int, int]:
    """Return the columns and rows in which `count` upright pictures are largest."""
    sizes = [min(width / columns / 0.85, height / math.ceil(count / columns)) for columns in range(1, count + 1)]
    columns = sizes.index(max(sizes)) + 1
    return columns, math.ceil(count / columns)


@dataclass(frozen=True)
class Head:
    """A ball for the head: `reach` metres beyond joint `at` along the bone from `origin`."""

    at: int
    origin: int
    reach: float
    radius: float


@dataclass(frozen=True)
class Figure:
    """The drawing data of a track."""

    positions: Tensor  # ``[T, J, 3]`` float64 metres; frames in a gap repeat the last good one
    shown: Tensor  # ``[T]`` bool, False for a gap
    root: int  # The first joint without a parent
    bones: tuple[tuple[int, int], ...]  # ``(parent, child)`` pairs
    lone: tuple[int, ...]  # Joints without bones; they are drawn as balls
    # Radius in metres at each joint; a bone tapers from one joint's to the other's.
    radii: tuple[float, ...]
    sides: tuple[Side, ...]  # L, R or ``-`` by which each joint is coloured; collars belong to the trunk
    head: Head | None
    height: float  # Metres between the lowest and the highest joint, over the clip
    middle: float  # Height of the point the camera looks at
    reach: float  # Metres from the path to the farthest joint, seen from above
    follow: Tensor  # ``[T, 2]`` smoothed x and z of the root
    centre: tuple[float, float]  # x and z of the centre of the clip, for a fixed camera
    spread: float  # Metres from `centre` to the farthest joint, seen from above


def figure_of(track: PlayerTrack) -> Figure:
    """Measure a track."""
    shown = track.shown().cpu()
    positions = track.positions.detach().to("cpu", torch.float64)[nearest_finite(shown)]
    sided = _without_collars(sides(track.names or ("",) * len(track.parents)), track)
    low, high = _mostly(positions[..., 1].amin(1), 0.02), _mostly(positions[..., 1].amax(1), 0.98)
    height = max(high - low, 1e-3)
    flat = positions[..., [0, 2]]
    root = next((joint for joint, parent in enumerate(track.parents) if parent < 0), 0)
    follow = _even(flat[:, root], _CALM * track.fps)
    reach = _mostly((flat - follow[:, None]).norm(dim=-1).amax(1), 0.98)
    corners = flat.amin((0, 1)), flat.amax((0, 1))
    centre = (corners[0] + corners[1]) / 2
    lengths = _lengths(positions, track.parents)
    return Figure(
        positions=positions,
        shown=shown,
        root=root,
        bones=tuple((parent, joint) for joint, parent in enumerate(track.parents) if parent >= 0),
        lone=tuple(joint for joint, parent in enumerate(track.parents) if parent < 0 and joint not in track.parents),
        radii=track.radii or _radii(track.parents, lengths, sided, height / PERSON),
        sides=sided,
        head=_head(track, lengths, height / PERSON),
        height=height,
        middle=(low + high) / 2,
        reach=max(reach, 1e-3),
        follow=follow,
        centre=(float(centre[0]), float(centre[1])),
        spread=max(float((flat - centre).norm(dim=-1).max()), 1e-3),
    )


def _without_collars(sided: tuple[Side, ...], track: PlayerTrack) -> tuple[Side, ...]:
    """Assign the joints between trunk and shoulder to the trunk: their bones start at the centre of the chest."""
    if track.radii:  # a robot's limbs begin at their first joint
        return tuple(
            "-" if parent < 0 or sided[parent] == "-" else side
            for parent, side in zip(track.parents, sided, strict=True)
        )
    roles = find_roles(track.names, track.parents)
    middle = set()
    for side in ("left", "right"):
        joint = track.parents[roles[f"{side} shoulder"]] if f"{side} shoulder" in roles else -1
        while joint >= 0 and sided[joint] != "-":
            middle.add(joint)
            joint = track.parents[joint]
    return tuple("-" if joint in middle else side for joint, side in enumerate(sided))


def _mostly(values: Tensor, part: float) -> float:
    """Return a quantile, so that a single bad frame does not determine the view."""
    return float(values[torch.linspace(0, len(values) - 1, min(len(values), 100_000)).long()].quantile(part))


def _even(path: Tensor, sigma: float) -> Tensor:
    """Smooth ``[T, 2]`` with a Gaussian; the ends are padded with their values."""
    if len(path) < 3 or sigma < 0.5:
        return path
    half = max(1, min(int(3 * sigma), len(path) - 1))
    steps = torch.arange(-half, half + 1, dtype=path.dtype)
    weights = torch.exp(-0.5 * (steps / sigma) ** 2)
    padded = torch.cat([path[:1].expand(half, 2), path, path[-1:].expand(half, 2)])
    return torch.conv1d(padded.T[:, None], (weights / weights.sum())[None, None])[:, 0].T


def _lengths(positions: Tensor, parents: tuple[int, ...]) -> list[float]:
    """Return the median length of the bone that ends at each joint, 0 for roots."""
    some = positions[torch.linspace(0, len(positions) - 1, min(len(positions), 50)).long()]
    index = torch.tensor([parent if parent >= 0 else joint for joint, parent in enumerate(parents)])
    return [float(length) for length in (some - some[:, index]).norm(dim=-1).median(dim=0).values]


def _radii(parents: tuple[int, ...], lengths: list[float], sided: tuple[Side, ...], scale: float) -> tuple[float, ...]:
    """Return a radius per joint from the bones that meet there, so that limbs have no steps.

    Long bones are thick. A joint is as thick as the bone after it, or the mean of both bones if that one is thinner
    (ankle, wrist). The trunk has one thickness, independent of its number of joints.
    """
    is_sided = any(side != "-" for side in sided)
    bones = []
    for length, side in zip(lengths, sided, strict=True):
        thinnest = _TRUNK if is_sided and side == "-" else _THIN
        bones.append(min(max(_LIMB * length / scale, thinnest), max(_THICK, thinnest)))
    after = [0.0] * len(parents)
    for joint, parent in enumerate(parents):
        if parent >= 0:
            after[parent] = max(after[parent], bones[joint])
    radii = []
    for parent, bone, thickest, side in zip(parents, bones, after, sided, strict=True):
        if is_sided and side == "-":
            radius = bone
        elif parent < 0 and not thickest:
            radius = _TRUNK  # a single ball
        elif thickest >= bone:
            radius = thickest
        else:
            radius = (bone + thickest) / 2 if thickest else 0.7 * bone
        radii.append(round(radius * scale, 5))
    return tuple(radii)


def _head(track: PlayerTrack, lengths: list[float], scale: float) -> Head | None:
    """Place the head's ball: between the head joint and the end of its bone, or slightly above a last joint."""
    joint = head_joint(track.names)
    if joint < 0 or track.parents[joint] < 0:
        return None
    radius = _HEAD * scale
    above = [child for child, parent in enumerate(track.parents) if parent == joint and lengths[child] > 0.3 * radius]
    if above:
        top = max(above, key=lambda child: lengths[child])
        return Head(top, joint, round(lengths[top] / 2 - lengths[top], 5), round(radius, 5))
    return Head(joint, track.parents[joint], round(0.6 * radius, 5), round(radius, 5))
