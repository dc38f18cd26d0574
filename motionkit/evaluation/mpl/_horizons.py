"""Horizons in milliseconds and the frames that they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from motionkit.errors import MotionkitError


@dataclass(frozen=True)
class Horizons:
    """How far ahead is measured.

    Attributes:
        keys: Milliseconds as they were asked for, such as ``"100"``.
        frames: The frame of each, counted from 1.
    """

    keys: tuple[str, ...]
    frames: tuple[int, ...]

    @property
    def last(self) -> int:
        """The furthest frame."""
        return max(self.frames)

    @classmethod
    def at(cls, milliseconds: Sequence[float], fps: float) -> Horizons:
        """Turn milliseconds into frames.

        Raises:
            MotionkitError: One is no whole number of frames, or none is given.

        Example:
            >>> Horizons.at([100, 400], fps=30.0).frames
            (3, 12)
        """
        if not milliseconds:
            raise MotionkitError("no horizon was given.", fix="--horizons 100,200,400,1000")
        frames = []
        for wanted in milliseconds:
            exact = wanted * fps / 1000.0
            frames.append(round(exact))
            if abs(exact - frames[-1]) > 1e-3 or frames[-1] < 1:
                near = sorted({max(1, int(exact)), int(exact) + 1})
                raise MotionkitError(
                    f"a horizon of {wanted:g} ms is no frame at {fps:g} frames per second.",
                    why=f"the nearest frames are at {' and '.join(f'{1000 * n / fps:.6g}' for n in near)} ms.",
                    fix="--horizons with times of frames, or another --fps.",
                )
        return cls(tuple(f"{wanted:g}" for wanted in milliseconds), tuple(frames))
