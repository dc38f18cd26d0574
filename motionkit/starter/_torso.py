"""Actions of trunk and head over planted feet, dances included."""

from __future__ import annotations

import numpy as np

from motionkit.starter._controls import Controls
from motionkit.starter._timing import Take, bump, drift, ease, keys, point_elbow, reach, stand


def bow(take: Take, depth: float = 1.0) -> Controls:
    """Bow and come up again."""
    controls, t = stand(take, 0.8), take.t
    for start, width in take.slots(2.4):
        down = bump(t, start + 0.05 * width, 0.85 * width, 0.4, 0.4) * depth * take.size**0.5
        controls.turn[:, 1] += 0.55 * down
        controls.spine[:, 0] += 0.7 * down
        controls.head[:, 0] += 0.3 * down
        controls.pelvis[:, 2] -= 0.16 * down
        controls.pelvis[:, 1] -= 0.02 * down
        for side in (0, 1):
            reach(controls, side, (0.1, -0.88, 0.3), np.clip(down, 0, 1))
    return controls


def pick_up(take: Take, hands: str = "right", place: bool = False) -> Controls:
    """Bend down, touch the floor before the feet and come up holding an object (`place`: put it down)."""
    controls, t = stand(take, 1.2), take.t
    start, width = take.around(0.0, 0.25), min(take.duration - 0.3, take.around(2.0, 2.6) / take.tempo)
    down = bump(t, start, width, 0.45, 0.45)
    controls.pelvis[:, 1] -= 0.34 * down
    controls.pelvis[:, 2] -= 0.2 * down
    controls.turn[:, 1] += 0.75 * down
    controls.spine[:, 0] += 0.75 * down
    controls.head[:, 0] -= 0.2 * down
    late = ease((t - start - 0.55 * width) / (0.45 * width))
    held = (1 - ease((t - start) / (0.4 * width))) if place else late
    for side in (0, 1):
        if hands in ("both", ("left", "right")[side]):
            reach(controls, side, (-0.05, -0.42, 0.55), held)
            reach(controls, side, (-0.02, -0.75, 0.62), down)
        else:
            reach(controls, side, (0.0, -0.45, 0.5), 0.7 * down)
    return controls


def look_around(take: Take, first: float = 1.0, both: bool = True) -> Controls:
    """Turn the head to one side (+1 = left), and to the other when `both`."""
    controls, t = stand(take), take.t
    for start, width in take.slots(2.8 if both else 2.2):
        if both:
            look = keys(
                t,
                [
                    start,
                    start + 0.25 * width,
                    start + 0.42 * width,
                    start + 0.72 * width,
                    start + 0.86 * width,
                    start + width,
                ],
                [0, 1, 1, -1, -1, 0],
            )
        else:
            look = bump(t, start, width, 0.35, 0.35)
        controls.head[:, 2] += first * 0.95 * take.size * look
        controls.spine[:, 2] += first * 0.35 * look
        controls.turn[:, 0] += first * 0.08 * look
    return controls


def nod(take: Take, shake: bool = False) -> Controls:
    """Nod, or shake the head."""
    controls, t = stand(take), take.t
    on = bump(t, take.around(0, 0.2), take.duration - 0.3, 0.15, 0.15)
    wave = np.sin(2 * np.pi * (1.7 if shake else 1.5) * take.tempo * t)
    if shake:
        controls.head[:, 2] += 0.55 * take.size * wave * on
    else:
        controls.head[:, 0] += 0.4 * take.size * (wave + 0.4) * on
    return controls


def side_bend(take: Take) -> Controls:
    """Bend to the right with the left arm overhead and come back."""
    controls, t = stand(take, 1.6), take.t
    for start, width in take.slots(2.7):
        bend = bump(t, start + 0.02 * width, 0.92 * width, 0.42, 0.42) * np.sqrt(take.size)
        controls.spine[:, 1] += 0.85 * bend
        controls.turn[:, 2] += 0.15 * bend
        controls.pelvis[:, 0] += 0.07 * bend
        reach(controls, 0, (-0.3, 0.9, 0.05), np.clip(bend, 0, 1))
        reach(controls, 1, (0.14, -0.55, 0.14), np.clip(bend, 0, 1))
        point_elbow(controls, 1, (1.0, -0.1, -0.35), np.clip(bend, 0, 1))
    return controls


def touch_toes(take: Take) -> Controls:
    """Reach down to the toes with straight legs and come up."""
    controls, t = stand(take, 0.8), take.t
    for start, width in take.slots(2.8):
        down = bump(t, start, width * 0.95, 0.42, 0.42)
        controls.turn[:, 1] += 0.85 * down
        controls.spine[:, 0] += 1.05 * down
        controls.head[:, 0] += 0.2 * down
        controls.pelvis[:, 2] -= 0.2 * down
        controls.pelvis[:, 1] -= 0.03 * down
        for side in (0, 1):
            reach(controls, side, (0.0, -0.55, 0.78), down)
    return controls


def twist_trunk(take: Take) -> Controls:
    """Twist the upper body left and right with the arms held out."""
    controls, t = stand(take, 1.6), take.t
    wave = np.sin(2 * np.pi * (0.5 * take.tempo * t + take.around(0, 1)))
    controls.spine[:, 2] += 0.95 * take.size * wave
    controls.turn[:, 0] += 0.12 * wave
    for side in (0, 1):
        reach(controls, side, np.array([0.93, 0.02, 0.08]) + drift(take, 0.03, 3), np.ones_like(t))
    return controls


def sway(take: Take) -> Controls:
    """Dance by swaying hips and arms from side to side."""
    controls, t = stand(take, 1.6), take.t
    phase = 2 * np.pi * (0.8 * take.tempo * t + take.around(0, 1))
    wave = np.sin(phase)
    controls.pelvis[:, 0] += 0.11 * take.size * wave
    controls.pelvis[:, 1] -= 0.045 + 0.02 * np.cos(2 * phase)
    controls.turn[:, 2] += 0.12 * wave
    controls.spine[:, 1] -= 0.3 * wave
    controls.head[:, 1] += 0.15 * wave
    for side, sign in ((0, 1.0), (1, -1.0)):
        goal = np.stack([0.5 + 0.25 * sign * wave, -0.05 + 0.3 * sign * wave, 0.45 + 0 * t], axis=-1)
        reach(controls, side, goal, np.ones_like(t))
    return controls


def twist_dance(take: Take) -> Controls:
    """Dance the twist: hips and shoulders turn against each other, knees bent, elbows swinging."""
    controls, t = stand(take, 1.4), take.t
    phase = 2 * np.pi * (1.25 * take.tempo * t + take.around(0, 1))
    wave = np.sin(phase)
    controls.pelvis[:, 1] -= 0.1 + 0.05 * take.size * (0.5 - 0.5 * np.cos(phase / 3))
    controls.turn[:, 0] += 0.38 * take.size * wave
    controls.spine[:, 2] -= 0.8 * take.size * wave
    controls.spine[:, 0] += 0.12
    for side, sign in ((0, 1.0), (1, -1.0)):
        goal = np.stack([0.2 + 0 * t, -0.25 + 0 * t, 0.42 - 0.22 * sign * wave], axis=-1)
        reach(controls, side, goal, np.ones_like(t))
    return controls


def step_touch(take: Take, arms: str = "clap") -> Controls:
    """Dance steps to the side: right, together, left, together, with a clap or raised arms at each end."""
    controls, t = stand(take, 0.9), take.t
    beat = 0.62 / take.tempo
    reach_ = 0.34 * take.size
    offset = take.around(0, 0.3)
    hit = np.zeros_like(t)
    for number in range(int(take.duration / beat) + 1):
        start, sign = offset + number * beat, (-1.0, -1.0, 1.0, 1.0)[number % 4]
        side = (1, 0, 0, 1)[number % 4]
        s = (t - start) / (0.85 * beat)
        air = (s > 0) & (s < 1)
        controls.toe[:, side, 0] += sign * reach_ * ease(s)
        controls.toe[:, side, 1] += np.where(air, 0.07 * 16 * np.clip(s * (1 - s), 0, 1) ** 2, 0)
        controls.foot[:, side, 1] += 0.3 * bump(t, start, 0.85 * beat, 0.4, 0.6)
        controls.plant[:, side] *= ~air
        controls.pelvis[:, 0] += sign * reach_ / 2 * ease((t - start + 0.05) / (1.1 * beat))
        controls.pelvis[:, 1] -= 0.035 * bump(t, start, beat, 0.5, 0.5)
        if number % 2:
            hit += bump(t, start - 0.1, 0.95 * beat, 0.5, 0.5)
    hit = np.clip(hit, 0, 1)
    for side in (0, 1):
        if arms == "clap":
            reach(controls, side, (0.14, -0.4, 0.5), np.ones_like(t))
            reach(controls, side, (-0.29, -0.18, 0.6), hit)
        else:
            reach(controls, side, (0.25, -0.45, 0.4), np.ones_like(t))
            reach(controls, side, (0.35, 0.85, 0.2), hit)
    return controls
