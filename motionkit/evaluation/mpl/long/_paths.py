"""Paths that no clip has: what a predictor is asked to walk when it is measured."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

_PACE = 1.2
"""m/s of a person who walks."""


@dataclass(frozen=True)
class DrawnPath:
    """A path from the origin, facing +Z, that faces where it goes.

    Attributes:
        title: What it is called in tables.
        speed: Metres per second at a time in seconds.
        turn: Radians per second to the left at a time.
    """

    title: str
    speed: Callable[[float], float]
    turn: Callable[[float], float] = lambda time: 0.0

    def steps(self, frames: int, fps: float) -> Tensor:
        """Return the steps to `frames` frames, ``[F, 3]`` float64 as in `motionkit.motion.prediction._state.MotionState`.

        Each is the chord of an arc: a constant turn stays on its circle.
        """
        rows = []
        for frame in range(frames):
            middle = (frame + 0.5) / fps
            way, turn = self.speed(middle) / fps, self.turn(middle) / fps
            chord = way * math.sin(turn / 2) / (turn / 2) if turn else way
            rows.append((chord * math.sin(turn / 2), chord * math.cos(turn / 2), turn))
        return torch.tensor(rows, dtype=torch.float64)


def _straight(speed: float) -> DrawnPath:
    return DrawnPath(f"straight, {speed:g} m/s", lambda time: speed)


def _circle(radius: float) -> DrawnPath:
    return DrawnPath(f"circle of {radius:g} m, {_PACE:g} m/s", lambda time: _PACE, lambda time: _PACE / radius)


def _slalom(time: float) -> float:
    """Return the turn of a path whose heading swings 45 degrees to each side, once in 8 metres."""
    pace = 2 * math.pi * _PACE / 8.0
    return math.radians(45.0) * pace * math.cos(pace * time)


def _stopping(time: float) -> float:
    """Return the speed of one who walks 3 s, slows down in half a second, stands 2 s, and goes on likewise."""
    time %= 6.0
    return _PACE * max(min(1.0, (3.5 - time) / 0.5), (time - 5.5) / 0.5, 0.0)


def _on_the_spot(time: float) -> float:
    """Return the turn of one who turns by 180 degrees in 3 s and then stands 2 s."""
    return math.pi / 3 if time % 5.0 < 3.0 else 0.0


DRAWN: Mapping[str, DrawnPath] = {
    "straight-slow": _straight(0.6),
    "straight": _straight(_PACE),
    "straight-fast": _straight(2.0),
    "circle-2m": _circle(2.0),
    "circle-6m": _circle(6.0),
    "slalom": DrawnPath(f"slalom, {_PACE:g} m/s", lambda time: _PACE, _slalom),
    "stop-and-start": DrawnPath("stop and start", _stopping),
    "turn-on-the-spot": DrawnPath("turn on the spot", lambda time: 0.0, _on_the_spot),
}
"""The paths by their names in documents."""
