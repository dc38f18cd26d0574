"""Findings of the checks, and the longest run of frames without one."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from motionkit.motion.frames import Ranges

Kind = Literal[
    "nan", "jump", "rest-pose", "penetration", "floating", "scale", "frozen", "bone-length", "sides", "fps", "short"
]
Severity = Literal["error", "warning"]

KINDS: dict[Kind, str] = {
    "nan": "a value is not finite",
    "jump": "a joint moves or turns faster than a body can",
    "rest-pose": "the first frames are a T-pose, or the first is mixed with one",
    "penetration": "a joint is below the floor",
    "floating": "no joint is near the floor for longer than a jump lasts",
    "scale": "the body is no size for an adult: a wrong unit, or a child",
    "frozen": "nothing moves at all",
    "bone-length": "bones change their length",
    "sides": "a bone is longer on one side of the body",
    "fps": "the frame rate is one that no motion has",
    "short": "too few frames for what the clip is wanted for",
}
"""Every kind of finding, in words."""

_IMPOSSIBLE = 1e6
"""Far above any length, speed or time of a motion; damaged files have values of 300 digits."""

_JOINED = frozenset({"jump"})
"""Kinds that lie between a frame and the one before it: a run may begin at their frames, not go across."""


@dataclass(frozen=True)
class Finding:
    """One fault of one clip."""

    kind: Kind  # One of `KINDS`
    # Half-open ranges ``(start, stop)`` of the frames concerned, merged and in order; empty when it is the clip as a
    # whole. A jump is at the frame at which the joint arrives.
    frames: Ranges
    detail: str  # One sentence with the numbers
    severity: Severity = "error"  # ``error`` spoils the motion there; ``warning`` is something to look at

    def document(self) -> dict[str, object]:
        """Return it for JSON."""
        return {
            "kind": self.kind,
            "severity": self.severity,
            "frames": [list(span) for span in self.frames],
            "detail": self.detail,
        }


def count(frames: Ranges) -> int:
    """Return the number of frames in the ranges."""
    return sum(stop - start for start, stop in frames)


def amount(value: float, digits: int = 0) -> str:
    """Return a number as text with `digits` decimals; impossible values have three digits and an exponent."""
    if math.isinf(value):
        return "more than 1e308"
    return f"{value:.{digits}f}" if abs(value) < _IMPOSSIBLE else f"{value:.3g}"


def words(frames: Ranges, shown: int = 4) -> str:
    """Return ranges as text: ``frame 7``, ``frames 7, 12-15, ...``; the last frame of a range is inside it."""
    parts = [str(start) if stop == start + 1 else f"{start}-{stop - 1}" for start, stop in frames[:shown]]
    more = ", ..." if len(frames) > shown else ""
    return f"frame{'s' if count(frames) > 1 else ''} {', '.join(parts)}{more}"


def longest_clean_run(frames: int, findings: Iterable[Finding]) -> tuple[int, int]:
    """Return the longest half-open run of frames that no error touches; the first of several equally long ones.

    A jump lies between two frames, so a run may begin at the frame after the jump; all other errors keep their frames
    out. Warnings and findings about the clip as a whole cut nothing. ``(0, 0)`` when no frame is clean.

    Example:
        >>> longest_clean_run(100, [Finding("nan", ((30, 32),), "a gap"), Finding("jump", ((80, 81),), "a jump")])
        (32, 80)
    """
    bad, breaks = [False] * frames, [False] * (frames + 1)
    for finding in findings:
        if finding.severity != "error":
            continue
        target = breaks if finding.kind in _JOINED else bad
        for start, stop in finding.frames:
            for frame in range(max(start, 0), min(stop, frames)):
                target[frame] = True
    best, start = (0, 0), 0
    for frame in range(frames):
        if bad[frame]:
            start = frame + 1
        elif breaks[frame]:
            start = frame
        if frame + 1 - start > best[1] - best[0]:
            best = (start, frame + 1)
    return best
