"""What ``eval mpl`` returns: the document, the tables, and one sentence about who wins."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from motionkit.evaluation.mpl._figures import TRUTH_SKATE
from motionkit.evaluation.mpl._measure import Measured

MODEL, HOLD = "model", "hold"
_SHOWN = {
    "mpjpe_mm": ("MPJPE mm", 1), "yaw_abs_deg": ("yaw °", 1), "root_vel_mae": ("root m/s", 3),
    "input_rot_geo_deg": ("input °", 2), "npss": ("NPSS", 3), "contact_f1": ("contact F1", 3),
    "contact_auroc": ("AUROC", 3), "skate": ("skate m/s", 3), "jerk_ratio": ("jerk x", 2),
    "free_teacher_ratio": ("free/teacher", 2), "skill": ("skill", 2),
}  # fmt: skip
"""Figures of the second table, with the digits they are printed with."""


def rows_document(measured: Measured) -> dict[str, dict[str, dict[str, float | None]]]:
    """Return ``rows``: by predictor, figure and milliseconds; null where a figure has no meaning."""
    return {
        row: {figure: _by_horizon(value, measured) for figure, value in figures.items() if figure != TRUTH_SKATE}
        for row, figures in measured.values.items()
    }


def intervals_document(measured: Measured) -> dict[str, dict[str, dict[str, list[float | None]]]]:
    """Return ``ci95`` as `rows_document`, a low and a high end each; empty with fewer clips than make sense."""
    keys = measured.horizons.keys
    return {
        row: {
            figure: {key: [_number(low), _number(high)] for key, low, high in zip(keys, *ends.tolist(), strict=True)}
            for figure, ends in figures.items()
            if figure != TRUTH_SKATE
        }
        for row, figures in measured.intervals.items()
    }


def truth_document(measured: Measured) -> dict[str, dict[str, float | None]]:
    """Return the figures of the true motions that those of a prediction are compared with."""
    skate = next(iter(measured.values.values())).get(TRUTH_SKATE)
    return {} if skate is None else {"skate": _by_horizon(skate, measured)}


def best_baselines(measured: Measured) -> dict[str, str]:
    """Return the baseline with the smallest GeoDeg at each horizon."""
    baselines = [row for row in measured.values if row != MODEL]
    return {
        key: min(baselines, key=lambda row: float(measured.values[row]["geo_deg"][place]))
        for place, key in enumerate(measured.horizons.keys)
    }


def tables(measured: Measured, title: str) -> list[dict[str, Any]]:
    """Return two tables: GeoDeg at all horizons with intervals, and the other figures at the furthest one."""
    keys = measured.horizons.keys
    rows = []
    for row, figures in measured.values.items():
        ends = measured.intervals.get(row, {}).get("geo_deg")
        cells = []
        for place, value in enumerate(figures["geo_deg"].tolist()):
            span = "" if ends is None else f" ({ends[0, place]:.2f} to {ends[1, place]:.2f})"
            cells.append(f"{value:.2f}{span}" if math.isfinite(value) else "n/a")
        rows.append((row, *cells))
    far = measured.horizons.frames.index(measured.horizons.last)
    others = []
    truth = {"skate": next(iter(measured.values.values())).get(TRUTH_SKATE)}
    every: list[tuple[str, Mapping[str, Tensor | None]]] = [*measured.values.items(), ("truth", truth)]
    for row, shown in every:
        others.append((row, *(_cell(shown.get(name), far, digits) for name, (_, digits) in _SHOWN.items())))
    width = len(_SHOWN)
    return [
        {"title": title, "columns": ["", *(f"{key} ms" for key in keys)], "rows": rows,
         "numbers": list(range(1, len(keys) + 1))},
        {"title": f"at {keys[far]} ms, or over the time until then",
         "columns": ["", *(label for label, _ in _SHOWN.values())], "rows": others,
         "numbers": list(range(1, width + 1))},
    ]  # fmt: skip


def verdict(measured: Measured) -> str:
    """Return who wins, in one sentence."""
    best = best_baselines(measured)
    if MODEL not in measured.values:
        return "smallest GeoDeg: " + ", ".join(f"{row} at {key} ms" for key, row in best.items()) + "."
    lost = []
    for place, (key, row) in enumerate(best.items()):
        mine, other = (float(measured.values[name]["geo_deg"][place]) for name in (MODEL, row))
        if not mine < other:
            lost.append(f"{row} at {key} ms ({other:.2f} against {mine:.2f} degrees)")
    if not lost:
        return "the model has a smaller GeoDeg than every baseline at every horizon."
    return f"a baseline is at least as good as the model: {', '.join(lost)}."


def _by_horizon(value: Tensor, measured: Measured) -> dict[str, float | None]:
    return {key: _number(number) for key, number in zip(measured.horizons.keys, value.tolist(), strict=True)}


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _cell(value: Tensor | None, place: int, digits: int) -> str:
    if value is None:
        return ""
    number = float(value[place])
    return f"{number:.{digits}f}" if math.isfinite(number) else "n/a"
