"""What actions are written with: the circumstances of a clip, time functions, a standing body and changes to it.

`Take` has the times and the random draws of one clip. `ease`, `keys`, `bump`, `smooth` and `drift` are functions of
time. `stand` makes the controls of a standing body; an action adds its movement to them, with `reach`, `point_elbow`
and `step_foot` or directly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from motionkit.starter._solve import OFFSETS, STAND, Array, Controls


@dataclass
class Take:
    """The circumstances in which an action is performed once."""

    t: Array  # ``[T]`` seconds of each frame
    duration: float  # Seconds of the whole clip
    rng: np.random.Generator  # Generator of the small variations of this take
    tempo: float  # Speed of the movement, 1 = usual
    size: float  # Amplitude of the movement, 1 = usual

    def around(self, low: float, high: float) -> float:
        """Return a number between `low` and `high`, drawn for this take."""
        return float(self.rng.uniform(low, high))

    def slots(self, period: float) -> list[tuple[float, float]]:
        """Cut the clip into repetitions of about `period` seconds; return start and length of each, in seconds."""
        count = max(1, round(self.duration * self.tempo / period))
        width = self.duration / count
        return [(i * width, width) for i in range(count)]


def ease(x: Array) -> Array:
    """Return a minimum-jerk step from 0 to 1: 0 for `x` below 0, 1 above 1."""
    x = np.clip(x, 0.0, 1.0)
    # 6 x^5 - 15 x^4 + 10 x^3: velocity and acceleration are 0 at both ends (Flash and Hogan, 1985).
    return np.asarray(x**3 * (10 + x * (6 * x - 15)))


def keys(t: Array, times: Sequence[float], values: Sequence[float] | Sequence[Sequence[float]]) -> Array:
    """Interpolate keyed values (scalars or vectors) by minimum jerk, and keep them constant outside the keys."""
    at, value = np.asarray(times, dtype=np.float64), np.asarray(values, dtype=np.float64)
    i = np.clip(np.searchsorted(at, t, side="right") - 1, 0, len(at) - 2)
    w = ease((t - at[i]) / np.maximum(at[i + 1] - at[i], 1e-6))
    w = w if value.ndim == 1 else w[:, None]
    return np.asarray(value[i] + (value[i + 1] - value[i]) * w)


def bump(t: Array, start: float, width: float, rise: float = 0.35, fall: float = 0.35) -> Array:
    """Return a pulse of length `width`: it rises to 1 in its first share `rise` and falls to 0 in its last, `fall`."""
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
    """Smooth along time (axis 0) by a Gaussian with a standard deviation of `seconds`."""
    flat = values.reshape(len(values), -1)
    return np.asarray((_kernel(len(values), seconds * fps) @ flat).reshape(values.shape))


def drift(take: Take, amplitude: float, channels: int = 1) -> Array:
    """Return slow random sway ``[T, channels]``, so that a standing body is not motionless."""
    # Each channel is the mean of two sines of random frequency and phase.
    rate = take.rng.uniform(0.15, 0.6, size=(2, channels)) * 2 * np.pi
    phase = take.rng.uniform(0, 2 * np.pi, size=(2, channels))
    return np.asarray(amplitude * np.sin(take.t[:, None, None] * rate + phase).mean(axis=1))


HANG = (0.10, -0.96, 0.08)
"""Position of a relaxed wrist relative to its shoulder, in arm lengths: outward, up, forward."""


def stand(take: Take, width: float = 1.0) -> Controls:
    """Return the controls of quiet standing at the origin, facing +Z.

    Args:
        take: Circumstances of the clip.
        width: Factor on the distance between the feet.
    """
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
    """Move a hand towards `goal`, in place; `weight` ``[T]`` goes from 0 (unchanged) to 1 (at the goal)."""
    w = weight[:, None]
    controls.hand[:, side] += (np.asarray(goal) - controls.hand[:, side]) * w


def point_elbow(controls: Controls, side: int, direction: Sequence[float], weight: Array) -> None:
    """Turn an elbow towards `direction`, in place; `weight` is as in `reach`."""
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
    """Add one step of a foot, in place: lift it at `start`, move it, and plant it at `end`.

    Args:
        controls: Controls to change.
        take: Circumstances of the clip.
        side: 0 for the left foot, 1 for the right one.
        start: Time of the lift, in seconds.
        end: Time of the foot plant, in seconds.
        move: Displacement (x, z) in metres.
        lift: Height in the middle of the swing, in metres.
        yaw: Angle by which the foot turns, in radians.
        push: Heel-up angle during the swing, in radians.
    """
    s = (take.t - start) / (end - start)
    w, air = ease(s), (s > 0) & (s < 1)
    arch = np.where(air, 16 * np.clip(s * (1 - s), 0, 1) ** 2, 0.0)
    controls.toe[:, side, 0] += move[0] * w
    controls.toe[:, side, 2] += move[1] * w
    controls.toe[:, side, 1] += lift * arch
    controls.foot[:, side, 0] += yaw * w
    controls.foot[:, side, 1] += push * bump(take.t, start - 0.12, end - start + 0.12, 0.45, 0.55)
    controls.plant[:, side] *= ~air
