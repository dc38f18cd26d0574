"""Result of a conversion or a check, for the console and for ``--json``."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any

import torch

from motionkit.clips.check import check_motion
from motionkit.clips.convert.targets import Piece, Target
from motionkit.clips.faults import Finding, longest_clean_run
from motionkit.clips.sources import ClipOutcome
from motionkit.errors import MotionkitError
from motionkit.motion.clip import Clip
from motionkit.motion.corpus.captions import Caption, captions_within
from motionkit.motion.motion import finite_frames

# Check a clip and cut it where needed.


_LEAST, _LEAST_FPS = 41, 20.0
"""Shortest clip that HumanML3D's loaders take, in frames (40 feature rows take 41); a check reports shorter ones."""

_MOST = ("residual_max", "flips", "moved_max", "seam_max")
"""Figures that are summarised by their maximum; others by their median."""

_NUMBERS = ("frames", "fps", "joints")
"""Notes of readers whose value is a number."""


@dataclass(frozen=True)
class ClipFacts:
    """Facts and findings of one clip that was read."""

    key: str  # Its id
    frames: int  # Frames at the source's own rate
    fps: float  # That rate
    notes: dict[str, str] = field(default_factory=dict)  # Facts for the record: format, unit
    warnings: tuple[str, ...] = ()  # Messages for the user
    # Glitches, each ``{"kind", "frames": [[start, stop], ...], "detail", "severity"}``.
    findings: tuple[dict[str, Any], ...] = ()
    kept: tuple[int, int] | None = None  # The longest clean run ``[start, stop)``, if the clip was cut to it

    def facts(self) -> dict[str, str | float]:
        """Return the notes with numbers as numbers, for records."""
        return {name: _number(value) if name in _NUMBERS else value for name, value in self.notes.items()}

    def source(self) -> dict[str, str | float]:
        """Return the facts for the record of an output, with length and rate named as the source's."""
        facts = {name: value for name, value in self.facts().items() if name not in ("frames", "fps")}
        return {"source_frames": self.frames, "source_fps": self.fps, **facts}


def check_clip(clip: Clip, key: str, *, target: Target | None = None, fix: bool = False) -> tuple[Clip, ClipFacts]:
    """Check a clip; cut off a rest pose that a model would learn and, with `fix`, all but the longest clean run.

    Args:
        clip: The clip.
        key: Its id.
        target: Writer of the clip; None for a check.
        fix: Cut it to its longest clean run.

    Returns:
        The clip, cut where needed, and the findings.
    """
    motion = clip.motion
    findings = _findings(clip, check=target is None)
    clip, warnings = _captions_inside(clip)
    start, stop = 0, motion.frames
    if fix:
        start, stop = longest_clean_run(motion.frames, findings)
        if stop <= start:
            raise MotionkitError("it has no clean frame.", why="; ".join(finding.detail for finding in findings))
    elif target is not None:
        kinds = {finding.kind for finding in findings}
        if "nan" in kinds:
            detail = next(finding.detail for finding in findings if finding.kind == "nan")
            raise MotionkitError("it holds values that are not finite.", why=f"{detail} --fix cuts them out.")
        if "rest-pose" in kinds and target.for_training:
            start = next(finding.frames[0][1] for finding in findings if finding.kind == "rest-pose")
            start_text = (
                "first frame is a rest pose and was" if start == 1 else f"first {start} frames are a rest pose and were"
            )
            warnings.append(f"its {start_text} left out.")
    kept = (start, stop) if (start, stop) != (0, motion.frames) else None
    if kept is not None:
        warnings += [
            f"{_quoted(caption)} describes a part that was cut away, and was left out."
            for caption in clip.timed
            if not captions_within((caption,), start / motion.fps, stop / motion.fps)
        ]
        clip = clip.cut(start, stop)
    facts = ClipFacts(
        key,
        motion.frames,
        motion.fps,
        dict(clip.notes),
        tuple(warnings),
        tuple(finding.document() for finding in findings),
        kept,
    )
    return clip, facts


def _findings(clip: Clip, *, check: bool) -> Sequence[Finding]:
    """Check the motion and the arrays that belong to its frames."""
    motion, has_features = clip.motion, clip.features is not None
    sound = torch.ones(motion.frames, dtype=torch.bool)
    for values in (clip.features, *motion.tracks.values()):
        if values is not None and values.numel():
            sound &= finite_frames(values)
    # Features have their floor at 0, and one row less than the frames that they were computed from.
    return check_motion(
        motion,
        sound=sound,
        floor=0.0 if has_features else None,
        min_frames=(_LEAST - 1 if has_features else _LEAST) if check else 2,
        target_fps=_LEAST_FPS if check else 0.0,
    )


def _captions_inside(clip: Clip) -> tuple[Clip, list[str]]:
    """Drop captions whose time lies outside the clip; return warnings."""
    warnings = list(clip.warnings)
    seconds = clip.motion.frames / clip.motion.fps
    kept = []
    for caption in clip.timed:
        if problem := caption.problem(seconds):
            warnings.append(f"{_quoted(caption)} is of {caption.start:g} to {caption.end:g} s, {problem}: left out.")
        else:
            kept.append(caption)
    return replace(clip, timed=tuple(kept)), warnings


def _quoted(caption: Caption) -> str:
    text = caption.text if len(caption.text) <= 60 else f"{caption.text[:57]}..."
    return f"its caption {text!r}"


def _number(text: str) -> str | float:
    try:
        value = float(text)
    except ValueError:
        return text  # a foreign file may have put anything there
    return int(value) if value.is_integer() else value


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
            self.figures[name] = max(values) if name in _MOST else median(values)

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

    def _add_facts(self, clip: ClipFacts, origin: str) -> None:
        self.clips.append(
            {
                **clip.facts(),
                "clip": clip.key,
                "origin": origin,
                "frames": clip.frames,
                "fps": clip.fps,
                "findings": list(clip.findings),
            }
        )
        self.warnings.extend(f"{clip.key}: {warning}" for warning in clip.warnings)
        if clip.kept is not None:
            self.fixed[clip.key] = clip.kept


def _cpu_seconds() -> float:
    """Return the CPU seconds of this process and its finished children."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
