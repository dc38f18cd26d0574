"""What ``eval sa2va`` prints: tables, one sentence, and what each figure means."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from motionkit.evaluation.regions._figures import FIGURES

_MEANINGS = {
    "ciou": "pixels in both masks over pixels in either, of all regions together; large regions count more",
    "giou": "mean IoU of the data's captions",
    "precision_50": "share of regions with an IoU of at least that",
    "meteor": "METEOR of a sampled caption to the data's",
    "meteor_greedy": "of the likeliest words",
    "cycle_iou": "IoU of the region and the policy's own mask of its caption",
    "judge_iou": "the same with the mask of the policy before training",
    "no_target": "share of captions of absent objects for which nothing is drawn",
}


def explained() -> list[tuple[str, str]]:
    """Return every figure with its meaning; a row that says less belongs to the one before it."""
    return [(FIGURES[name], text) for name, text in _MEANINGS.items()]


def tables(figures: Mapping[str, Mapping[str, Any]], title: str, *, compared: bool) -> list[dict[str, Any]]:
    """Return the table of figures: before, after and the change with its interval, or the value with its own."""
    rows: list[tuple[str, ...]] = []
    for name, one in figures.items():
        if compared:
            low, high = one["ci95"]
            cells: tuple[str, ...] = (
                _number(one["before"]), _number(one["after"]), f"{one['delta']:+.3f}", f"{low:+.3f} to {high:+.3f}",
                "better" if low > 0 else "worse" if high < 0 else "no change",
            )  # fmt: skip
        else:
            low, high = one["after_ci95"]
            cells = (_number(one["after"]), f"{low:.3f} to {high:.3f}")
        rows.append((FIGURES[name], *cells))
    columns = ["", "before", "after", "change", "95 % interval", ""] if compared else ["", "value", "95 % interval"]
    return [{"title": title, "columns": columns, "rows": rows, "numbers": list(range(1, 5 if compared else 3))}]


def verdict(figures: Mapping[str, Mapping[str, Any]], *, compared: bool) -> str:
    """Return the main figures in a sentence."""
    names = ("giou", "cycle_iou", "judge_iou", "meteor")
    if not compared:
        return ", ".join(f"{FIGURES[name]} {_number(figures[name]['after'])}" for name in names) + "."
    told = ", ".join(
        f"{FIGURES[name]} {_number(figures[name]['before'])} to {_number(figures[name]['after'])}" for name in names
    )
    sure = figures["judge_iou"]["ci95"][0] > 0
    head = "the judge draws its captions better" if sure else "the judge sees no clear gain"
    return f"{head}: {told}."


def _number(value: float) -> str:
    return f"{value:.3f}"
