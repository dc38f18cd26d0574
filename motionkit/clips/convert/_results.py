"""What is known of a clip that was read, and of a clip that was written: plain data, also for the journal."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

_NUMBERS = ("frames", "fps", "joints")
"""Notes of readers whose value is a number."""


@dataclass(frozen=True)
class Piece:
    """One clip as written, or left out for being too short.

    Attributes:
        key: Its id.
        frames: Frames written (feature rows for datasets).
        files: Paths of its files inside the output folder; empty when it was left out as too short.
        split: ``train``, ``val``, ``test`` or empty.
        group: All clips of a group are in the same split.
        captions: Number of captions.
        figures: Numbers worth keeping, such as ``skate`` (m/s), ``jerk`` (m/s^3), ``residual_max`` (m).
        clip: Id of the clip that it was made from, whole, in part or mirrored.
    """

    key: str
    frames: int
    files: tuple[str, ...] = ()
    split: str = ""
    group: str = ""
    captions: int = 0
    figures: dict[str, float] = field(default_factory=dict)
    clip: str = ""


@dataclass(frozen=True)
class ClipFacts:
    """Facts and findings of one clip that was read.

    Attributes:
        key: Its id.
        frames: Frames at the source's own rate.
        fps: That rate.
        notes: Facts for the record: format, unit.
        warnings: Messages for the user.
        findings: Glitches, each ``{"kind", "frames": [[start, stop], ...], "detail", "severity"}``.
        kept: The longest clean run ``[start, stop)``, when the clip was cut to it.
    """

    key: str
    frames: int
    fps: float
    notes: dict[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    findings: tuple[dict[str, Any], ...] = ()
    kept: tuple[int, int] | None = None

    def facts(self) -> dict[str, str | float]:
        """Return the notes with numbers as numbers, for records."""
        return {name: _number(value) if name in _NUMBERS else value for name, value in self.notes.items()}

    def source(self) -> dict[str, str | float]:
        """Return the facts for the record of what was made of it: its own length and rate are called the source's."""
        rest = {name: value for name, value in self.facts().items() if name not in ("frames", "fps")}
        return {"source_frames": self.frames, "source_fps": self.fps, **rest}


def _number(text: str) -> str | float:
    try:
        value = float(text)
    except ValueError:
        return text  # a foreign file may have put anything there
    return int(value) if value.is_integer() else value
