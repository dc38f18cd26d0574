"""Controls to joint rotations and positions: a spine by angles, limbs by two-bone inverse kinematics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

# The starter's body: 22 joints with the limb lengths of the HumanML3D target skeleton, in a relaxed standing pose.

Array = NDArray[np.float64]

PARENTS: tuple[int, ...] = (-1, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 9, 9, 12, 13, 14, 16, 17, 18, 19)
"""Parent of each joint, HumanML3D order (pelvis, left hip, right hip, spine1, ...)."""

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

LEFT, RIGHT = 0, 1
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


# The output of an action: goals for pelvis, feet and hands. The solver turns them into joint rotations.


@dataclass
class Controls:
    """Goals of one clip, one row per frame. Sides are indexed 0 = left, 1 = right; angles in radians."""

    pelvis: Array  # ``[T, 3]`` pelvis position in metres. The solver lowers it when a planted foot is out of reach.
    turn: Array  # ``[T, 3]`` pelvis yaw (left positive), pitch (forward positive), roll (towards the right positive)
    spine: Array  # ``[T, 3]`` bend forward, bend to the right, twist to the left, spread over three joints
    head: Array  # ``[T, 3]`` nod down, tilt right, turn left, relative to the chest
    # ``[T, 2, 3]`` wrist relative to its shoulder in the chest's frame, in arm lengths: outward, up, forward.
    hand: Array
    elbow: Array  # ``[T, 2, 3]`` direction the elbow points to, same frame
    toe: Array  # ``[T, 2, 3]`` ball of the foot, in metres
    foot: Array  # ``[T, 2, 2]`` yaw and pitch (heel up positive) of the foot
    knee: Array  # ``[T, 2, 3]`` direction the knee points to in the pelvis frame: outward, up, forward
    plant: Array  # ``[T, 2]`` 1 while the ball of the foot must stay where it is

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


_REACH = 0.975


def rotation(axis: int, angle: Array) -> Array:
    """Rotation matrices ``[..., 3, 3]`` about a coordinate axis."""
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
    root: Array,  # [N, 3] where the limb starts
    goal: Array,  # [N, 3] where it should end
    pole: Array,  # [N, 3] direction the middle joint points to
    upper: float,  # length of the first bone
    lower: float,  # length of the second bone
    sign: float,  # +1 when the middle joint points along the body's forward axis (knee), -1 against it (elbow)
) -> tuple[Array, Array]:
    """Global rotations of the two bones that bring the end of a limb to `goal`, bending towards `pole`.

    The reach saturates smoothly before the limb is straight, where the joint angle would have no bounded speed.
    """
    # [N, 3] towards the goal. The distance saturates by tanh from 97.5 % of the limb's length on.
    reach = goal - root
    distance = np.linalg.norm(reach, axis=-1)
    full, soft = upper + lower, (1 - _REACH) * (upper + lower)
    excess = np.maximum(distance - _REACH * full, 0.0)
    length = np.minimum(distance, _REACH * full) + 0.9 * soft * np.tanh(excess / (0.9 * soft))
    length = np.maximum(length, 1.05 * abs(upper - lower) + 0.05)
    along = reach / np.maximum(distance, 1e-9)[:, None]
    # The pole's part at right angles to the limb: the direction in which the middle joint leaves the line.
    bend = _unit(pole - (pole * along).sum(-1, keepdims=True) * along)
    # Law of cosines: the angle at the root between the upper bone and the line to the end.
    cosine = np.clip((upper**2 + length**2 - lower**2) / (2 * upper * length), -1, 1)
    middle = along * (upper * cosine)[:, None] + bend * (upper * np.sqrt(1 - cosine**2))[:, None]
    end = along * length[:, None]
    # The hinge is the bones' X axis, -Y runs along the bone, Z completes a right-handed frame.
    axis = _unit(np.cross(-along, sign * bend))
    frames = []
    for bone in (middle, end - middle):
        up = -_unit(bone)
        frames.append(np.stack([axis, up, np.cross(axis, up)], axis=-1))
    return frames[0], frames[1]


def hips(pelvis: Array, turn: Array) -> Array:
    """``[T, 2, 3]`` hip positions."""
    frame = _turned(turn[:, 0], turn[:, 1], turn[:, 2])
    return np.asarray(pelvis[:, None] + np.einsum("nij,kj->nki", frame, OFFSETS[list(HIP)]))


def ankles(toe: Array, foot: Array) -> Array:
    """``[T, 2, 3]`` ankle positions of feet given by their balls and angles."""
    frame = rotation(1, foot[..., 0]) @ rotation(0, foot[..., 1])
    return np.asarray(toe - np.einsum("nkij,kj->nki", frame, OFFSETS[list(TOE)]))


def overreach(controls: Controls) -> Array:
    """``[T]`` metres by which the pelvis is too high for the planted feet."""
    hip, ankle = hips(controls.pelvis, controls.turn), ankles(controls.toe, controls.foot)
    # [T, 2] horizontal distance of hip and ankle; Pythagoras gives the height that the leg allows.
    flat = np.linalg.norm((hip - ankle)[..., [0, 2]], axis=-1)
    allowed = np.sqrt(np.maximum((_REACH * LEG) ** 2 - flat**2, 0.09))
    return np.asarray((np.maximum(hip[..., 1] - ankle[..., 1] - allowed, 0) * controls.plant).max(axis=1))


def solve(
    controls: Controls,  # goals of N frames (of any number of clips: frames are independent)
) -> tuple[Array, Array]:
    """Pose the body.

    Returns:
        Joint positions ``[N, 22, 3]`` in metres, and local rotations ``[N, 22, 3, 3]``; joint 0 holds the global
        rotation of the pelvis, and every other rotation is relative to the parent's. A joint's offset from its parent
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

    # The bend is shared by three spine joints, the nod by neck and head.
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


# Time functions and the circumstances of one clip ("take") that every action is written with.


@dataclass
class Take:
    """Circumstances of one clip."""

    t: Array  # ``[T]`` seconds of each frame
    duration: float  # Seconds of the whole clip
    rng: np.random.Generator  # Generator for the small variations of this take
    tempo: float  # Speed of the movement, 1 = usual
    size: float  # Amplitude of the movement, 1 = usual

    def around(self, low: float, high: float) -> float:
        """A number between `low` and `high`, drawn for this take."""
        return float(self.rng.uniform(low, high))

    def slots(self, period: float) -> list[tuple[float, float]]:
        """Cut the clip into repeats of about `period` seconds: start and length of each."""
        count = max(1, round(self.duration * self.tempo / period))
        width = self.duration / count
        return [(i * width, width) for i in range(count)]


def ease(x: Array) -> Array:
    """Minimum-jerk step: 0 below 0, 1 above 1."""
    x = np.clip(x, 0.0, 1.0)
    # 6 x^5 - 15 x^4 + 10 x^3: velocity and acceleration are 0 at both ends (Flash and Hogan 1985).
    return np.asarray(x**3 * (10 + x * (6 * x - 15)))


def keys(t: Array, times: Sequence[float], values: Sequence[float] | Sequence[Sequence[float]]) -> Array:
    """Minimum-jerk interpolation between keyed values (scalars or vectors), constant outside."""
    at, value = np.asarray(times, dtype=np.float64), np.asarray(values, dtype=np.float64)
    i = np.clip(np.searchsorted(at, t, side="right") - 1, 0, len(at) - 2)
    w = ease((t - at[i]) / np.maximum(at[i + 1] - at[i], 1e-6))
    w = w if value.ndim == 1 else w[:, None]
    return np.asarray(value[i] + (value[i + 1] - value[i]) * w)


def bump(t: Array, start: float, width: float, rise: float = 0.35, fall: float = 0.35) -> Array:
    """0, up to 1 within the share `rise` of `width`, stay, and down to 0 within the share `fall`."""
    return np.asarray(
        ease((t - start) / (width * rise)) * (1 - ease((t - start - width * (1 - fall)) / (width * fall)))
    )


@lru_cache(maxsize=512)
def _kernel(frames: int, width: float) -> Array:
    index = np.arange(frames)
    # [T, T] rows of Gaussian weights, normalised so that the ends are not pulled to zero.
    weight = np.exp(-0.5 * ((index[:, None] - index) / max(width, 1e-6)) ** 2)
    return np.asarray(weight / weight.sum(axis=1, keepdims=True))


def smooth(values: Array, fps: float, seconds: float) -> Array:
    """Gaussian smoothing along time (axis 0) with the given standard deviation."""
    flat = values.reshape(len(values), -1)
    return np.asarray((_kernel(len(values), seconds * fps) @ flat).reshape(values.shape))


def drift(take: Take, amplitude: float, channels: int = 1) -> Array:
    """``[T, channels]`` slow random sway, so that a standing body is not motionless."""
    # The mean of two sines of random frequency (Hz) and phase, per channel.
    rate = take.rng.uniform(0.15, 0.6, size=(2, channels)) * 2 * np.pi
    phase = take.rng.uniform(0, 2 * np.pi, size=(2, channels))
    return np.asarray(amplitude * np.sin(take.t[:, None, None] * rate + phase).mean(axis=1))


HANG = (0.10, -0.96, 0.08)
"""Where a relaxed wrist is (outward, up, forward; arm lengths from the shoulder)."""


def stand(take: Take, width: float = 1.0) -> Controls:
    """Controls of quiet standing at the origin, facing +Z: what stationary actions start from."""
    count = len(take.t)
    side = 0.5 * width * take.around(0.17, 0.23)
    toe = np.zeros((count, 2, 3))
    toe[:, 0, 0], toe[:, 1, 0] = side, -side
    toe[..., 2] = OFFSETS[10, 2] - 0.02
    toe[:, :, 2] += take.rng.uniform(-0.025, 0.025, size=2)
    foot = np.zeros((count, 2, 2))
    out = take.around(0.05, 0.22)
    foot[:, 0, 0], foot[:, 1, 0] = out, -out
    pelvis = np.zeros((count, 3))
    pelvis[:, 1] = STAND - take.around(0.0, 0.012)
    pelvis[:, [0, 2]] += drift(take, 0.012, 2)
    hand = np.broadcast_to(HANG, (count, 2, 3)).copy()
    hand += drift(take, 0.025, 6).reshape(count, 2, 3)
    hand[..., 2] += take.around(-0.03, 0.08)
    elbow = np.broadcast_to((0.4, -0.3, -0.9), (count, 2, 3)).copy()
    knee = np.broadcast_to((0.12, 0.3, 1.0), (count, 2, 3)).copy()
    return Controls(
        pelvis=pelvis,
        turn=drift(take, 0.03, 3) * np.array([1.0, 0.4, 0.4]),
        spine=drift(take, 0.05, 3) + np.array([take.around(0.0, 0.08), 0, 0]),
        head=drift(take, 0.1, 3),
        hand=hand,
        elbow=elbow,
        toe=toe,
        foot=foot,
        knee=knee,
        plant=np.ones((count, 2)),
    )


def reach(controls: Controls, side: int, goal: Array | Sequence[float], weight: Array) -> None:
    """Move a hand towards `goal` by `weight` (``[T]``, 0 = where it was), in place."""
    w = weight[:, None]
    controls.hand[:, side] += (np.asarray(goal) - controls.hand[:, side]) * w


def point_elbow(controls: Controls, side: int, direction: Sequence[float], weight: Array) -> None:
    """Turn an elbow towards `direction` by `weight`, in place."""
    controls.elbow[:, side] += (np.asarray(direction) - controls.elbow[:, side]) * weight[:, None]


def step_foot(
    controls: Controls,
    take: Take,
    side: int,
    start: float,
    end: float,
    move: Sequence[float],
    *,
    lift: float = 0.1,
    yaw: float = 0.0,
    push: float = 0.4,
) -> None:
    """Lift a foot at `start`, carry it by `move` (x, z in metres) and put it down at `end`, in place."""
    s = (take.t - start) / (end - start)
    w, air = ease(s), (s > 0) & (s < 1)
    arch = np.where(air, 16 * np.clip(s * (1 - s), 0, 1) ** 2, 0.0)
    controls.toe[:, side, 0] += move[0] * w
    controls.toe[:, side, 2] += move[1] * w
    controls.toe[:, side, 1] += lift * arch
    controls.foot[:, side, 0] += yaw * w
    controls.foot[:, side, 1] += push * bump(take.t, start - 0.12, end - start + 0.12, 0.45, 0.55)
    controls.plant[:, side] *= ~air
