"""The probe's figures as a table, and in a sentence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_ROWS = (
    ("phase, degrees", "period_deg", "constant", "one phase for all frames", False),
    ("gait, accuracy", "gait_accuracy", "prior", "the most frequent gait", True),
    ("gait, balanced accuracy", "gait_balanced", "prior", "the most frequent gait", True),
    ("pose ahead, degrees", "pose_deg", "hold", "the pose held", False),
    ("pose ahead, degrees", "pose_deg", "velocity", "constant angular velocity", False),
)


Intervals = Mapping[str, tuple[float, float]]
"""By a baseline's metric, the 95 % interval of the encoder's figure minus the baseline's; see `Probe.intervals`."""


def probe_table(found: Mapping[str, float], intervals: Intervals, title: str) -> dict[str, Any]:
    """Return the figures of `Probe.figures` as a trainer's ``table``: a row per baseline."""
    rows = []
    for label, name, other, words, up in _found(found):
        ends = intervals.get(other)
        shown = "" if ends is None else f"{ends[0]:+.3g} to {ends[1]:+.3g}"
        verdict = _verdict(ends, up=up)
        rows.append([label, f"{found[name]:.3g}", f"{found[other]:.3g}", words, shown, verdict])
    columns = ["held out", "encoder", "baseline", "what it says", "difference, 95 % interval", "the encoder is"]
    return {"title": title, "columns": columns, "rows": rows, "numbers": [1, 2]}


def probe_verdict(found: Mapping[str, float], intervals: Intervals) -> str:
    """Return one sentence: which baselines the encoder beats beyond the interval over clips."""
    rows = list(_found(found))
    if not rows:
        return "nothing could be measured: no validation clip has contacts, gaits or a pose ahead."
    if not intervals:
        return "one held-out clip is too few to say whether the encoder beats its baselines."
    lost = [
        f"{words} ({label})" for label, _, other, words, up in rows if _verdict(intervals.get(other), up=up) != "better"
    ]
    if not lost:
        return f"the encoder beats all {len(rows)} baselines on held-out clips."
    return f"the encoder does not beat {len(lost)} of {len(rows)} baselines on held-out clips: {', '.join(lost)}."


def _found(found: Mapping[str, float]) -> list[tuple[str, str, str, str, bool]]:
    """Return label, the encoder's metric, the baseline's, what the baseline says and whether more is better."""
    return [
        (label, f"encoder/{name}", f"encoder/{name}_{other}", words, up)
        for label, name, other, words, up in _ROWS
        if f"encoder/{name}" in found
    ]


def _verdict(ends: tuple[float, float] | None, *, up: bool) -> str:
    """Return what an interval of the encoder's figure minus a baseline's says."""
    if ends is None:
        return "not known"
    if ends[0] <= 0 <= ends[1]:
        return "no different"
    return "better" if (ends[0] > 0) == up else "worse"
