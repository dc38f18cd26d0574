"""Which way is up in a file, weighed by the body in it; and turning what was read so that it is +Y.

A body that stands holds its trunk upwards, and so does one whose file has another axis up. A body that lies, crawls or
stands on its hands holds its trunk elsewhere although its file is as usual. So a direction other than the usual one has
to be shown:

* where the trunk points along the direction that a format's programs are known to use (`usual`), by that alone;
* head down, by arms that hang: on its hands or its head a body has them beyond its shoulders;
* along any other direction, by feet that carry the body (one stands while the hips travel), or by hips that rise
  and sink further than those of a lying body can.

Else the usual direction is kept, with a warning.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from motionkit.geometry import positions_from_bones
from motionkit.motion.clip import Axis
from motionkit.motion.motion import Motion
from motionkit.rigs.roles import find_roles, hip_to_ankle, toe_of

AXES: tuple[Axis, ...] = ("x", "-x", "y", "-y", "z", "-z")

_TURNS: dict[Axis, tuple[tuple[float, float, float], ...]] = {
    "x": ((0.0, -1.0, 0.0), (1.0, 0.0, 0.0), (0.0, 0.0, 1.0)),
    "-x": ((0.0, 1.0, 0.0), (-1.0, 0.0, 0.0), (0.0, 0.0, 1.0)),
    "y": ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)),
    "-y": ((1.0, 0.0, 0.0), (0.0, -1.0, 0.0), (0.0, 0.0, -1.0)),
    "z": ((1.0, 0.0, 0.0), (0.0, 0.0, 1.0), (0.0, -1.0, 0.0)),
    "-z": ((1.0, 0.0, 0.0), (0.0, 0.0, -1.0), (0.0, 1.0, 0.0)),
}
"""Rotations, row by row, that bring each axis to +Y."""

CLEAR = 0.8
"""Least cosine between a direction and its axis: within 37 degrees."""

_SHARE = 0.8
"""Least median of the trunk's part along an axis. It is not scaled to length 1: of a body that rolls it is short."""

_OVER = 0.3
"""Median part of the trunk along the chosen axis below which the head is not over the hips."""

_HANGING = 0.3
"""Part of an arm's length by which the wrists of a handstand are beyond the shoulders, in the median. Beside the head
of a headstand they are half an arm beyond, held out sideways they are level with them."""

_SPEED = 0.4
"""Legs per second above which the hips travel: 0.33 m/s of an adult."""

_PLANTED = 0.4
"""Most of the hips' speed that a foot has while it carries the body past it."""

_CARRIED = 0.6
"""Least share of the travelling frames in which a foot is planted. Over the 228 CMU clips and the starter's, walks have
0.8 and more; a body that lies and is moved as a whole has none."""

_TRAVEL = 0.5
"""Legs that the hips must travel for a verdict on feet."""

_LEVEL = 0.6
"""Legs by which the lowest foot may change its height: stairs and swimming upwards are left out."""

_RISE = 0.8
"""Legs by which the hips of a lying body do not rise and sink."""

_SIDE_BY_SIDE = 0.5
"""Cosine between two legs that stand beside each other."""

_LEVEL_SPINE = 0.5
"""Most cosine between the spine and the legs of a body on four legs; people's are in line at rest."""

_SECONDS = 0.1
"""Time of the steps by which speeds are measured."""


UP_TABLE = {
    "turns": _TURNS, "clear": CLEAR, "share": _SHARE, "over": _OVER, "hanging": _HANGING, "speed": _SPEED,
    "planted": _PLANTED, "carried": _CARRIED, "travel": _TRAVEL, "level": _LEVEL, "rise": _RISE, "seconds": _SECONDS,
}  # fmt: skip
"""The rotations and limits, for the player, which reads dropped files by the same rule."""


class Upright(NamedTuple):
    """The direction of up."""

    up: Axis
    said: str = ""  # What a person should know: which direction was taken and why, or what is in doubt


def opposite(axis: Axis) -> Axis:
    """Return the axis that points the other way."""
    return AXES[AXES.index(axis) ^ 1]


def in_words(axis: Axis) -> str:
    """Return ``Z up`` for z, ``Y down`` for -y."""
    return f"{axis[-1].upper()} {'down' if axis.startswith('-') else 'up'}"


def turn_up(axis: Axis) -> Tensor:
    """Return the rotation ``[3, 3]`` float64 that brings an axis to +Y."""
    return torch.tensor(_TURNS[axis], dtype=torch.float64)


def turn_points(points: Tensor, axis: Axis) -> Tensor:
    """Turn ``[..., 3]`` so that an axis becomes +Y; a coordinate that is not finite stays alone."""
    if axis == "y":
        return points
    turn = turn_up(axis).to(points)
    places = turn.abs().argmax(dim=1)
    return points[..., places] * turn.sum(dim=1)


def axis_of(direction: Tensor, least: float = CLEAR) -> Axis | None:
    """Return the axis along which ``[3]`` points by at least `least`, or None."""
    place = int(direction.abs().argmax())
    if not float(direction[place].abs()) > least:
        return None
    return AXES[2 * place + (float(direction[place]) < 0)]


def trunk_of(places: Tensor, names: Sequence[str], parents: Sequence[int]) -> Tensor | None:
    """Return the unit directions ``[T, 3]`` from the hips to the shoulders, or to the head; None without a body."""
    roles = find_roles(names, parents)
    top = _middle(places, roles, "shoulder")
    low = _middle(places, roles, "hip")
    if top is None and "head" in roles:
        top = places[:, roles["head"]]
    if low is None and "pelvis" in roles:
        low = places[:, roles["pelvis"]]
    if top is None or low is None:
        return None
    directions = torch.nn.functional.normalize(top - low, dim=-1)
    return directions if bool(directions.any()) else None  # a skeleton whose lengths are not known


def lies_at_rest(motion: Motion) -> bool:
    """Whether the spine is level while the legs stand in the rest pose, as an animal's is."""
    places = positions_from_bones(motion.offsets, motion.parents)[None]
    roles = find_roles(motion.names, motion.parents)
    trunk, hips = trunk_of(places, motion.names, motion.parents), _middle(places, roles, "hip")
    feet = _middle(places, roles, "ankle")
    if trunk is None or hips is None or feet is None:
        return False
    left, right = (
        torch.nn.functional.normalize(places[0, roles[f"{side} hip"]] - places[0, roles[f"{side} ankle"]], dim=0)
        for side in ("left", "right")
    )
    if float(left @ right) < _SIDE_BY_SIDE:
        return False  # a file whose bones are along axes of their own at rest, as motion capture software writes them
    legs = torch.nn.functional.normalize((hips - feet)[0], dim=0)
    return axis_of(legs) is not None and abs(float(trunk[0] @ legs)) < _LEVEL_SPINE


def weigh(
    places: Tensor,  # [T, J, 3] in the file's axes, any unit; finite; frames that follow each other
    names: Sequence[str],  # joint names
    parents: Sequence[int],  # parent of each joint
    fps: float,  # frames per second
    default: Axis,  # the direction of the format, or of the rest pose
    usual: Collection[Axis] = (),  # other directions for which the trunk is enough
) -> Upright:
    """Find the direction of up of a body that moves; see the module's text for the rule."""
    trunk = trunk_of(places, names, parents)
    if trunk is None:
        return Upright(default)
    median = trunk.median(dim=0).values
    along = axis_of(median, _SHARE)
    if along == default:
        return Upright(default)
    ask = f"pass --up {along}"
    if along is None:
        over = float((median * _vector(default)).sum())
        return Upright(default, "" if over > _OVER else _unclear(default))
    body = _Body(places, names, parents, fps, trunk)
    shown = body.arms_hang(along) if along == opposite(default) else body.rises(along, default)
    if along in usual or shown or body.feet_carry(along):
        return Upright(
            along,
            f"the trunk points along {along.upper()}: {in_words(along)} was taken; if that is wrong, "
            f"pass --up {default}.",
        )
    if along == opposite(default):
        return Upright(default, f"the head is down for most of the clip: if {in_words(along)} is meant, {ask}.")
    return Upright(default, f"lies along {along.upper()} for most of the clip: if {in_words(along)} is meant, {ask}.")


def _unclear(default: Axis) -> str:
    return f"no direction of up fits the body: {in_words(default)} was taken; if that is wrong, pass --up."


def turn_motion(motion: Motion, up: Axis, rest: Axis | None = None) -> Motion:
    """Turn a motion so that `up` becomes +Y, and its rest pose so that it stands, if that is along Y or Z.

    Args:
        motion: The motion in its file's axes.
        up: The axis that is up while it moves.
        rest: The axis that is up in the rest pose; None if that is not clear.
    """
    if up == "y":
        return motion
    world = turn_up(up)
    bones = turn_up(rest if rest in ("y", "z") else up)
    rotations = bones @ motion.rotations @ bones.T
    translations = motion.translations @ bones.T
    roots = [joint for joint, parent in enumerate(motion.parents) if parent < 0]
    rotations[:, roots] = world @ motion.rotations[:, roots] @ bones.T
    translations[:, roots] = motion.translations[:, roots] @ world.T
    return replace(motion, offsets=motion.offsets @ bones.T, rotations=rotations, translations=translations)


class _Body:
    """What a body does, measured against directions that may be up."""

    def __init__(self, places: Tensor, names: Sequence[str], parents: Sequence[int], fps: float, trunk: Tensor) -> None:
        self.places, self.fps, self.trunk = places, fps, trunk
        self.roles = find_roles(names, parents)
        legs = all(f"{side} {joint}" in self.roles for side in ("left", "right") for joint in ("hip", "ankle"))
        self.leg = hip_to_ankle(self.roles, places[0]) if legs else 0.0
        feet = [self.roles[f"{side} ankle"] for side in ("left", "right")] if legs else []
        toes = [toe_of(self.roles, parents, side) for side in ("left", "right")] if legs else []
        self.feet = places[:, [*feet, *(toe for toe in toes if toe >= 0)]]
        self.hips = _middle(places, self.roles, "hip")

    def arms_hang(self, up: Axis) -> bool:
        """Whether the hands are not beyond the shoulders, as seen from the hips: nobody stands on them."""
        beyond = []
        for side in ("left", "right"):
            arm = [self.roles.get(f"{side} {joint}", -1) for joint in ("shoulder", "elbow", "wrist")]
            if min(arm) < 0:
                return False
            shoulder, elbow, wrist = (self.places[:, joint] for joint in arm)
            length = (elbow - shoulder).norm(dim=-1) + (wrist - elbow).norm(dim=-1)
            beyond.append(((wrist - shoulder) @ _vector(up) / length.clamp_min(1e-12)).median())
        return float(sum(beyond)) / 2 < _HANGING

    def feet_carry(self, up: Axis) -> bool:
        """Whether feet stand below the hips, at one height, while the hips travel on past them."""
        if self.hips is None or not self.leg > 0 or len(self.places) < 3:
            return False
        heights = (self.feet @ _vector(up)).amin(dim=1)
        below = self.hips @ _vector(up) - heights
        if float(below.median()) < 0.5 * self.leg or _span(heights) > _LEVEL * self.leg:
            return False
        step = max(1, round(_SECONDS * self.fps))
        if len(self.places) <= step:
            return False
        seconds = step / self.fps
        moved = self.hips[step:] - self.hips[:-step]
        moved = moved - (moved @ _vector(up))[:, None] * _vector(up)
        speed = moved.norm(dim=-1) / seconds
        foot = ((self.feet[step:] - self.feet[:-step]).norm(dim=-1) / seconds).amin(dim=1)
        travels = speed > _SPEED * self.leg
        if float(speed[travels].sum()) / self.fps < _TRAVEL * self.leg:
            return False
        return float((foot[travels] < _PLANTED * speed[travels]).double().mean()) > _CARRIED

    def rises(self, up: Axis, default: Axis) -> bool:
        """Whether the hips of a lying body would rise if the default were up; feet keep their height along `up`."""
        level = self.trunk @ _vector(up) > CLEAR
        if self.hips is None or not self.leg > 0 or int(level.sum()) < 2:
            return False
        heights = (self.feet @ _vector(up)).amin(dim=1)
        return _span(heights) < _LEVEL * self.leg and _span(self.hips[level] @ _vector(default)) > _RISE * self.leg


def _span(values: Tensor) -> float:
    """Return by how much most of `[T]` values differ."""
    return float(values.quantile(0.95) - values.quantile(0.05))


def _vector(axis: Axis) -> Tensor:
    return turn_up(axis)[1]


def _middle(places: Tensor, roles: dict[str, int], joint: str) -> Tensor | None:
    """Return the middle ``[T, 3]`` between the left and the right joint of a kind."""
    pair = [roles.get(f"{side} {joint}", -1) for side in ("left", "right")]
    return None if min(pair) < 0 else places[:, pair].mean(dim=1)
