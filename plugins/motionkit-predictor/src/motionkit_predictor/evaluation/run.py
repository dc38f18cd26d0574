"""The protocol from clips to document, tables and verdict."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from torch import Tensor

from motionkit.tracking import FEWEST, TOO_FEW, definition, metric_table, moved, table_of, word_of
from motionkit_predictor.evaluation.data import EvalData, require_fit
from motionkit_predictor.evaluation.kept import KeptPath, Predictions, keep_paths, keep_predictions
from motionkit_predictor.evaluation.long.measure import LongSettings, measure_long
from motionkit_predictor.evaluation.long.result import long_document, long_tables, memory_note
from motionkit_predictor.evaluation.measure import (
    HOLD,
    MODEL,
    TRUTH_SKATE,
    Body,
    Horizons,
    Measured,
    by_key,
    finite,
    fit_baselines,
    measure,
    measure_row,
    worst_document,
)
from motionkit_predictor.policy import Predictor

_SHOWN = (
    "mpjpe_mm", "yaw_abs_deg", "root_vel_mae", "input_rot_geo_deg", "npss", "contact_f1", "contact_auroc", "skate",
    "jerk_ratio", "free_teacher_ratio", "skill",
)  # fmt: skip
"""Figures of the second table."""


def rows_document(measured: Measured) -> dict[str, dict[str, dict[str, float | None]]]:
    """Return ``rows``: by predictor, figure and milliseconds; None for a figure without meaning."""
    return {
        row: {figure: by_key(value, measured.horizons) for figure, value in figures.items() if figure != TRUTH_SKATE}
        for row, figures in measured.values.items()
    }


def intervals_document(measured: Measured) -> dict[str, dict[str, dict[str, list[float | None]]]]:
    """Return ``ci95`` as `rows_document`, a low and a high end each; empty with a single take."""
    keys = measured.horizons.keys
    return {
        row: {
            figure: {key: [finite(low), finite(high)] for key, low, high in zip(keys, *ends.tolist(), strict=True)}
            for figure, ends in figures.items()
            if figure != TRUTH_SKATE
        }
        for row, figures in measured.intervals.items()
    }


def truth_document(measured: Measured) -> dict[str, dict[str, float | None]]:
    """Return the figures of the true motions that those of a prediction are compared with."""
    skate = next(iter(measured.values.values())).get(TRUTH_SKATE)
    return {} if skate is None else {"skate": by_key(skate, measured.horizons)}


def best_baselines(measured: Measured) -> dict[str, str]:
    """Return the baseline with the smallest GeoDeg at each horizon."""
    baselines = [row for row in measured.values if row != MODEL]
    return {
        key: min(baselines, key=lambda row: float(measured.values[row]["geo_deg"][place]))
        for place, key in enumerate(measured.horizons.keys)
    }


def tables(measured: Measured, title: str) -> list[dict[str, Any]]:
    """Return two tables: GeoDeg at all horizons with intervals, and the other figures at the furthest one."""
    keys, error = measured.horizons.keys, definition("mpl/geo_deg")
    rows = []
    for row, figures in measured.values.items():
        ends = measured.intervals.get(row, {}).get("geo_deg")
        cells = []
        for place, value in enumerate(figures["geo_deg"].tolist()):
            span = (
                "" if ends is None else f" ({error.text(float(ends[0, place]))} to {error.text(float(ends[1, place]))})"
            )
            cells.append(f"{error.text(value)}{span}" if math.isfinite(value) else "n/a")
        rows.append((row, *cells))
    far = measured.horizons.frames.index(measured.horizons.last)
    truth = {"skate": next(iter(measured.values.values())).get(TRUTH_SKATE)}
    with_truth: list[tuple[str, Mapping[str, Tensor | None]]] = [*measured.values.items(), ("truth", truth)]
    others = [
        (row, [None if (value := shown.get(name)) is None else float(value[far]) for name in _SHOWN])
        for row, shown in with_truth
    ]
    return [
        table_of(title, ["", *(f"{key} ms" for key in keys)], rows),
        metric_table(
            f"at {keys[far]} ms, or over the time until then", [definition(f"mpl/{name}") for name in _SHOWN], others
        ),
    ]


def verdict(measured: Measured) -> str:
    """Return a sentence: whether the model beats every baseline, by the interval of the difference over takes."""
    best = best_baselines(measured)
    if MODEL not in measured.values:
        return "smallest GeoDeg: " + ", ".join(f"{row} at {key} ms" for key, row in best.items()) + "."
    lost, level = [], []
    for place, (key, row) in enumerate(best.items()):
        mine, other = (float(measured.values[name]["geo_deg"][place]) for name in (MODEL, row))
        ends = measured.apart.get(row)
        metric = definition("mpl/geo_deg")
        sign = moved(
            mine - other, None if ends is None else ends[:, place].tolist(), measured.takes,
            digits=2 if metric.digits is None else metric.digits,
        )  # fmt: skip
        word = word_of(sign, "down", n=measured.takes)
        said = f"{row} at {key} ms ({metric.text(other)} against {metric.text(mine)} degrees)"
        if word == "worse" or (word == TOO_FEW and not mine < other):
            lost.append(said)
        elif word != "better" and word != TOO_FEW:
            level.append(said)
    few = f" {measured.takes} takes are {TOO_FEW} to be sure." if measured.takes < FEWEST else ""
    if lost:
        return f"a baseline is at least as good as the model: {', '.join(lost)}.{few}"
    if level:
        return f"the model is no better than a baseline beyond chance: {', '.join(level)}."
    return f"the model has a smaller GeoDeg than every baseline at every horizon.{few}"


def evaluate(
    data: EvalData,
    predictor: Predictor | None,
    horizons: Horizons,
    *,
    command: bool = False,
    seed: int = 0,
    title: str = "",
    progress: Callable[..., None] = lambda count, note: None,
    keep: Callable[[Predictions], object] | None = None,
    long: LongSettings | None = None,
) -> dict[str, Any]:
    """Measure a predictor and every baseline on the same windows.

    Args:
        data: Clips in windows.
        predictor: The model; None measures the baselines alone.
        horizons: Frames to measure at.
        command: Whether all of them are given the path of the truth.
        seed: Of the bootstrap.
        title: Title of the first table.
        progress: Called with windows done, and the row they belong to.
        keep: Called with predictions to look at: of a few clips, the model's or else the best baseline's, and with
            `long` the model's runs along drawn paths.
        long: Measure runs of many seconds as well, see `motionkit_predictor.evaluation.long`; None: do not.

    Returns:
        The ``--json`` document without the command's own part, with ``table`` and ``closing``.
    """
    clips = data.clips
    if predictor is not None:
        require_fit(predictor, clips, data.windows.past)
    predictors = {} if predictor is None else {MODEL: predictor}
    predictors |= fit_baselines(clips, data.train, command=command)
    body = Body.of(clips.names, clips.parents, clips.fps)
    rows = {}
    for name, candidate in predictors.items():
        step = partial(progress, note=name)
        rows[name] = measure_row(candidate, data.windows, body, horizons, command=command, progress=step)
    measured = measure(rows, data.windows.takes, horizons, seed=seed)
    documents = rows_document(measured)
    best = best_baselines(measured)
    last = horizons.keys[horizons.frames.index(horizons.last)]
    shown = MODEL if predictor is not None else best[last]
    long_runs, more, alarms, memory, along = None, [], [], "", tuple[KeptPath, ...]()
    if long is not None:
        seconds = measure_long(
            clips, predictor, long, past=data.windows.past, progress=lambda: progress(0, note="long runs")
        )
        long_runs = long_document(seconds)
        more, alarms, memory = long_tables(long_runs), long_runs["alarms"], memory_note(long_runs)
        if keep is not None and predictor is not None:
            along = keep_paths(predictor, seconds, clips)
    if keep is not None:
        kept = keep_predictions(
            predictors[shown], shown, rows[shown], clips, data.windows, horizons, command=command
        )  # fmt: skip
        keep(replace(kept, paths=along))
    return {
        "rows": documents,
        "ci95": intervals_document(measured),
        "truth": truth_document(measured),
        "best_baseline": best,
        "free_teacher_ratio": documents[shown]["free_teacher_ratio"][last],
        "worst_clips": worst_document(
            rows, shown, best[last] if predictor is not None else HOLD, data.windows, horizons
        ),
        "clips": len(data.windows.offsets),
        "windows": len(data.windows),
        "notes": list(data.notes),
        "long": long_runs,
        "table": [*tables(measured, title), *more],
        "closing": [*data.notes, *alarms, *([memory] if memory else []), verdict(measured)],
    }
