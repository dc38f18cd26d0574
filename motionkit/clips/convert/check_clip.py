"""Check a clip before it is written: faults are found, a rest pose is cut off, captions beyond its end are dropped."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from motionkit.clips.check import check_motion
from motionkit.clips.convert.targets import Target
from motionkit.clips.faults import Finding, frames_at_rest, longest_clean_run
from motionkit.errors import MotionkitError
from motionkit.motion.clip import Clip
from motionkit.motion.corpus.captions import Caption, captions_within
from motionkit.motion.motion import JointMotion, Motion, finite_frames, sample_places
from motionkit.rigs.roles import body_joints

_LEAST, _LEAST_FPS = 41, 20.0
"""Shortest clip that HumanML3D's loaders take, in frames (40 feature rows take 41); a check reports shorter ones."""

_BEGINNING, _FEWEST = 10.0, 3
"""Seconds in which a rest pose is looked for at the rate that is written, and fewest frames for it."""

_NUMBERS = ("frames", "fps", "joints", "start", "end")
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
    positions = motion.positions()
    findings = _findings(clip, positions, check=target is None)
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
        if target.for_training:
            start = next((finding.frames[0][1] for finding in findings if finding.kind == "rest-pose"), 0)
            start = _after_rest(motion, positions, start, target.rate)
        if start:
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


def _after_rest(motion: Motion | JointMotion, positions: Tensor, start: int, rate: float) -> int:
    """Return the first frame of the motion: a rest pose mixed into several frames is one frame at the rate written."""
    if not 0 < rate < motion.fps:
        return start
    beginning = motion.cut(start, start + math.ceil(_BEGINNING * motion.fps))
    if beginning.frames < _FEWEST:
        return start
    body = body_joints(motion.names, motion.parents)
    samples, _, part = sample_places(beginning.frames, motion.fps, rate)
    # Where samples fall between frames, joints go along arcs; else they are frames, whose positions are known.
    places = beginning.resample(rate).positions() if bool(part.any()) else positions[start:][samples]
    rest = frames_at_rest(places[:, body], rate)
    return start + math.ceil(rest * motion.fps / rate) if rest else start


def _findings(clip: Clip, positions: Tensor, *, check: bool) -> Sequence[Finding]:
    """Check the motion and the arrays that belong to its frames."""
    motion, has_features = clip.motion, clip.features is not None
    sound = torch.ones(motion.frames, dtype=torch.bool)
    for values in (clip.features, *motion.tracks.values()):
        if values is not None and values.numel():
            sound &= finite_frames(values)
    # Features have their floor at 0, and one row less than the frames that they were computed from.
    return check_motion(
        motion,
        positions=positions,
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
