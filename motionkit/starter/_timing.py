"""Time functions and the circumstances of one clip ("take") that every action is written with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from motionkit.starter._solve import OFFSETS, STAND, Array, Controls


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
