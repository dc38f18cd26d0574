"""Result of a conversion or a check, for the console and for ``--json``."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from motionkit.clips.convert.check_clip import ClipFacts
from motionkit.clips.convert.targets import Piece
from motionkit.clips.walk import ClipOutcome
from motionkit.errors import MotionkitError


@dataclass
class ConvertReport:
    """Result of a conversion; every clip that was left out is listed."""

    to: str = ""  # Format written; empty for a check
    written: list[str] = field(default_factory=list)  # Ids of the clips written
    failed: dict[str, str] = field(default_factory=dict)  # Origin and reason of each clip that could not be used
    # Ids of clips left out for being too short, with their number of frames.
    short: dict[str, int] = field(default_factory=dict)
    # Ids of clips longer than a dataset takes, with the number of parts they were cut into.
    cut: dict[str, int] = field(default_factory=dict)
    # Ids of clips that were cut to a clean run, with its frames ``[start, stop)``.
    fixed: dict[str, tuple[int, int]] = field(default_factory=dict)
    clips: list[dict[str, Any]] = field(default_factory=list)  # Frames, fps, notes and findings of each clip read
    uncaptioned: list[str] = field(default_factory=list)  # Ids written without a caption (datasets)
    motionless: list[str] = field(default_factory=list)  # Ids of the caption table that no clip has
    skipped: list[str] = field(default_factory=list)  # Files that hold no motion, such as statistics and settings
    warnings: list[str] = field(default_factory=list)  # Messages for the user
    splits: dict[str, int] = field(default_factory=dict)  # Number of clips per split (datasets)
    # Medians over the clips, such as ``skate`` (m/s) and ``jerk`` (m/s^3); ``residual_max`` is the largest.
    figures: dict[str, float] = field(default_factory=dict)
    frames: int = 0  # Frames written
    resumed: int = 0  # Sources that an earlier, interrupted conversion had finished
    seconds: float = 0.0  # Wall-clock time
    cpu_seconds: float = 0.0  # Processor time, worker processes included

    def add(self, outcome: ClipOutcome[Any]) -> list[Piece]:
        """Add the outcome of one source; return the pieces that were written."""
        self.failed.update(outcome.failed())
        for result in outcome.results:
            if isinstance(result, ClipFacts):
                self._add_facts(result, outcome.origin)
        pieces = [result for result in outcome.results if isinstance(result, Piece)]
        kept = [piece for piece in pieces if piece.files]
        self.short.update({piece.key: piece.frames for piece in pieces if not piece.files})
        self.cut.update(Counter(piece.clip for piece in pieces if piece.key.startswith(f"{piece.clip}_p")))
        self.written.extend(piece.key for piece in kept)
        self.frames += sum(piece.frames for piece in kept)
        return kept

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Measure the wall-clock and processor time of the block."""
        wall, cpu = time.perf_counter(), _cpu_seconds()
        yield
        self.seconds, self.cpu_seconds = time.perf_counter() - wall, _cpu_seconds() - cpu

    def conclude(self, pieces: Sequence[Piece]) -> None:
        """Compute `figures` from all pieces written."""
        names = {name for piece in pieces for name in piece.figures}
        for name in sorted(names):
            values = [piece.figures[name] for piece in pieces if name in piece.figures]
            self.figures[name] = max(values) if name in ("residual_max", "flips") else median(values)

    def reasons(self) -> list[str]:
        """Return why clips were not used; the origin is added where a message lacks it."""
        return [reason if name in reason else f"{name}: {reason}" for name, reason in self.failed.items()]

    def nothing(self, count: int) -> MotionkitError:
        """Return the error of a conversion in which none of `count` clips could be used, with a few of the reasons."""
        reasons = self.reasons()[:3]
        if self.short:
            some = ", ".join(f"{key} ({frames} frames)" for key, frames in list(self.short.items())[:3])
            reasons.append(f"{len(self.short)} clip(s) are too short: {some}.")
        return MotionkitError(f"none of {count} clip(s) could be used, so nothing was written.", why=" ".join(reasons))

    def failure(self, out: object) -> MotionkitError | None:
        """Return the error at the end of a conversion in which clips could not be used."""
        if not self.failed:
            return None
        return MotionkitError(
            f"{len(self.failed)} clip(s) could not be used; the other {len(self.written)} are in {out}.", code=1
        )

    def check_failure(self) -> MotionkitError | None:
        """Return the error at the end of a check in which a clip has errors or could not be read."""
        bad = [clip for clip in self.clips if any(finding["severity"] == "error" for finding in clip["findings"])]
        if not (bad or self.failed):
            return None
        return MotionkitError(
            f"{len(bad)} of {len(self.clips)} clip(s) have something wrong, {len(self.failed)} could not be read.",
            fix="motionkit convert IN... OUT --fix keeps the longest clean run of each.",
            code=1,
        )

    def _add_facts(self, found: ClipFacts, origin: str) -> None:
        self.clips.append(
            {
                **found.facts(),
                "clip": found.key,
                "origin": origin,
                "frames": found.frames,
                "fps": found.fps,
                "findings": list(found.findings),
            }
        )
        self.warnings.extend(f"{found.key}: {warning}" for warning in found.warnings)
        if found.kept is not None:
            self.fixed[found.key] = found.kept


def _cpu_seconds() -> float:
    """Return the CPU seconds of this process and its finished children."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
