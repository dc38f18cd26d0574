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


def probe_table(found: Mapping[str, float], title: str) -> dict[str, Any]:
    """Return the figures of `probe` as a trainer's ``table``: a row per baseline."""
    rows = [
        [label, f"{own:.3g}", f"{other:.3g}", words, _verdict(own, other, up=up)]
        for label, own, other, words, up in _found(found)
    ]
    columns = ["held out", "encoder", "baseline", "what it says", "the encoder is"]
    return {"title": title, "columns": columns, "rows": rows, "numbers": [1, 2]}


def probe_verdict(found: Mapping[str, float]) -> str:
    """Return one sentence: which baselines the encoder beats."""
    rows = list(_found(found))
    if not rows:
        return "nothing could be measured: no validation clip has contacts, gaits or a pose ahead."
    lost = [f"{words} ({label})" for label, own, other, words, up in rows if _verdict(own, other, up=up) != "better"]
    if not lost:
        return f"the encoder beats all {len(rows)} baselines on held-out clips."
    return f"the encoder does not beat {len(lost)} of {len(rows)} baselines on held-out clips: {', '.join(lost)}."


def _found(found: Mapping[str, float]) -> list[tuple[str, float, float, str, bool]]:
    return [
        (label, found[f"encoder/{name}"], found[f"encoder/{name}_{other}"], words, up)
        for label, name, other, words, up in _ROWS
        if f"encoder/{name}" in found
    ]


def _verdict(own: float, other: float, *, up: bool) -> str:
    if own == other:
        return "equal"
    return "better" if (own > other) == up else "worse"
