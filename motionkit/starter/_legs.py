"""Actions of one leg or of the whole body over planted feet."""

from __future__ import annotations

import numpy as np

from motionkit.starter._controls import Controls
from motionkit.starter._timing import Take, bump, drift, ease, keys, point_elbow, reach, stand, step_foot


def _shift(controls: Controls, weight: np.ndarray, amount: float = 0.085) -> None:
    """Move the body over the left foot by `weight`."""
    controls.pelvis[:, 0] += amount * weight
    controls.spine[:, 1] += 0.06 * weight


def kick(take: Take, height: float, side_way: bool = False, back: bool = False) -> Controls:
    """Kick with the right leg to `height` metres: forward, sideways or backwards."""
    controls, t = stand(take), take.t
    height *= 0.8 + 0.2 * take.size
    for start, width in take.slots(1.75):
        width = min(width, 2.3)
        load = bump(t, start, width, 0.3, 0.3)
        _shift(controls, load)
        chamber, strike, recoil, down = (start + width * x for x in (0.32, 0.48, 0.64, 0.88))
        out, far = 0.09, 0.78 - 0.12 * max(height - 0.6, 0)
        if side_way:
            points = [(0, 0, 0), (-0.04, 0.42, 0.12), (-far * 0.95, height, 0.08), (-0.06, 0.4, 0.1), (0, 0, 0)]
        elif back:
            points = [(0, 0, 0), (0.0, 0.22, 0.12), (0.0, height, -far * 0.8), (0.0, 0.25, -0.1), (0, 0, 0)]
        else:
            points = [(0, 0, 0), (out * 0.5, 0.3, -0.16), (out, height, far), (out * 0.5, 0.33, 0.08), (0, 0, 0)]
        controls.toe[:, 1] += keys(t, [start + 0.1 * width, chamber, strike, recoil, down], points)
        pitch = (0, 0.5, 0.1, 0.5, 0) if side_way else ((0, 0.8, 1.3, 0.7, 0) if back else (0, 1.2, -0.35, 0.6, 0))
        controls.foot[:, 1, 1] += keys(t, [start + 0.1 * width, chamber, strike, recoil, down], pitch)
        controls.plant[:, 1] *= ~((t > start + 0.1 * width) & (t < down))
        hit = bump(t, chamber, recoil - chamber, 0.45, 0.5)
        controls.knee[:, 1, 1] += (0.9 if height > 0.75 else 0.35) * hit * (0.2 if back else 1.0)
        if side_way:
            controls.spine[:, 1] -= (0.2 + 0.55 * height) * hit
            controls.turn[:, 2] -= (0.12 + 0.3 * height) * hit
        elif back:
            controls.spine[:, 0] += 0.55 * hit
            controls.turn[:, 1] += 0.25 * hit
        else:
            controls.spine[:, 0] -= 0.05 * hit + 0.15 * (height - 0.4) * hit
            controls.turn[:, 1] -= 0.22 * height * hit
            controls.turn[:, 0] += 0.2 * hit
        controls.pelvis[:, 1] -= 0.02 * load
        reach(controls, 0, (0.35, -0.5, 0.5), 0.8 * load)
        reach(controls, 1, (0.4, -0.6, -0.05), 0.8 * load)
    return controls


def knee_raise(take: Take, alternate: bool = False) -> Controls:
    """Raise the right knee to hip height (both in turn with `alternate`)."""
    controls, t = stand(take), take.t
    for number, (start, width) in enumerate(take.slots(1.4 if alternate else 1.8)):
        width = min(width, 2.2)
        side = (1 - number % 2) if alternate else 1
        sign = 1.0 if side == 1 else -1.0
        up = bump(t, start + 0.12 * width, 0.76 * width, 0.42, 0.42)
        _shift(controls, sign * bump(t, start, width, 0.3, 0.3))
        controls.toe[:, side] += up[:, None] * np.array([0.03 * sign, 0.5 * take.size**0.5, 0.2])
        controls.foot[:, side, 1] += 0.5 * up
        controls.knee[:, side, 1] += 0.5 * up
        controls.plant[:, side] *= up < 1e-6
        reach(controls, 1 - side, (0.08, -0.5, 0.6), 0.7 * up)
        reach(controls, side, (0.18, -0.85, -0.35), 0.6 * up)
    return controls


def balance(take: Take, arms: bool = True) -> Controls:
    """Stand on the left leg for the whole clip, wobbling a little."""
    controls, t = stand(take), take.t
    up = ease((t - take.around(-0.6, 0.2)) / 0.9)
    wobble = drift(take, 0.05, 3) * 1.3
    _shift(controls, up, 0.095)
    controls.toe[:, 1] += up[:, None] * np.array([0.05, 0.42 * np.sqrt(take.size), 0.12])
    controls.toe[:, 1] += up[:, None] * wobble * 0.6
    controls.foot[:, 1, 1] += 0.7 * up
    controls.knee[:, 1, 1] += 0.4 * up
    controls.plant[:, 1] = up < 1e-6
    controls.spine[:, 1] += wobble[:, 0] * 2 * up
    controls.pelvis[:, 0] += 0.15 * wobble[:, 0] * up
    for side, sign in ((0, 1.0), (1, -1.0)):
        goal = np.array([0.93, 0.05, 0.1]) if arms else np.array([0.16, -0.5, 0.13])
        if not arms:
            point_elbow(controls, side, (1.0, -0.1, -0.35), up)
        reach(controls, side, goal + np.stack([0 * t, sign * wobble[:, 1] * 2.5, wobble[:, 2]], -1), up)
    return controls


def squat(take: Take, depth: float = 0.42, period: float = 2.0, hold: bool = False) -> Controls:
    """Squat with the arms forward; `hold` stays down (crouching) instead of coming up again."""
    controls, t = stand(take, 1.5), take.t
    depth *= 0.85 + 0.15 * take.size
    if hold:
        down = ease((t - take.around(-0.3, 0.3)) / take.around(0.8, 1.1))
    else:
        down = np.asarray(sum((bump(t, a, w, 0.42, 0.42) for a, w in take.slots(period)), np.zeros_like(t)))
    controls.pelvis[:, 1] -= depth * down
    controls.pelvis[:, 2] -= 0.13 * down * depth / 0.42
    controls.turn[:, 1] += (0.5 if hold else 0.35) * down
    controls.spine[:, 0] += (0.65 if hold else 0.25) * down
    controls.head[:, 0] -= 0.45 * down
    controls.foot[..., 0] += 0.12 * down[:, None] * np.array([1.0, -1.0])
    controls.knee[..., 0] += 0.3 * down[:, None]
    for side in (0, 1):
        reach(controls, side, (-0.05, -0.5, 0.55) if hold else (0.02, 0.1, 0.9), down)
    return controls


def chair(take: Take, direction: str) -> Controls:
    """Sit down on a chair (``down``), stand up from it (``up``) or sit and rise again (``both``)."""
    controls, t = stand(take), take.t
    lead, width = take.around(0.1, 0.5), take.around(1.25, 1.7) / take.tempo
    width = min(width, take.duration * 0.6)
    if direction == "down":
        seat = ease((t - lead) / width)
        lean = bump(t, lead, width * 1.1, 0.5, 0.5)
    elif direction == "up":
        seat = 1 - ease((t - lead - 0.25) / width)
        lean = bump(t, lead, width * 1.05, 0.42, 0.58)
    else:
        half = take.duration / 2
        seat = bump(t, 0.1, take.duration - 0.2, 0.38, 0.38)
        lean = bump(t, 0.1, half * 0.85, 0.5, 0.5) + bump(t, half * 1.1, half * 0.85, 0.5, 0.5)
    controls.pelvis[:, 1] -= (0.42 + 0.02 * take.size) * seat
    controls.pelvis[:, 2] -= 0.4 * seat
    controls.turn[:, 1] += 0.42 * lean - 0.08 * seat
    controls.spine[:, 0] += 0.55 * lean + 0.1 * seat
    controls.head[:, 0] -= 0.4 * lean
    for side in (0, 1):
        reach(controls, side, (-0.02, -0.5, 0.52), np.maximum(seat, 0.7 * np.clip(lean, 0, 1)))
    return controls


def kneel(take: Take, both: bool = False, rise: bool = False) -> Controls:
    """Go down on the right knee (on both knees), or get up from it."""
    controls, t = stand(take), take.t
    width = min(take.around(1.3, 1.7) / take.tempo, take.duration * 0.75)
    lead = take.around(0.0, 0.25)
    s = (t - lead) / width
    s = 1 - s if rise else s
    down = ease((s - 0.22) / 0.78)
    move, air = ease(s / 0.55), (s > 0) & (s < 0.55)
    arch = np.where(air, 16 * np.clip(s / 0.55 * (1 - s / 0.55), 0, 1) ** 2, 0)
    controls.toe[:, 1, 2] -= 0.5 * move
    controls.toe[:, 1, 1] += 0.06 * arch
    controls.foot[:, 1, 1] += 1.25 * ease(s / 0.7)
    controls.plant[:, 1] *= ~air
    controls.pelvis[:, 1] -= 0.46 * down
    controls.pelvis[:, 2] -= 0.12 * down + 0.05 * move
    controls.pelvis[:, 0] -= 0.03 * down
    controls.knee[:, 1, 1] -= 0.3 * down
    controls.spine[:, 0] += 0.35 * bump(s, 0.1, 0.9, 0.4, 0.5) + 0.08 * down
    if both:
        late = (s - 0.5) / 0.5
        step, fly = ease(late / 0.8), (late > 0) & (late < 0.8)
        controls.toe[:, 0, 2] -= 0.5 * step
        controls.toe[:, 0, 1] += np.where(fly, 0.05 * 16 * np.clip(late / 0.8 * (1 - late / 0.8), 0, 1) ** 2, 0)
        controls.foot[:, 0, 1] += 1.25 * ease(late / 0.9)
        controls.plant[:, 0] *= ~fly
        controls.knee[:, 0, 1] -= 0.3 * step
    for side in (0, 1):
        reach(controls, side, (0.05, -0.62, 0.38), 0.8 * down)
    return controls


def lunge(take: Take, direction: str = "forward") -> Controls:
    """Lunge with the right leg, forward or to the side, and come back."""
    controls, t = stand(take), take.t
    sideways = direction == "side"
    for start, width in take.slots(2.5):
        width = min(width, 3.2)
        go, back = start + 0.05 * width, start + 0.6 * width
        length = (0.6 if sideways else 0.72) * np.sqrt(take.size)
        move = (-length, 0.0) if sideways else (0.0, length)
        for moment, sign in ((go, 1.0), (back, -1.0)):
            step_foot(
                controls,
                take,
                1,
                moment,
                moment + 0.3 * width,
                (sign * move[0], sign * move[1]),
                lift=0.09,
                push=0.25,
                yaw=-0.25 * sign if sideways else 0.0,
            )
        deep = bump(t, go, back + 0.32 * width - go, 0.4, 0.38)
        if sideways:
            controls.pelvis[:, 0] -= 0.68 * length * deep
            controls.pelvis[:, 1] -= 0.2 * deep
            controls.spine[:, 0] += 0.4 * deep
            controls.turn[:, 1] += 0.2 * deep
        else:
            controls.pelvis[:, 2] += 0.52 * length * deep
            controls.pelvis[:, 1] -= 0.28 * deep
            controls.foot[:, 0, 1] += 0.75 * deep
            controls.spine[:, 0] += 0.1 * deep
        for side in (0, 1):
            reach(controls, side, (0.16, -0.5, 0.13), 0.9 * deep)
            point_elbow(controls, side, (1.0, -0.1, -0.35), deep)
    return controls
