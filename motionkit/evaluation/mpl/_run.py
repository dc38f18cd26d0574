"""The protocol from data to document."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from motionkit.evaluation.mpl._by_clip import worst_document
from motionkit.evaluation.mpl._data import EvalData, require_fit
from motionkit.evaluation.mpl._figures import Body
from motionkit.evaluation.mpl._horizons import Horizons
from motionkit.evaluation.mpl._keep import keep_paths, keep_predictions
from motionkit.evaluation.mpl._kept import KeptPath, Predictions
from motionkit.evaluation.mpl._measure import fit_baselines, measure, measure_row
from motionkit.evaluation.mpl._result import (
    HOLD,
    MODEL,
    best_baselines,
    intervals_document,
    rows_document,
    tables,
    truth_document,
    verdict,
)
from motionkit.evaluation.mpl.long._measure import LongSettings, measure_long
from motionkit.evaluation.mpl.long._result import long_document, long_tables
from motionkit.policies.base import Predictor


def _quiet(count: int, note: str) -> None:
    """Show no progress."""


def evaluate(
    data: EvalData,
    predictor: Predictor | None,
    horizons: Horizons,
    *,
    command: bool = False,
    seed: int = 0,
    title: str = "",
    progress: Callable[..., None] = _quiet,
    keep: Callable[[Predictions], object] | None = None,
    long: LongSettings | None = None,
) -> dict[str, Any]:
    """Measure a predictor and every baseline on the same windows.

    Args:
        data: Clips in windows.
        predictor: The model; None measures the baselines alone.
        horizons: How far ahead.
        command: Whether all of them are given the path of the truth.
        seed: Seed of the bootstrap.
        title: Of the table.
        progress: Called with windows done, and the row they belong to.
        keep: Called with predictions to look at: of a few clips, the model's or else the best baseline's, and
            with `long` the model's runs along drawn paths.
        long: Measure runs of many seconds as well, see `motionkit.evaluation.mpl.long`; None: do not.

    Returns:
        The ``--json`` document without the command's own part, with ``table`` and ``closing``.

    Raises:
        MotionkitError: The predictor does not fit the data, or returns what cannot be measured.
    """
    clips = data.clips
    if predictor is not None:
        require_fit(predictor, clips, data.windows.past)
    predictors = {} if predictor is None else {MODEL: predictor}
    predictors |= fit_baselines(clips, data.train, command=command)
    body = Body.of(clips.names, clips.parents, clips.fps)
    rows = {}
    for name, one in predictors.items():
        step = partial(progress, note=name)
        rows[name] = measure_row(one, data.windows, body, horizons, command=command, progress=step)
    measured = measure(rows, len(data.windows.offsets), horizons, seed=seed)
    documents = rows_document(measured)
    best = best_baselines(measured)
    last = horizons.keys[horizons.frames.index(horizons.last)]
    shown = MODEL if predictor is not None else best[last]
    long_runs, more, alarms, along = None, [], [], tuple[KeptPath, ...]()
    if long is not None:
        seconds = measure_long(
            clips, predictor, long, past=data.windows.past, progress=lambda: progress(0, note="long runs")
        )
        long_runs = long_document(seconds)
        more, alarms = long_tables(long_runs), long_runs["alarms"]
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
        "closing": [*data.notes, *alarms, verdict(measured)],
    }
