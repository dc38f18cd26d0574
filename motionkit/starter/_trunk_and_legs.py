"""Actions in place: of one leg or the whole body (kick, squat, kneel), of trunk and head (bow, nod), and dances."""

from __future__ import annotations

import numpy as np

from motionkit.starter._solve import Controls
from motionkit.starter._take import Take, bump, drift, ease, keys, point_elbow, reach, stand, step_foot


def _shift(controls: Controls, weight: np.ndarray, amount: float = 0.085) -> None:
    """Shift the weight onto the left foot (`weight` from 0 to 1) or the right one (to -1)."""
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
    """Raise the right knee to the height of the hip, or (`alternate`) both knees in turn."""
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
    """Stand on the left leg for the whole clip, with a small wobble."""
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
    """Squat with the arms forward and rise again, or (`hold`) stay down in a crouch."""
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


def bounce(take: Take) -> Controls:
    """Bend and stretch the knees repeatedly, with both feet on the floor."""
    controls = stand(take, 1.3)
    wave = 0.5 - 0.5 * np.cos(2 * np.pi * (1.6 * take.tempo * take.t + take.around(0, 1)))
    controls.pelvis[:, 1] -= 0.13 * take.size * wave
    controls.spine[:, 0] += 0.12 * wave
    for side in (0, 1):
        reach(controls, side, (0.3, -0.55, 0.35), 0.4 + 0.5 * wave)
    return controls


def chair(take: Take, direction: str) -> Controls:
    """Sit down on a chair (``down``), stand up from it (``up``), or sit down and stand up (``both``)."""
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
    """Kneel on the right knee or on both, or (`rise`) get up."""
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
    """Lunge with the right leg, forward or to the side, and return."""
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


def bow(take: Take, depth: float = 1.0) -> Controls:
    """Bow and straighten up."""
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
    """Bend down, and pick up an object from the floor in front of the feet, or (`place`) put it down there."""
    controls, t = stand(take, 1.2), take.t
    start, width = take.around(0.0, 0.25), min(take.duration - 0.3, take.around(2.0, 2.6) / take.tempo)
    down = bump(t, start, width, 0.45, 0.45)
    controls.pelvis[:, 1] -= 0.34 * down
    controls.pelvis[:, 2] -= 0.2 * down
    controls.turn[:, 1] += 0.75 * down
    controls.spine[:, 0] += 0.75 * down
    controls.head[:, 0] -= 0.2 * down
    late = ease((t - start - 0.55 * width) / (0.45 * width))
    carried = (1 - ease((t - start) / (0.4 * width))) if place else late
    for side in (0, 1):
        if hands in ("both", ("left", "right")[side]):
            reach(controls, side, (-0.05, -0.42, 0.55), carried)
            reach(controls, side, (-0.02, -0.75, 0.62), down)
        else:
            reach(controls, side, (0.0, -0.45, 0.5), 0.7 * down)
    return controls


def look_around(take: Take, first: float = 1.0, both: bool = True) -> Controls:
    """Turn the head to one side (`first`: +1 left, -1 right) and, with `both`, to the other."""
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
    """Bend to the right with the left arm overhead, and straighten up."""
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
    """Reach down to the toes with straight legs, and straighten up."""
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
    """Twist the upper body left and right with the arms extended to the sides."""
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
    """Dance the twist: with bent knees, turn hips and shoulders in opposite directions and swing the elbows."""
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
    """Dance step touches: right, together, left, together, with a clap or raised arms at each touch."""
    controls, t = stand(take, 0.9), take.t
    beat = 0.62 / take.tempo
    stride = 0.34 * take.size
    offset = take.around(0, 0.3)
    hit = np.zeros_like(t)
    for number in range(int(take.duration / beat) + 1):
        start, sign = offset + number * beat, (-1.0, -1.0, 1.0, 1.0)[number % 4]
        side = (1, 0, 0, 1)[number % 4]
        s = (t - start) / (0.85 * beat)
        air = (s > 0) & (s < 1)
        controls.toe[:, side, 0] += sign * stride * ease(s)
        controls.toe[:, side, 1] += np.where(air, 0.07 * 16 * np.clip(s * (1 - s), 0, 1) ** 2, 0)
        controls.foot[:, side, 1] += 0.3 * bump(t, start, 0.85 * beat, 0.4, 0.6)
        controls.plant[:, side] *= ~air
        controls.pelvis[:, 0] += sign * stride / 2 * ease((t - start + 0.05) / (1.1 * beat))
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
