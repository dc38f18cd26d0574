"""Gestures: actions of the arms and hands of a standing body, such as to wave, throw, clap and drink."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from motionkit.starter._solve import Array, Controls
from motionkit.starter._take import (
    Take,
    bump,
    drift,
    ease,
    keys,
    point_elbow,
    reach,
    smooth,
    stand,
    step_foot,
)

SIDES = {"left": (0,), "right": (1,), "both": (0, 1)}
"""Arms of each value of `side`: 0 is the left arm, 1 the right one."""


def _gesture_weight(take: Take, lead: float = 0.55) -> Array:
    """Return the weight ``[T]`` of a gesture that fills the clip: from 0 to 1 in `lead` seconds, and back to 0.

    Each transition may begin before the clip or end after it, so that the arm is already moving at an end.
    """
    early, late = take.around(-0.4, 0.25), take.around(-0.4, 0.25)
    return np.asarray(ease((take.t - early) / lead) * (1 - ease((take.t - take.duration + late + lead) / lead)))


def wave(take: Take, side: str, high: bool = True) -> Controls:
    """Wave with one or both hands, next to the head or (``high=False``) in front of the chest."""
    controls = stand(take)
    on = _gesture_weight(take)
    rate, depth = 1.75 * take.tempo, 0.2 * take.size
    for arm in SIDES[side]:
        swing = np.sin(2 * np.pi * rate * take.t + take.around(0, 1) + np.pi * (arm if side == "both" else 0))
        base = (0.42, 0.5, 0.3) if high else (0.28, -0.12, 0.55)
        goal = np.asarray(base) + np.stack([depth * swing, -0.25 * depth * np.abs(swing), 0 * swing], axis=-1)
        reach(controls, arm, goal, on)
        point_elbow(controls, arm, (0.75, -0.65, -0.1), on)
        controls.spine[:, 1] += (0.05 if arm == 0 else -0.05) * -swing * on * 0.5
    return controls


def raise_arms(take: Take, side: str, goal: Sequence[float], hold: bool = True) -> Controls:
    """Raise one or both arms to `goal`, and keep them there (`hold`) or lower and raise them repeatedly."""
    controls, t = stand(take), take.t
    if hold:
        on = ease((t - take.around(-0.2, 0.35)) / (take.around(0.8, 1.1) / take.tempo))
    else:
        on = np.asarray(sum((bump(t, a, w, 0.42, 0.42) for a, w in take.slots(1.9)), np.zeros_like(t)))
    for arm in SIDES[side]:
        reach(controls, arm, np.asarray(goal) + drift(take, 0.03, 3), on)
    if side != "both":
        controls.spine[:, 1] += (0.07 if side == "left" else -0.07) * on
    return controls


def punch(take: Take, side: str) -> Controls:
    """Punch forward from a guard, with one arm or (``both``) with left and right in turn."""
    controls, t = stand(take), take.t
    feet = 0.17
    controls.toe[:, 0, 2] += feet
    controls.toe[:, 1, 2] -= feet
    controls.pelvis[:, 1] -= 0.05
    controls.turn[:, 0] -= 0.2
    guard = ease((t + take.around(0.1, 0.5)) / 0.5)
    for arm in (0, 1):
        reach(controls, arm, (-0.02, -0.05, 0.42), guard)
    for number, (start, width) in enumerate(take.slots(0.95 if side != "both" else 0.75)):
        arm = {"left": 0, "right": 1, "both": number % 2}[side]
        hit = bump(t, start + 0.1 * width, min(width, 1.0) * 0.8, 0.42, 0.58)
        reach(controls, arm, (-0.22, 0.0, 0.95), hit * guard)
        sign = -1.0 if arm == 0 else 1.0
        controls.spine[:, 2] += sign * 0.55 * take.size * hit
        controls.turn[:, 0] += sign * 0.18 * hit
        controls.pelvis[:, 2] += 0.05 * hit
        controls.spine[:, 0] += 0.08 * hit
    return controls


def throw(take: Take, under: bool = False) -> Controls:
    """Throw with the right hand, over the shoulder or underhand, stepping forward with the left foot."""
    controls, t = stand(take), take.t
    for start, width in take.slots(2.5):
        width = min(width, 3.0)
        at = [start + x * width for x in (0.02, 0.3, 0.42, 0.55, 0.9)]
        if under:
            points = [(0.1, -0.96, 0.08), (0.2, -0.8, -0.5), (0.1, -0.93, 0.15), (0.0, -0.15, 0.93), (0.1, -0.96, 0.08)]
        else:
            points = [
                (0.1, -0.96, 0.08),
                (0.5, 0.35, -0.35),
                (0.35, 0.75, 0.15),
                (-0.2, -0.2, 0.92),
                (0.1, -0.96, 0.08),
            ]
        arm = smooth(keys(t, at, points) - np.asarray(points[0]), len(t) / take.duration, 0.05)
        controls.hand[:, 1] += arm
        back = bump(t, at[0], at[2] - at[0] + 0.05 * width, 0.6, 0.4)
        through = bump(t, at[1], at[4] - at[1], 0.35, 0.5)
        controls.spine[:, 2] += 0.65 * through * take.size - 0.55 * back
        controls.turn[:, 0] += 0.25 * through - 0.25 * back
        controls.spine[:, 0] += 0.35 * through - 0.1 * back
        controls.pelvis[:, 2] += 0.12 * through - 0.05 * back
        controls.pelvis[:, 1] -= 0.05 * through
        if not under:
            reach(controls, 0, (0.2, -0.1, 0.75), 0.9 * back)
        step_foot(controls, take, 0, at[0] + 0.14 * width, at[2], (0.0, 0.28), lift=0.07, push=0.2)
        step_foot(controls, take, 0, at[3] + 0.12 * width, at[4] + 0.06 * width, (0.0, -0.28), lift=0.05, push=0.2)
    return controls


def clap(take: Take, overhead: bool = False) -> Controls:
    """Clap in front of the chest or overhead."""
    controls, t = stand(take), take.t
    on = _gesture_weight(take)
    beat = 0.5 - 0.5 * np.cos(2 * np.pi * (1.85 * take.tempo * t + take.around(0, 1)))
    for arm in (0, 1):
        if overhead:
            goal = np.stack(
                [0.12 * take.size - (0.37 + 0.12 * (take.size - 1)) * beat, 0.78 + 0.08 * beat, 0.25 + 0 * t], -1
            )
            point_elbow(controls, arm, (1.0, 0.1, -0.2), on)
        else:
            goal = np.stack(
                [0.1 * take.size - (0.4 + 0.1 * (take.size - 1)) * beat, -0.2 + 0 * t, 0.52 + 0.05 * beat], -1
            )
        reach(controls, arm, goal, on)
    return controls


def arm_circles(take: Take, side: str, backward: bool = False) -> Controls:
    """Swing the straight arms in large circles."""
    controls, t = stand(take), take.t
    on = _gesture_weight(take, 0.4)
    angle = 2 * np.pi * (0.72 * take.tempo * t + take.around(0, 1)) * (-1 if backward else 1)
    for arm in SIDES[side]:
        goal = np.stack([0.32 + 0.08 * np.cos(angle), 0.86 * np.cos(angle), 0.86 * np.sin(angle) * 0.8 + 0.12], axis=-1)
        reach(controls, arm, goal, on)
    controls.spine[:, 0] += 0.04 * np.sin(angle) * on
    return controls


def swing_arms(take: Take, across: bool = False) -> Controls:
    """Swing both arms back and forth, or (`across`) out to the sides and across the chest."""
    controls, t = stand(take), take.t
    phase = 2 * np.pi * (0.85 * take.tempo * t + take.around(0, 1))
    swing = np.sin(phase)
    for arm in (0, 1):
        if across:
            goal = np.stack([0.25 + 0.62 * swing, 0.0 + 0.05 * arm * (1 - swing), 0.55 - 0.25 * swing], axis=-1)
        else:
            angle = 0.15 + 1.0 * take.size * swing
            goal = np.stack([0.14 + 0 * t, -0.93 * np.cos(angle), 0.93 * np.sin(angle)], axis=-1)
        reach(controls, arm, goal, np.ones_like(t))
    if not across:
        controls.pelvis[:, 1] -= 0.03 * (1 - np.cos(2 * phase)) * 0.5
        controls.spine[:, 0] += 0.06 * swing
    return controls


def stretch(take: Take) -> Controls:
    """Stretch both arms up on tiptoe, leaning back a little, and lower them."""
    controls, t = stand(take), take.t
    for start, width in take.slots(3.2):
        up = bump(t, start + 0.02 * width, 0.92 * width, 0.42, 0.4)
        tip = bump(t, start + 0.2 * width, 0.6 * width, 0.45, 0.45)
        for arm in (0, 1):
            reach(controls, arm, (0.02, 0.96, 0.06), up)
        controls.spine[:, 0] -= 0.18 * up
        controls.head[:, 0] -= 0.35 * up
        controls.foot[..., 1] += 0.55 * tip[:, None]
        controls.pelvis[:, 1] += 0.065 * tip
        controls.pelvis[:, 2] += 0.045 * tip
    return controls


def hold(
    take: Take,
    side: str,
    goal: Sequence[float],
    elbow: Sequence[float] = (0.6, -0.5, -0.6),
    nod: float = 0.0,
    shake: float = 0.0,
    rate: float = 2.0,
) -> Controls:
    """Move the hands to `goal` and hold them there: to point, salute, phone, pray.

    Args:
        take: Circumstances of the clip.
        side: ``left``, ``right`` or ``both``.
        goal: Position of the wrist relative to its shoulder, in arm lengths: outward, up, forward.
        elbow: Direction in which the elbow points.
        nod: Angle of a nod towards the hands, in radians.
        shake: Amplitude of a shake of the hands, in arm lengths.
        rate: Frequency of the shake, in Hz.
    """
    controls, t = stand(take), take.t
    on = _gesture_weight(take, 0.65 / take.tempo)
    swing = shake * np.sin(2 * np.pi * rate * take.tempo * t)
    for arm in SIDES[side]:
        place = np.asarray(goal) + drift(take, 0.02, 3) + np.stack([0 * t, swing, 0.5 * swing], axis=-1)
        reach(controls, arm, place, on)
        point_elbow(controls, arm, elbow, on)
    controls.head[:, 0] += nod * on
    return controls


def drink(take: Take) -> Controls:
    """Lift a cup to the mouth with the right hand, drink and lower it."""
    controls, t = stand(take), take.t
    for start, width in take.slots(2.8):
        hand = keys(
            t,
            [start, start + 0.3 * width, start + 0.42 * width, start + 0.68 * width, start + 0.95 * width],
            [(0.0, 0, 0), (-0.28, 1.18, 0.36), (-0.29, 1.24, 0.34), (-0.29, 1.25, 0.33), (0, 0, 0)],
        )
        controls.hand[:, 1] += hand
        tip = bump(t, start + 0.35 * width, 0.4 * width, 0.4, 0.4)
        controls.head[:, 0] -= 0.4 * take.size * tip
        point_elbow(controls, 1, (0.8, -0.7, 0.0), bump(t, start, width, 0.3, 0.3))
    return controls


def push(take: Take, pull: bool = False) -> Controls:
    """Push something away with both hands, or pull it closer."""
    controls, t = stand(take), take.t
    controls.toe[:, 0, 2] += 0.2
    controls.toe[:, 1, 2] -= 0.2
    controls.pelvis[:, 1] -= 0.06
    on = ease((t + take.around(0.0, 0.5)) / 0.5)
    out = np.zeros_like(t)
    for start, width in take.slots(1.9):
        out += bump(t, start, width, 0.3 if pull else 0.5, 0.55 if pull else 0.4)
    for arm in (0, 1):
        reach(controls, arm, (-0.02, -0.2, 0.36), on)
        reach(controls, arm, (-0.05, -0.12, 0.93), on * out)
    lean = out - (1 - out) * 0.6 if pull else out
    controls.pelvis[:, 2] += 0.13 * lean * take.size * (0.7 if pull else 1)
    controls.spine[:, 0] += (0.12 if pull else 0.22) * lean
    controls.turn[:, 1] += 0.1 * lean
    return controls


def shrug(take: Take) -> Controls:
    """Lift the open hands and tilt the head."""
    controls, t = stand(take), take.t
    for start, width in take.slots(2.0):
        up = bump(t, start + 0.05 * width, 0.85 * width, 0.35, 0.35)
        for arm in (0, 1):
            reach(controls, arm, (0.45, -0.38, 0.42), up)
        controls.head[:, 1] += 0.22 * take.size * up
        controls.spine[:, 0] -= 0.08 * up
    return controls
