"""The body of the starter, the goals that an action sets for it, and the solver that turns goals into joint rotations.

The body has the 22 joints and limb lengths of the HumanML3D target skeleton, in a relaxed standing pose. `Controls` are
goals per frame: pelvis, feet, hands, angles of trunk and head. `solve` rotates the spine by these angles and places the
limbs by two-bone inverse kinematics.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

PARENTS: tuple[int, ...] = (-1, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 9, 9, 12, 13, 14, 16, 17, 18, 19)
"""Parent of each joint, in HumanML3D order (pelvis, left hip, right hip, spine1, ...)."""

LENGTHS: tuple[float, ...] = (
    0.0,
    0.10307,
    0.10988,
    0.13157,
    0.39362,
    0.39019,
    0.14319,
    0.43243,
    0.42564,
    0.05736,
    0.14338,
    0.14942,
    0.21936,
    0.13749,
    0.14338,
    0.10304,
    0.13161,
    0.12298,
    0.25684,
    0.26309,
    0.26601,
    0.26988,
)
"""Bone lengths in metres: the HumanML3D target skeleton."""

_DIRECTIONS = (
    (0, 0, 0),
    (0.62, -0.78, 0),
    (-0.62, -0.78, 0),
    (0, 1, -0.12),
    (0, -1, 0),
    (0, -1, 0),
    (0, 1, 0.02),
    (0, -1, 0),
    (0, -1, 0),
    (0, 1, 0.15),
    (0, -0.4, 0.9),
    (0, -0.4, 0.9),
    (0, 1, -0.1),
    (0.57, 0.8, -0.15),
    (-0.57, 0.8, -0.15),
    (0, 0.87, 0.45),
    (0.97, 0.16, -0.06),
    (-0.97, 0.16, -0.06),
    (0, -1, 0),
    (0, -1, 0),
    (0, -1, 0),
    (0, -1, 0),
)

HIP, KNEE, ANKLE, TOE = (1, 2), (4, 5), (7, 8), (10, 11)
COLLAR, SHOULDER, ELBOW, WRIST = (13, 14), (16, 17), (18, 19), (20, 21)


def _offsets() -> Array:
    direction = np.asarray(_DIRECTIONS, dtype=np.float64)
    norm = np.maximum(np.linalg.norm(direction, axis=1, keepdims=True), 1e-9)
    return np.asarray(direction / norm * np.asarray(LENGTHS)[:, None])


OFFSETS: Array = _offsets()
"""``[22, 3]`` offset of each joint from its parent when every rotation is the identity (standing, arms hanging)."""

ANKLE_HEIGHT = float(-OFFSETS[10, 1])
LEG = float(LENGTHS[4] + LENGTHS[7])
ARM = float(LENGTHS[18] + LENGTHS[20])
STAND = 0.985 * LEG + ANKLE_HEIGHT - float(OFFSETS[1, 1])
"""Height of the pelvis in metres when standing with barely bent knees."""

_REACH = 0.975
"""Share of a limb's length at which its reach begins to saturate; a planted foot stays within it."""


@dataclass
class Controls:
    """Goals of one clip, one row per frame. Side 0 is left, side 1 is right; angles are in radians."""

    pelvis: Array  # ``[T, 3]`` pelvis position in metres; it is lowered before a planted foot is out of reach
    turn: Array  # ``[T, 3]`` pelvis yaw (left positive), pitch (forward positive), roll (towards the right positive)
    spine: Array  # ``[T, 3]`` bend forward, bend to the right, twist to the left; each of three joints has a third
    head: Array  # ``[T, 3]`` nod down, tilt right, turn left, relative to the chest
    hand: Array  # ``[T, 2, 3]`` wrist relative to its shoulder, chest frame, arm lengths: outward, up, forward
    elbow: Array  # ``[T, 2, 3]`` direction in which the elbow points, in the same frame
    toe: Array  # ``[T, 2, 3]`` ball of the foot, in metres
    foot: Array  # ``[T, 2, 2]`` yaw and pitch of the foot (heel up positive)
    knee: Array  # ``[T, 2, 3]`` direction in which the knee points, in the pelvis frame: outward, up, forward
    plant: Array  # ``[T, 2]`` foot plant: 1 while the ball of the foot must not move

    def mirrored(self) -> Controls:
        """Return the same movement with left and right exchanged."""
        swap = {field.name: getattr(self, field.name).copy() for field in fields(self)}
        for name in ("hand", "elbow", "toe", "foot", "knee", "plant"):
            swap[name] = swap[name][:, ::-1].copy()
        swap["pelvis"][:, 0] *= -1
        swap["toe"][..., 0] *= -1
        swap["foot"][..., 0] *= -1
        swap["turn"][:, [0, 2]] *= -1
        swap["spine"][:, [1, 2]] *= -1
        swap["head"][:, [1, 2]] *= -1
        return Controls(**swap)


def joined(parts: list[Controls]) -> Controls:
    """Concatenate along time, so that many clips are solved in one pass."""
    return Controls(**{f.name: np.concatenate([getattr(part, f.name) for part in parts]) for f in fields(Controls)})


def rotation(axis: int, angle: Array) -> Array:
    """Return rotation matrices ``[..., 3, 3]`` about a coordinate axis."""
    cos, sin = np.cos(angle), np.sin(angle)
    out = np.zeros((*angle.shape, 3, 3))
    i, j = (axis + 1) % 3, (axis + 2) % 3
    out[..., axis, axis] = 1.0
    out[..., i, i], out[..., j, j] = cos, cos
    out[..., i, j], out[..., j, i] = -sin, sin
    return out


def _turned(yaw: Array, pitch: Array, roll: Array) -> Array:
    return np.asarray(rotation(1, yaw) @ rotation(0, pitch) @ rotation(2, -roll))


def _apply(matrix: Array, vector: Array) -> Array:
    return np.asarray(np.einsum("...ij,...j->...i", matrix, vector))


def _unit(vector: Array) -> Array:
    return np.asarray(vector / np.maximum(np.linalg.norm(vector, axis=-1, keepdims=True), 1e-9))


def _two_bone(
    root: Array,  # [N, 3] start of the limb: hip or shoulder
    goal: Array,  # [N, 3] goal of its end: ankle or wrist
    pole: Array,  # [N, 3] direction in which the middle joint points
    upper: float,  # length of the first bone
    lower: float,  # length of the second bone
    sign: float,  # +1 if the middle joint points along the body's forward axis (knee), -1 against it (elbow)
) -> tuple[Array, Array]:
    """Return the global rotations of the two bones of a limb whose end is at `goal` and that bends towards `pole`.

    The reach saturates smoothly (tanh) from `_REACH` of the limb's length on: near a straight limb, the angle of the
    middle joint changes arbitrarily fast with the distance of the goal.
    """
    # [N, 3] from the start of the limb to the goal.
    reach = goal - root
    distance = np.linalg.norm(reach, axis=-1)
    full, soft = upper + lower, (1 - _REACH) * (upper + lower)
    excess = np.maximum(distance - _REACH * full, 0.0)
    length = np.minimum(distance, _REACH * full) + 0.9 * soft * np.tanh(excess / (0.9 * soft))
    length = np.maximum(length, 1.05 * abs(upper - lower) + 0.05)
    along = reach / np.maximum(distance, 1e-9)[:, None]
    # The component of the pole at right angles to the limb: the direction in which the middle joint leaves the line.
    bend = _unit(pole - (pole * along).sum(-1, keepdims=True) * along)
    # Law of cosines: the angle between the upper bone and the line from start to end.
    cosine = np.clip((upper**2 + length**2 - lower**2) / (2 * upper * length), -1, 1)
    middle = along * (upper * cosine)[:, None] + bend * (upper * np.sqrt(1 - cosine**2))[:, None]
    end = along * length[:, None]
    # X of both bones is the hinge, -Y runs along the bone, Z completes a right-handed frame.
    axis = _unit(np.cross(-along, sign * bend))
    frames = []
    for bone in (middle, end - middle):
        up = -_unit(bone)
        frames.append(np.stack([axis, up, np.cross(axis, up)], axis=-1))
    return frames[0], frames[1]


def hips(pelvis: Array, turn: Array) -> Array:
    """Return hip positions ``[T, 2, 3]``."""
    frame = _turned(turn[:, 0], turn[:, 1], turn[:, 2])
    return np.asarray(pelvis[:, None] + np.einsum("nij,kj->nki", frame, OFFSETS[list(HIP)]))


def ankles(toe: Array, foot: Array) -> Array:
    """Return ankle positions ``[T, 2, 3]`` from the balls of the feet and the feet's angles."""
    frame = rotation(1, foot[..., 0]) @ rotation(0, foot[..., 1])
    return np.asarray(toe - np.einsum("nkij,kj->nki", frame, OFFSETS[list(TOE)]))


def overreach(controls: Controls) -> Array:
    """Return by how many metres ``[T]`` the pelvis is too high for the planted feet."""
    hip, ankle = hips(controls.pelvis, controls.turn), ankles(controls.toe, controls.foot)
    # [T, 2] horizontal distance between hip and ankle; Pythagoras gives the height that the leg allows.
    flat = np.linalg.norm((hip - ankle)[..., [0, 2]], axis=-1)
    allowed = np.sqrt(np.maximum((_REACH * LEG) ** 2 - flat**2, 0.09))
    return np.asarray((np.maximum(hip[..., 1] - ankle[..., 1] - allowed, 0) * controls.plant).max(axis=1))


def solve(controls: Controls) -> tuple[Array, Array]:
    """Pose the body.

    Args:
        controls: Goals of N frames, of any number of clips: the solver treats frames independently.

    Returns:
        Joint positions ``[N, 22, 3]`` in metres, and local rotations ``[N, 22, 3, 3]``; joint 0 has the global
        rotation of the pelvis, every other joint a rotation relative to its parent. A joint's offset from its parent
        turns with the parent (the SMPL convention).
    """
    count = len(controls.pelvis)
    frame = np.empty((count, 22, 3, 3))
    place = np.empty((count, 22, 3))
    frame[:, 0] = _turned(controls.turn[:, 0], controls.turn[:, 1], controls.turn[:, 2])
    place[:, 0] = controls.pelvis

    def attach(joint: int) -> None:
        parent = PARENTS[joint]
        place[:, joint] = place[:, parent] + frame[:, parent] @ OFFSETS[joint]

    # Each of three spine joints has a third of the bend, neck and head half of the nod each.
    bend = controls.spine / 3
    step = rotation(1, bend[:, 2]) @ rotation(0, bend[:, 0]) @ rotation(2, -bend[:, 1])
    for joint in (3, 6, 9):
        attach(joint)
        frame[:, joint] = frame[:, PARENTS[joint]] @ step
    nod = controls.head / 2
    tilt = rotation(1, nod[:, 2]) @ rotation(0, nod[:, 0]) @ rotation(2, -nod[:, 1])
    for joint in (12, 15):
        attach(joint)
        frame[:, joint] = frame[:, PARENTS[joint]] @ tilt

    ankle = ankles(controls.toe, controls.foot)
    for side, mirror in ((0, 1.0), (1, -1.0)):
        outward = np.array([mirror, 1.0, 1.0])
        hip, knee, end, toe = HIP[side], KNEE[side], ANKLE[side], TOE[side]
        attach(hip)
        pole = _apply(frame[:, 0], controls.knee[:, side] * outward)
        lengths = float(-OFFSETS[knee, 1]), float(-OFFSETS[end, 1])
        frame[:, hip], frame[:, knee] = _two_bone(place[:, hip], ankle[:, side], pole, *lengths, 1.0)
        attach(knee)
        attach(end)
        frame[:, end] = rotation(1, controls.foot[:, side, 0]) @ rotation(0, controls.foot[:, side, 1])
        attach(toe)
        frame[:, toe] = frame[:, end]

        collar, shoulder, elbow, wrist = COLLAR[side], SHOULDER[side], ELBOW[side], WRIST[side]
        chest, hand = frame[:, 9], controls.hand[:, side] * outward * ARM
        attach(collar)
        shrug = 0.45 * np.clip(controls.hand[:, side, 1] + 0.1, 0, 1)
        frame[:, collar] = chest @ rotation(2, mirror * shrug)
        attach(shoulder)
        goal = place[:, shoulder] + _apply(chest, hand)
        pole = _apply(chest, controls.elbow[:, side] * outward)
        lengths = float(-OFFSETS[elbow, 1]), float(-OFFSETS[wrist, 1])
        frame[:, shoulder], frame[:, elbow] = _two_bone(place[:, shoulder], goal, pole, *lengths, -1.0)
        attach(elbow)
        attach(wrist)
        frame[:, wrist] = frame[:, elbow]

    parents = list(PARENTS[1:])
    # Global to local: R_local = R_parent^T R_global.
    local = frame.copy()
    local[:, 1:] = np.swapaxes(frame[:, parents], -1, -2) @ frame[:, 1:]
    return place, local
