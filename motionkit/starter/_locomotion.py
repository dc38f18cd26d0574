"""Actions that travel on foot."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from motionkit.starter._body import Array
from motionkit.starter._controls import Controls
from motionkit.starter._gait import Gait, ahead, envelope, steps, still
from motionkit.starter._timing import Take, bump, drift, ease, point_elbow, reach

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
    """The take's own cadence, lift and arm swing."""
    return replace(
        gait, cadence=gait.cadence * take.tempo * cadence, lift=gait.lift * take.size, arms=gait.arms * take.size
    )


def travel(
    take: Take, gait: Gait = WALK, speed: float = 1.1, angle: float = 0.0, turn: float = 0.0, cadence: float = 1.0
) -> Controls:
    """Walk, run and their kin.

    Args:
        take: Circumstances of the clip.
        gait: Manner of stepping.
        speed: Metres per second.
        angle: Direction of travel relative to where the body faces (pi = backwards, +pi/2 = to the left).
        turn: Yaw rate in rad/s; the path is a circle.
        cadence: Factor on the gait's cadence.
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
    """Walk forward, turn by `angle` in the middle and walk on."""
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
    """Step on the spot."""
    gait = _scaled(take, replace(gait, lift=lift, push=0.35, duty=0.56))
    vigour, _ = envelope(take, 0.5)
    return steps(take, gait, still, ahead, vigour)


def turn_round(take: Take, angle: float) -> Controls:
    """Turn on the spot by `angle` with small steps; more than once in a long clip would be a spin, so it waits."""
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
    """Walk, trip, catch oneself and walk on."""
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
    """``[T]`` 0..1, how much the body is over the left foot rather than the right."""
    gap = (controls.toe[:, 1] - controls.toe[:, 0])[:, 2]
    lag = controls.toe[:, 0, 1] * 6
    return np.asarray(np.clip(0.5 + 0.8 * (np.gradient(gap) > 0) - 0.4 - lag, 0, 1))


def limp(take: Take) -> Controls:
    """Walk with a bad left leg: short dips on that side and a leaning trunk."""
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
    """Stagger along with a swaying trunk."""
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
    """Skip forward with a high knee and a bounce on every step."""
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
