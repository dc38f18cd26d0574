"""Steps along a path. Footfalls are planned where the body is at mid-stance, so planted feet do not slide."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from motionkit.starter._body import STAND, Array
from motionkit.starter._controls import Controls
from motionkit.starter._timing import Take, ease, stand

_ROLL = 0.06
"""Share of a cycle between the foot's arrival and the ball's touching the floor."""

Function = Callable[[Array], Array]


@dataclass(frozen=True)
class Gait:
    """Parameters of a manner of stepping.

    Attributes:
        cadence: Steps per second, both feet counted.
        duty: Share of a foot's cycle during which it is on the ground; below one half there is a flight phase.
        width: Distance between the two lines of footfalls in metres.
        lift: Height of the swinging foot in metres.
        push: Heel-up angle at the end of a stance.
        bob: Rise of the pelvis at mid-stance in metres; negative for running.
        sway: Sideways shift of the pelvis over the standing foot, metres.
        lower: How much lower than standing the pelvis travels, metres.
        lean: Forward pitch of the trunk.
        twist: Yaw of the pelvis with each step.
        arms: Amplitude of the arm swing, radians.
        bent: Distance from shoulder to wrist in arm lengths (1 = straight arm).
        ahead: Middle of the arm swing, radians forward.
        fore: Where the ball of the foot is at mid-stance, metres before the pelvis.
        tiptoe: Heel-up angle that is kept throughout.
    """

    cadence: float = 1.8
    duty: float = 0.59
    width: float = 0.17
    lift: float = 0.09
    push: float = 0.75
    bob: float = 0.02
    sway: float = 0.025
    lower: float = 0.015
    lean: float = 0.04
    twist: float = 0.08
    arms: float = 0.4
    bent: float = 0.95
    ahead: float = 0.05
    fore: float = 0.05
    tiptoe: float = 0.0


def _pitch(phase: Array, duty: float) -> Array:
    """Heel-up angle over a foot's cycle (0 = landing), in units of the push-off angle."""
    at = np.array([0.0, 0.1, 0.55 * duty, duty + 0.06 * (1 - duty), duty + 0.8 * (1 - duty), 1.0])
    value = np.array([-0.1, 0.0, 0.0, 1.0, -0.22, -0.1])
    i = np.clip(np.searchsorted(at, phase, side="right") - 1, 0, len(at) - 2)
    w = ease((phase - at[i]) / (at[i + 1] - at[i]))
    return np.asarray(value[i] + (value[i + 1] - value[i]) * w)


def steps(take: Take, gait: Gait, path: Function, heading: Function, vigour: Function) -> Controls:
    """Step along a path.

    Args:
        take: The clip's circumstances.
        gait: Manner of stepping.
        path: Seconds ``[n]`` to pelvis ``[n, 2]`` (x, z), metres; must be smooth and defined outside the clip too.
        heading: Seconds to yaw ``[n]``.
        vigour: Seconds to 0..1, how much the feet are lifted and the arms swing (0 = standing still).
    """
    t, controls = take.t, stand(take)
    cycle = 2.0 / gait.cadence
    start = take.around(0.0, 1.0)
    live, yaw, place = vigour(t), heading(t), path(t)
    for side, sign in ((0, 1.0), (1, -1.0)):
        # Phase in cycles; the left and right foot are half a cycle apart. k numbers the stances, u in -0.5..0.5 is the
        # phase around mid-stance.
        u = t / cycle + start + 0.5 * side
        k = np.round(u)
        u = u - k

        def plant(index: Array, sign: float = sign, side: int = side) -> tuple[Array, Array]:
            moment = (index - start - 0.5 * side) * cycle
            angle, centre = heading(moment), path(moment)
            cos, sin, out = np.cos(angle), np.sin(angle), sign * gait.width / 2
            # Where the foot stands during stance `index`: beside the pelvis' place at mid-stance, in the heading there.
            spot = centre + np.stack([out * cos + gait.fore * sin, -out * sin + gait.fore * cos], axis=-1)
            return spot, angle + sign * 0.1

        after = u > gait.duty / 2
        # A foot is on the ground for |u| < duty / 2; s in 0..1 runs over its swing to the next stance.
        swinging = np.abs(u) > gait.duty / 2
        s = np.where(after, (u - gait.duty / 2) / (1 - gait.duty), (u + 1 - gait.duty / 2) / (1 - gait.duty))
        s = np.where(swinging, s, 0.0)
        source, angle = plant(np.where(swinging & ~after, k - 1, k))
        target, later = plant(np.where(after, k + 1, k))
        # Cubic and a little shorter than the lift, so that the foot hardly moves sideways while it is close to the
        # floor.
        x = np.clip((s - 0.06) / 0.88, 0, 1)
        w = x**2 * (3 - 2 * x)
        controls.toe[:, side, [0, 2]] = source + (target - source) * w[:, None]
        # The ball of the foot comes down a little after the foot has arrived: heel first.
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

    # The body's cycle: sway and twist once per cycle, bob twice (once per step).
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
    """Speed over a clip, 0..1, and its integral: steady, or starting from and coming to a stand."""
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
    """A path that stays at the origin."""
    return np.zeros((len(x), 2))


def ahead(x: Array) -> Array:
    """A heading that stays +Z."""
    return np.zeros(len(x))
