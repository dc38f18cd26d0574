"""Actions that step: walking, running and their variants along a path, steps and turns in place.

`steps` makes them from a `Gait`, a path and a heading. Each foot plant is planned for the position of the body at
mid-stance, so a planted foot does not slide.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from motionkit.starter._solve import STAND, Array, Controls
from motionkit.starter._take import Take, bump, drift, ease, point_elbow, reach, stand

_ROLL = 0.06
"""Share of a cycle between the foot plant (heel strike) and the contact of the ball with the floor."""

Function = Callable[[Array], Array]
"""A function of time: of seconds ``[n]``."""


@dataclass(frozen=True)
class Gait:
    """Parameters of a gait."""

    cadence: float = 1.8  # Steps of both feet per second
    duty: float = 0.59  # Share of a foot's cycle that is stance; below 0.5 there is a flight phase
    width: float = 0.17  # Step width: distance between the tracks of the feet, metres
    lift: float = 0.09  # Height of the foot during its swing, metres
    push: float = 0.75  # Heel-up angle at the end of stance, radians
    bob: float = 0.02  # Rise of the pelvis at mid-stance, metres; negative for running
    sway: float = 0.025  # Weight shift: sideways displacement of the pelvis over the stance foot, metres
    lower: float = 0.015  # How much lower the pelvis is than in standing, metres
    lean: float = 0.04  # Forward pitch of the trunk, radians
    twist: float = 0.08  # Yaw of the pelvis with each step, radians
    arms: float = 0.4  # Amplitude of the arm swing, radians
    bent: float = 0.95  # Distance from shoulder to wrist in arm lengths; 1 is a straight arm
    ahead: float = 0.05  # Middle of the arm swing, radians forward of hanging
    fore: float = 0.05  # Distance of the ball of the foot in front of the pelvis at mid-stance, metres
    tiptoe: float = 0.0  # Heel-up angle during the whole cycle, radians


def _pitch(phase: Array, duty: float) -> Array:
    """Return the heel-up angle over a foot's cycle (phase 0 is the foot plant), in units of the push-off angle."""
    at = np.array([0.0, 0.1, 0.55 * duty, duty + 0.06 * (1 - duty), duty + 0.8 * (1 - duty), 1.0])
    value = np.array([-0.1, 0.0, 0.0, 1.0, -0.22, -0.1])
    i = np.clip(np.searchsorted(at, phase, side="right") - 1, 0, len(at) - 2)
    w = ease((phase - at[i]) / (at[i + 1] - at[i]))
    return np.asarray(value[i] + (value[i + 1] - value[i]) * w)


def steps(take: Take, gait: Gait, path: Function, heading: Function, vigour: Function) -> Controls:
    """Step along a path.

    Args:
        take: Circumstances of the clip.
        gait: The gait.
        path: Position of the pelvis ``[n, 2]`` (x, z) in metres; smooth, and defined before and after the clip too.
        heading: Yaw ``[n]`` of the body in radians, also defined before and after the clip.
        vigour: Factor ``[n]`` from 0 (standing) to 1 on the lift of the feet, the arm swing and the body's cycle.
    """
    t, controls = take.t, stand(take)
    cycle = 2.0 / gait.cadence
    start = take.around(0.0, 1.0)
    live, yaw, place = vigour(t), heading(t), path(t)
    for side, sign in ((0, 1.0), (1, -1.0)):
        # Phase in cycles; the feet are half a cycle apart. k is the number of the stance, u in -0.5..0.5 the phase
        # relative to mid-stance.
        u = t / cycle + start + 0.5 * side
        k = np.round(u)
        u = u - k

        def plant(index: Array, sign: float = sign, side: int = side) -> tuple[Array, Array]:
            moment = (index - start - 0.5 * side) * cycle
            angle, centre = heading(moment), path(moment)
            cos, sin, out = np.cos(angle), np.sin(angle), sign * gait.width / 2
            # The foot plant of stance `index`: beside the position of the pelvis at mid-stance, in the heading there.
            spot = centre + np.stack([out * cos + gait.fore * sin, -out * sin + gait.fore * cos], axis=-1)
            return spot, angle + sign * 0.1

        after = u > gait.duty / 2
        # Stance is |u| <= duty / 2; s goes from 0 to 1 over the swing between two stances.
        swinging = np.abs(u) > gait.duty / 2
        s = np.where(after, (u - gait.duty / 2) / (1 - gait.duty), (u + 1 - gait.duty / 2) / (1 - gait.duty))
        s = np.where(swinging, s, 0.0)
        source, angle = plant(np.where(swinging & ~after, k - 1, k))
        target, later = plant(np.where(after, k + 1, k))
        # The horizontal movement is cubic and a little shorter than the swing, so that the foot hardly slides close to
        # the floor.
        x = np.clip((s - 0.06) / 0.88, 0, 1)
        w = x**2 * (3 - 2 * x)
        controls.toe[:, side, [0, 2]] = source + (target - source) * w[:, None]
        # Heel strike: the ball of the foot touches the floor a little after the foot plant.
        air = 1 - gait.duty + _ROLL
        s = np.clip(np.where(after, u - gait.duty / 2, u + 1 - gait.duty / 2) / air, 0, 1)
        controls.toe[:, side, 1] = gait.lift * live * (4 * s * (1 - s)) ** 1.5 * (1.2 - 0.4 * s)
        controls.foot[:, side, 0] = angle + (later - angle) * w
        phase = np.mod(u + gait.duty / 2, 1.0)
        controls.foot[:, side, 1] = gait.tiptoe + gait.push * live * np.maximum(_pitch(phase, gait.duty), -0.22)
        controls.plant[:, side] = ~swinging

        swing = gait.ahead * live + gait.arms * live * np.sin(2 * np.pi * (u - 0.03))
        radius = 0.96 + (gait.bent - 0.96) * live
        controls.hand[:, side, 1] = -radius * np.cos(swing)
        controls.hand[:, side, 2] = radius * np.sin(swing) + 0.05
        controls.hand[:, side, 0] = 0.13 - 0.07 * live * np.maximum(np.sin(swing), 0)

    # The body's cycle: weight shift and twist once per cycle, bob twice (once per step).
    beat = 2 * np.pi * (t / cycle + start)
    shift = gait.sway * live * np.cos(beat)
    controls.pelvis[:, 0] += place[:, 0] + shift * np.cos(yaw)
    controls.pelvis[:, 2] += place[:, 1] - shift * np.sin(yaw)
    controls.pelvis[:, 1] = STAND - 0.005 - gait.lower * live + gait.bob * live * np.cos(2 * beat)
    controls.pelvis[:, 1] += 0.10 * np.sin(gait.tiptoe)
    controls.turn[:, 0] += yaw + gait.twist * live * np.sin(beat)
    controls.turn[:, 1] += 0.4 * gait.lean * live
    controls.turn[:, 2] += 0.03 * live * np.cos(beat)
    controls.spine[:, 0] += 0.6 * gait.lean * live
    controls.spine[:, 2] -= 1.7 * gait.twist * live * np.sin(beat)
    controls.head[:, 0] -= 0.5 * gait.lean * live
    return controls


def envelope(take: Take, ramp: float) -> tuple[Function, Function]:
    """Return the speed over a clip (0 to 1) and its integral: steady, or with a start from or a stop to standing.

    Args:
        take: Circumstances of the clip, which draw whether it has a start and a stop.
        ramp: Seconds of the start and of the stop.
    """
    kind = take.rng.choice(4, p=[0.4, 0.25, 0.25, 0.1])
    first, last = bool(kind & 1), bool(kind & 2)
    begin, finish = take.around(0.1, 0.35), take.duration - take.around(0.1, 0.3)
    grid = np.linspace(-3.0, take.duration + 3.0, 1200)
    speed = np.ones_like(grid)
    if first:
        speed = speed * ease((grid - begin) / ramp)
    if last:
        speed = speed * (1 - ease((grid - finish + ramp) / ramp))
    # Integral of the speed by the trapezoidal rule, 0 at t = 0.
    total = np.concatenate([[0.0], np.cumsum((speed[1:] + speed[:-1]) / 2 * np.diff(grid))])
    total -= np.interp(0.0, grid, total)
    return (lambda x: np.interp(x, grid, speed)), (lambda x: np.interp(x, grid, total))


def still(x: Array) -> Array:
    """Return a path that stays at the origin: stepping in place."""
    return np.zeros((len(x), 2))


def ahead(x: Array) -> Array:
    """Return a heading that stays +Z."""
    return np.zeros(len(x))


WALK = Gait()
RUN = Gait(
    cadence=2.8,
    duty=0.36,
    width=0.1,
    lift=0.2,
    push=1.15,
    bob=-0.035,
    sway=0.01,
    lower=0.05,
    lean=0.2,
    twist=0.14,
    arms=0.75,
    bent=0.66,
    ahead=0.35,
    fore=0.06,
)
JOG = replace(RUN, cadence=2.55, duty=0.43, lift=0.15, push=0.9, bob=-0.03, lean=0.1, arms=0.45, bent=0.64, lower=0.04)
SNEAK = Gait(
    cadence=1.25,
    duty=0.66,
    lift=0.15,
    push=0.5,
    bob=0.01,
    lower=0.2,
    lean=0.55,
    arms=0.1,
    bent=0.6,
    ahead=0.9,
    width=0.2,
    twist=0.05,
)
MARCH = Gait(cadence=1.9, duty=0.55, lift=0.3, push=0.25, bob=0.012, arms=0.75, lean=-0.02, lower=0.01)


def _scaled(take: Take, gait: Gait, cadence: float = 1.0) -> Gait:
    """Return a gait with the cadence, lift and arm swing of this take."""
    return replace(
        gait, cadence=gait.cadence * take.tempo * cadence, lift=gait.lift * take.size, arms=gait.arms * take.size
    )


def travel(
    take: Take, gait: Gait = WALK, speed: float = 1.1, angle: float = 0.0, turn: float = 0.0, cadence: float = 1.0
) -> Controls:
    """Walk or run at a steady speed, straight or in a circle.

    Args:
        take: Circumstances of the clip.
        gait: The gait.
        speed: Metres per second.
        angle: Direction of travel relative to the heading: pi is backwards, pi / 2 to the left.
        turn: Yaw rate in rad/s; with one the path is a circle.
        cadence: Factor on the cadence of the gait.
    """
    gait = _scaled(take, gait, cadence)
    speed *= np.sqrt(take.size) * take.tempo
    vigour, distance = envelope(take, 0.7)
    rate = turn * take.tempo

    def heading(x: Array) -> Array:
        return np.asarray(rate * distance(x))

    def path(x: Array) -> Array:
        s, radius = distance(x), speed / rate if rate else 0.0
        if not rate:
            return np.asarray(speed * s[:, None] * np.array([np.sin(angle), np.cos(angle)]))
        bearing = rate * s + angle
        return np.stack(
            [radius * (np.cos(angle) - np.cos(bearing)), radius * (np.sin(bearing) - np.sin(angle))], axis=-1
        )

    controls = steps(take, gait, path, heading, vigour)
    if rate:
        controls.turn[:, 2] -= 0.08 * rate * speed * vigour(take.t) * 0.5
        controls.head[:, 2] += 0.25 * np.sign(rate) * vigour(take.t)
    return controls


def walk_bend(take: Take, angle: float) -> Controls:
    """Walk forward, turn by `angle` in the middle of the clip and walk on."""
    gait, speed = _scaled(take, WALK), 1.05 * np.sqrt(take.size) * take.tempo
    middle, width = take.duration * take.around(0.42, 0.55), take.around(0.9, 1.2)
    grid = np.linspace(-3, take.duration + 3, 1500)
    yaw = angle * ease((grid - middle) / width + 0.5)
    pace = speed * (1 - 0.35 * bump(grid, middle - width / 2, width, 0.5, 0.5))
    xz = np.cumsum(np.stack([np.sin(yaw), np.cos(yaw)], axis=-1) * (pace * (grid[1] - grid[0]))[:, None], axis=0)
    xz -= np.stack([np.interp(0.0, grid, xz[:, i]) for i in range(2)])

    def path(x: Array) -> Array:
        return np.stack([np.interp(x, grid, xz[:, i]) for i in range(2)], axis=-1)

    controls = steps(take, gait, path, lambda x: np.interp(x, grid, yaw), lambda x: np.ones(len(x)))
    controls.head[:, 2] += 0.4 * np.sign(angle) * bump(take.t, middle - width * 0.8, width, 0.4, 0.5)
    return controls


def zigzag(take: Take) -> Controls:
    """Walk forward along a wavy line."""
    gait, speed = _scaled(take, WALK), 1.0 * take.tempo
    period, depth = take.around(2.2, 2.8), 0.75 * take.size
    sign, phase = take.rng.choice([-1.0, 1.0]), take.around(0, 1)

    def heading(x: Array) -> Array:
        return np.asarray(sign * depth * np.sin(2 * np.pi * (x / period + phase)))

    grid = np.linspace(-3, take.duration + 3, 1500)
    yaw = heading(grid)
    xz = np.cumsum(np.stack([np.sin(yaw), np.cos(yaw)], -1) * speed * (grid[1] - grid[0]), axis=0)

    def path(x: Array) -> Array:
        return np.stack([np.interp(x, grid, xz[:, i]) for i in range(2)], axis=-1)

    return steps(take, gait, path, heading, lambda x: np.ones(len(x)))


def in_place(take: Take, gait: Gait = WALK, lift: float = 0.16) -> Controls:
    """Step in place."""
    gait = _scaled(take, replace(gait, lift=lift, push=0.35, duty=0.56))
    vigour, _ = envelope(take, 0.5)
    return steps(take, gait, still, ahead, vigour)


def turn_round(take: Take, angle: float) -> Controls:
    """Turn in place by `angle` with small steps, once; the body stands for the rest of a long clip."""
    gait = _scaled(take, replace(WALK, lift=0.06, push=0.3, duty=0.58, arms=0.12, twist=0.02, cadence=2.1))
    lead = take.around(0.15, 0.5)
    width = min(take.duration - lead - 0.3, max(1.0, abs(angle) * take.around(0.75, 0.95) / take.tempo))

    def heading(x: Array) -> Array:
        return np.asarray(angle * ease((x - lead) / width))

    def vigour(x: Array) -> Array:
        return bump(x, lead - 0.15, width + 0.3, 0.2, 0.2)

    controls = steps(take, gait, still, heading, vigour)
    controls.head[:, 2] += 0.45 * np.sign(angle) * bump(take.t, lead - 0.1, width, 0.25, 0.5)
    return controls


def stumble(take: Take) -> Controls:
    """Walk, trip, regain balance and walk on."""
    gait, speed = _scaled(take, WALK), 1.1 * take.tempo
    trip = take.duration * take.around(0.35, 0.5)
    width = take.around(0.9, 1.1)
    grid = np.linspace(-3, take.duration + 3, 1500)
    pace = speed * (
        1 + 0.5 * bump(grid, trip - 0.1, width * 0.6, 0.4, 0.6) - 0.35 * bump(grid, trip + 0.5, width, 0.4, 0.6)
    )
    along = np.cumsum(pace) * (grid[1] - grid[0])
    along -= np.interp(0.0, grid, along)

    def path(x: Array) -> Array:
        return np.stack([np.zeros(len(x)), np.interp(x, grid, along)], axis=-1)

    controls = steps(take, gait, path, ahead, lambda x: np.ones(len(x)))
    fall = bump(take.t, trip, width, 0.35, 0.6) * take.size
    controls.pelvis[:, 1] -= 0.1 * fall
    controls.spine[:, 0] += 0.75 * fall
    controls.turn[:, 1] += 0.2 * fall
    for side in (0, 1):
        reach(controls, side, (0.45, -0.35 - 0.1 * side, 0.7), np.clip(fall, 0, 1))
    return controls


def _over_left(controls: Controls) -> Array:
    """Return the weight shift ``[T]``: 1 if the weight is on the left foot, 0 if it is on the right one."""
    gap = (controls.toe[:, 1] - controls.toe[:, 0])[:, 2]
    lag = controls.toe[:, 0, 1] * 6
    return np.asarray(np.clip(0.5 + 0.8 * (np.gradient(gap) > 0) - 0.4 - lag, 0, 1))


def limp(take: Take) -> Controls:
    """Limp with a bad left leg: in its stance the pelvis drops and the trunk leans to the left."""
    gait = replace(_scaled(take, WALK), cadence=1.45 * take.tempo, sway=0.05, arms=0.2, duty=0.64)
    vigour, distance = envelope(take, 0.7)
    speed = 0.62 * take.tempo

    def path(x: Array) -> Array:
        return np.stack([np.zeros(len(x)), speed * distance(x)], axis=-1)

    controls = steps(take, gait, path, ahead, vigour)
    bad = vigour(take.t) * ease(1.3 * _over_left(controls)) * take.size
    controls.pelvis[:, 1] -= 0.055 * bad
    controls.spine[:, 1] -= 0.32 * bad
    controls.turn[:, 2] -= 0.1 * bad
    reach(controls, 0, (0.1, -0.78, 0.32), 0.9 * vigour(take.t))
    return controls


def drunk(take: Take) -> Controls:
    """Stagger along a wavy path with a swaying trunk."""
    gait = replace(_scaled(take, WALK), cadence=1.5 * take.tempo, width=0.26, sway=0.07, lower=0.04, arms=0.25)
    vigour, distance = envelope(take, 0.8)
    period, phase = take.around(1.6, 2.2), take.around(0, 1)
    amplitude = 0.14 * take.size

    def path(x: Array) -> Array:
        wander = amplitude * np.sin(2 * np.pi * (x / period + phase)) * vigour(x)
        return np.stack([wander, 0.7 * take.tempo * distance(x)], axis=-1)

    controls = steps(take, gait, path, ahead, vigour)
    wave = 2 * np.pi * (take.t / period + phase)
    controls.spine[:, 1] += 0.35 * take.size * np.sin(wave)
    controls.spine[:, 0] += 0.2 + 0.15 * np.sin(0.7 * wave)
    controls.head[:, 1] += 0.25 * np.sin(wave - 0.5)
    controls.head[:, 0] += 0.2
    for side in (0, 1):
        controls.hand[:, side, 0] += 0.2 + 0.15 * np.sin(wave + side)
    return controls


def with_arms(take: Take, pose: str) -> Controls:
    """Walk forward with the arms held in a pose: ``up``, ``side``, ``hips`` or ``front``."""
    controls = travel(take, replace(WALK, arms=0.0, twist=0.05), 0.95)
    goals = {
        "up": (0.15, 0.93, 0.1),
        "side": (0.96, 0.05, 0.05),
        "hips": (0.16, -0.5, 0.13),
        "front": (0.0, 0.02, 0.95),
    }
    full = np.ones(len(take.t))
    for side in (0, 1):
        wobble = drift(take, 0.03, 3)
        reach(controls, side, np.asarray(goals[pose]) + wobble, full)
        if pose == "hips":
            point_elbow(controls, side, (1.0, -0.1, -0.35), full)
    return controls


def one_step(take: Take, direction: float) -> Controls:
    """Take single steps forward (+1) or back (-1), each followed by a pause."""
    slots = take.slots(2.2)
    moment = [(start + 0.15 * width, 0.6 * width) for start, width in slots]
    length = 0.62 * take.size * direction

    def path(x: Array) -> Array:
        along = sum((length * ease((x - a) / w) for a, w in moment), np.zeros(len(x)))
        return np.stack([np.zeros(len(x)), along], axis=-1)

    def vigour(x: Array) -> Array:
        return np.asarray(sum((bump(x, a - 0.1, w + 0.2, 0.2, 0.2) for a, w in moment), np.zeros(len(x))))

    return steps(take, _scaled(take, replace(WALK, arms=0.2, push=0.45)), path, ahead, vigour)


def skip(take: Take) -> Controls:
    """Skip forward, with a high knee and a bounce in every step."""
    gait = replace(
        _scaled(take, RUN),
        cadence=2.0 * take.tempo,
        duty=0.46,
        lift=0.28 * take.size,
        bob=-0.06,
        lean=0.05,
        arms=0.9,
        bent=0.85,
        ahead=0.25,
    )
    return travel(replace(take, tempo=1.0, size=1.0), gait, 1.5)
