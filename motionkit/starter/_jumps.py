"""Actions that leave the ground: jumps, hops, jumping jacks and skipping rope."""

from __future__ import annotations

import numpy as np

from motionkit.starter._solve import Array, Controls
from motionkit.starter._take import Take, bump, ease, keys, point_elbow, reach, smooth, stand

GRAVITY = 9.81
"""Acceleration of gravity in m/s^2: it gives the time in the air for a height."""


def _hermite(t: Array, at: list[float], value: list[float], slope: list[float]) -> Array:
    """Interpolate keyed values and slopes by cubic Hermite polynomials."""
    x, y, v = np.asarray(at), np.asarray(value), np.asarray(slope)
    i = np.clip(np.searchsorted(x, t, side="right") - 1, 0, len(x) - 2)
    width = x[i + 1] - x[i]
    s = np.clip((t - x[i]) / width, 0, 1)
    return np.asarray(
        y[i] * (1 + 2 * s) * (1 - s) ** 2
        + width * v[i] * s * (1 - s) ** 2
        + y[i + 1] * s**2 * (3 - 2 * s)
        + width * v[i + 1] * s**2 * (s - 1)
    )


def leap(
    take: Take,
    height: float,
    *,
    forward: float = 0.0,
    turn: float = 0.0,
    tuck: float = 0.0,
    period: float = 2.1,
    arms: str = "swing",
) -> Controls:
    """Jump on both feet: crouch, take-off, flight, landing, recovery; a long clip has several jumps.

    Args:
        take: Circumstances of the clip.
        height: Rise of the pelvis after take-off, in metres.
        forward: Distance of each jump, in metres.
        turn: Yaw of each jump, in radians.
        tuck: Additional lift of the feet in flight, in metres.
        period: Seconds per jump.
        arms: ``swing`` or ``up``.
    """
    controls, t = stand(take), take.t
    height, forward = height * take.size, forward * take.size
    flight = 2 * np.sqrt(2 * height / GRAVITY)
    speed = GRAVITY * flight / 2
    controls.plant[:] = 1.0
    for start, width in take.slots(period):
        free = max(width - flight, 0.7)
        crouch = start + 0.3 * free
        off = start + 0.52 * free
        land = off + flight
        dip, soft, top = 0.2 * take.size, 0.15 * take.size, 0.045
        rise = _hermite(
            t,
            [start, crouch, off, land, land + 0.16 * free, start + free + flight],
            [0, -dip, top, top, -soft, 0],
            [0, 0, speed, -speed, 0, 0],
        )
        controls.pelvis[:, 1] += rise
        air = (t > off) & (t < land)
        s = np.clip((t - off) / flight, 0, 1)
        hop = np.where(air, np.maximum(rise - top, 0), 0.0)
        clear = hop * 0.92 + tuck * take.size * np.where(air, 16 * (s * (1 - s)) ** 2, 0)
        controls.toe[..., 1] += clear[:, None]
        travelled = forward * ease(s)
        yaw = turn * ease((t - off + 0.1) / (flight + 0.2))
        marks = [crouch - 0.15, off, land, land + 0.3 * free]
        body = forward * _hermite(t, marks, [0, 0.16, 0.84, 1.0], [0, 0.68 / flight, 0.68 / flight, 0])
        controls.toe[..., 2] += travelled[:, None]
        controls.pelvis[:, 2] += body
        if turn:
            _spin(controls, yaw, turn * ease(s))
        heel = np.maximum(keys(t, [crouch, off, land - 0.3 * flight, land + 0.03], [0, 0.95, 0.55, 0]), 0)
        controls.foot[..., 1] += heel[:, None]
        controls.plant *= ~air[:, None]
        bend = keys(t, [start, crouch, off, land, land + 0.16 * free, start + free + flight], [0, 1, 0, 0.1, 0.75, 0])
        controls.spine[:, 0] += 0.45 * bend * take.size
        controls.turn[:, 1] += 0.28 * bend
        back = keys(
            t, [start, crouch, off + 0.4 * flight, land + 0.15 * free, start + free + flight], [0, 1, 0, 0.3, 0]
        )
        high = keys(t, [crouch, off + 0.05, land, land + 0.3 * free], [0, 1, 0.6, 0])
        for side in (0, 1):
            reach(controls, side, (0.2, -0.75, -0.5), np.clip(back, 0, 1))
            reach(controls, side, (0.22, 0.85, 0.4) if arms == "up" else (0.25, 0.05, 0.85), np.clip(high, 0, 1))
    return controls


def _spin(controls: Controls, yaw: Array, feet: Array) -> None:
    """Turn the body by `yaw`, and the feet about the origin by `feet`."""
    controls.turn[:, 0] += yaw
    controls.foot[..., 0] += feet[:, None]
    cos, sin = np.cos(feet)[:, None], np.sin(feet)[:, None]
    x, z = controls.toe[..., 0].copy(), controls.toe[..., 2].copy()
    controls.toe[..., 0], controls.toe[..., 2] = x * cos + z * sin, -x * sin + z * cos


def _bouncing(take: Take, rate: float, height: float) -> tuple[Array, Array, Array, float]:
    """Return repeated small hops: cycles since the start, rise of pelvis, clearance of feet, share in flight."""
    flight = 2 * np.sqrt(2 * height / GRAVITY) * rate
    share = min(flight, 0.62)
    turns = take.t * rate + take.around(0, 1)
    phase = np.mod(turns, 1.0)
    s = np.clip(phase / share, 0, 1)
    drop = height * 4 * share / (1 - share) / np.pi
    r = np.clip((phase - share) / (1 - share), 0, 1)
    rise = np.where(phase < share, 4 * height * s * (1 - s), -drop * np.sin(np.pi * r))
    clear = np.where(phase < share, 4 * height * s * (1 - s), 0.0)
    return turns, rise, np.asarray(0.9 * clear), share


def hop(take: Take, forward: float = 0.0) -> Controls:
    """Hop on the left leg, with the right leg bent backwards."""
    controls = stand(take)
    rate, height = 2.0 * take.tempo, 0.075 * take.size
    turns, rise, clear, share = _bouncing(take, rate, height)
    phase = np.mod(turns, 1.0)
    along = forward * take.size * (np.floor(turns) + ease(phase / share))
    travelled = np.clip(phase / share, 0, 1) + np.clip((phase - share) / (1 - share), 0, 1)
    body = forward * take.size * (np.floor(turns) + 0.5 * travelled)
    body = smooth(body - body[0], len(take.t) / take.duration, 0.09)
    controls.pelvis[:, 1] += rise - 0.06
    controls.pelvis[:, 2] += body
    controls.pelvis[:, 0] += 0.07
    controls.toe[:, 0, 0] = 0.06
    controls.toe[:, 0, 1] += clear
    controls.toe[:, 0, 2] += along - along[0] - 0.03
    air = phase < share
    controls.foot[:, 0, 1] += np.where(air, 0.6 * np.sin(np.pi * phase / share) ** 2, 0)
    controls.plant[:, 0] = ~air
    controls.plant[:, 1] = 0.0
    controls.toe[:, 1] = controls.pelvis + np.array([-0.1, -0.62, -0.26])
    controls.foot[:, 1, 1] = 1.15
    beat = np.sin(2 * np.pi * phase)
    controls.spine[:, 0] += 0.16
    controls.spine[:, 1] -= 0.1
    for side in (0, 1):
        goal = np.stack([0.45 + 0.1 * beat, -0.5 + 0.12 * beat, np.full_like(beat, 0.3)], axis=-1)
        reach(controls, side, goal, np.ones_like(beat))
    return controls


def jumping_jacks(take: Take, arms: float = 1.0) -> Controls:
    """Perform jumping jacks; ``arms=0`` keeps the hands on the hips."""
    controls = stand(take)
    rate, height = 1.9 * take.tempo, 0.07 * take.size
    turns, rise, clear, share = _bouncing(take, rate, height)
    phase, index = np.mod(turns, 1.0), np.floor(turns)
    opened = np.where(index % 2 == 0, ease(phase / share), 1 - ease(phase / share))
    controls.pelvis[:, 1] += rise - 0.02 - 0.045 * opened
    controls.toe[..., 1] += clear[:, None]
    spread = 0.27 * np.sqrt(take.size) * opened
    controls.toe[:, 0, 0] += spread
    controls.toe[:, 1, 0] -= spread
    air = phase < share
    controls.foot[..., 1] += np.where(air, 0.5 * np.sin(np.pi * phase / share) ** 2, 0)[:, None]
    controls.plant *= ~air[:, None]
    lift = np.where(index % 2 == 0, ease(phase / 0.9), 1 - ease(phase / 0.9))
    angle = 0.15 + 2.75 * lift * arms
    for side in (0, 1):
        goal = np.stack([0.95 * np.sin(angle) + 0.04, -0.95 * np.cos(angle), 0.08 + 0 * angle], axis=-1)
        reach(controls, side, goal if arms else (0.16, -0.5, 0.13), np.ones_like(angle))
        if not arms:
            point_elbow(controls, side, (1.0, -0.1, -0.35), np.ones_like(angle))
    return controls


def skip_rope(take: Take) -> Controls:
    """Skip rope: small jumps on both feet, while the hands turn the rope."""
    controls = stand(take)
    turns, rise, clear, share = _bouncing(take, 1.9 * take.tempo, 0.075 * take.size)
    phase = np.mod(turns, 1.0)
    controls.pelvis[:, 1] += rise - 0.03
    controls.toe[..., 1] += clear[:, None]
    air = phase < share
    controls.foot[..., 1] += np.where(air, 0.6 * np.sin(np.pi * phase / share) ** 2, 0)[:, None]
    controls.plant *= ~air[:, None]
    for side in (0, 1):
        goal = np.stack(
            [0.42 + 0.08 * np.cos(2 * np.pi * turns), -0.55 + 0.09 * np.sin(2 * np.pi * turns), 0.25 + 0.0 * turns],
            axis=-1,
        )
        reach(controls, side, goal, bump(take.t, -1.0, take.duration + 2.0, 0.1, 0.1))
    return controls
