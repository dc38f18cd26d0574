"""Retrieval figures of a run as a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_SETS = {
    "": "all clips",
    "_same": "all, the same caption is a hit",
    "_32": "32 at a time",
    "_32_short": "32, short crops",
}
_WAYS = {"t2m": "text to motion", "m2t": "motion to text"}
_RANKS = {"r1": "R@1", "r2": "R@2", "r3": "R@3", "r10": "R@10", "medr": "median rank"}


def retrieval_table(metrics: Mapping[str, Any], title: str = "") -> dict[str, Any] | None:
    """Return ``retrieval/...`` metrics as a trainer's ``table``; None where there are none.

    Example:
        >>> table = retrieval_table({"retrieval/t2m/r1_32": 25.0, "retrieval/t2m/medr_32": 3.0}, "held out")
        >>> table["rows"]
        [('text to motion, 32 at a time', '25.0', '', '', '', '3.0')]
    """
    rows = []
    for way, direction in _WAYS.items():
        for tag, among in _SETS.items():
            values = [metrics.get(f"retrieval/{way}/{rank}{tag}") for rank in _RANKS]
            if any(value is not None for value in values):
                rows.append((f"{direction}, {among}", *("" if v is None else f"{float(v):.1f}" for v in values)))
    if not rows:
        return None
    for tag, among in _SETS.items():
        chance = [metrics.get(f"retrieval/t2m/{rank}{tag}_chance") for rank in _RANKS]
        if any(value is not None for value in chance):
            rows.append((f"chance, {among}", *("" if v is None else f"{float(v):.1f}" for v in chance)))
    return {"title": title, "columns": ["", *_RANKS.values()], "rows": rows, "numbers": [1, 2, 3, 4, 5]}
