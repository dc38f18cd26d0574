"""Measures of a track that the page and the video draw from: size, limbs, head, path."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from motionkit.motion.frames import nearest_finite
from motionkit.player._track import PlayerTrack
from motionkit.rigs import Side, head_joint, sides
from motionkit.rigs._roles import find_roles

PERSON = 1.7
"""Metres of a body at which the radii below hold; other bodies scale them."""

_LIMB = 0.14
_THIN, _THICK = 0.007, 0.036
_TRUNK = 0.04
_HEAD = 0.086
_CALM = 0.35
"""Seconds (standard deviation) over which the camera evens out the root's path, so that steps do not shake it."""


@dataclass(frozen=True)
class Head:
    """A ball that stands for the head: `reach` metres from joint `at` along the bone that ends there."""

    at: int
    origin: int
    reach: float
    radius: float


@dataclass(frozen=True)
class Figure:
    """A track as it is drawn.

    Attributes:
        positions: ``[T, J, 3]`` float64 metres; frames that cannot be shown repeat the last good one.
        shown: ``[T]`` bool, False for a gap.
        root: The first joint without a parent.
        bones: ``(parent, child)`` pairs.
        lone: Joints that no bone reaches; they are drawn as balls.
        radii: Metres from each joint to the skin, as drawn; a bone tapers from one joint's to the other's.
        sides: L, R or ``-`` for each joint as it is coloured; collars belong to the trunk.
        head: Where the head is, or None.
        height: Metres between the lowest and the highest joint, over the clip.
        middle: Height of the point the camera looks at.
        reach: Metres from the path to the farthest joint, seen from above.
        follow: ``[T, 2]`` x and z of the root, evened out.
        centre: x and z of the middle of everything, for a camera that stands still.
        spread: Metres from `centre` to the farthest joint, seen from above.
    """

    positions: Tensor
    shown: Tensor
    root: int
    bones: tuple[tuple[int, int], ...]
    lone: tuple[int, ...]
    radii: tuple[float, ...]
    sides: tuple[Side, ...]
    head: Head | None
    height: float
    middle: float
    reach: float
    follow: Tensor
    centre: tuple[float, float]
    spread: float


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
        radii=_radii(track.parents, lengths, sided, height / PERSON),
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
    """Count the joints between trunk and shoulder among the trunk: their bones start at the middle of the chest."""
    roles = find_roles(track.names, track.parents)
    middle = set()
    for side in ("left", "right"):
        joint = track.parents[roles[f"{side} shoulder"]] if f"{side} shoulder" in roles else -1
        while joint >= 0 and sided[joint] != "-":
            middle.add(joint)
            joint = track.parents[joint]
    return tuple("-" if joint in middle else side for joint, side in enumerate(sided))


def _mostly(values: Tensor, part: float) -> float:
    """Return a quantile, so that one bad frame does not decide about the view."""
    return float(values[torch.linspace(0, len(values) - 1, min(len(values), 100_000)).long()].quantile(part))


def _even(path: Tensor, sigma: float) -> Tensor:
    """Smooth ``[T, 2]`` by a Gaussian, the ends extended by what they are."""
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

    Long bones are thick. A joint is as thick as the bone after it, and where that is thinner (ankle, wrist) in between
    the two. The trunk is one piece, however many joints it has.
    """
    known = any(side != "-" for side in sided)
    bones = []
    for length, side in zip(lengths, sided, strict=True):
        thinnest = _TRUNK if known and side == "-" else _THIN
        bones.append(min(max(_LIMB * length / scale, thinnest), max(_THICK, thinnest)))
    after = [0.0] * len(parents)
    for joint, parent in enumerate(parents):
        if parent >= 0:
            after[parent] = max(after[parent], bones[joint])
    radii = []
    for parent, bone, thickest, side in zip(parents, bones, after, sided, strict=True):
        if known and side == "-":
            radius = bone
        elif parent < 0 and not thickest:
            radius = _TRUNK  # a ball of its own
        elif thickest >= bone:
            radius = thickest
        else:
            radius = (bone + thickest) / 2 if thickest else 0.7 * bone
        radii.append(round(radius * scale, 5))
    return tuple(radii)


def _head(track: PlayerTrack, lengths: list[float], scale: float) -> Head | None:
    """Place the head's ball: between the head joint and the end of its bone, or a little above a last joint."""
    joint = head_joint(track.names)
    if joint < 0 or track.parents[joint] < 0:
        return None
    radius = _HEAD * scale
    above = [child for child, parent in enumerate(track.parents) if parent == joint and lengths[child] > 0.3 * radius]
    if above:
        top = max(above, key=lambda child: lengths[child])
        return Head(top, joint, round(lengths[top] / 2 - lengths[top], 5), round(radius, 5))
    return Head(joint, track.parents[joint], round(0.6 * radius, 5), round(radius, 5))
