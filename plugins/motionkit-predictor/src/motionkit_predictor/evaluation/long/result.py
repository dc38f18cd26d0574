"""Figures of long runs as a document, as tables, and in sentences."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from motionkit.tracking import FEWEST, TOO_FEW, Metric, definition, metric_table, table_of
from motionkit_predictor.evaluation.long.measure import (
    ALONG,
    DRAWN,
    END,
    FREE,
    LISTED,
    MATCHING,
    MODEL,
    OWN,
    SPAN,
    Figures,
    LongRuns,
    RealLabel,
)
from motionkit_predictor.evaluation.measure import finite

FIGURES = ("movement", "npss", "slide", "speed", "height", "path_mean", "path_end", "heading")
"""Figures of a document, in its order; `motionkit.tracking` defines each as ``mpl/long/NAME``."""

LEAST_MOVEMENT = 0.6
"""Share of the movement of reference clips below which a motion is reported to die out."""

FAR_OFF = 0.3
"""Metres of mean distance to the timed point above which a path is reported as not followed."""

_SLIDES, _SLIDES_AT_LEAST = 2.0, 0.05
"""Feet are reported to slide above 2 times the slide of reference clips plus 0.05 m/s: that of starter clips is 0."""

GOES, GOING, OTHER = re.compile(r"\b(walk|run|jog)"), (0.85, 1.2), (0.7, 1.3)
"""Labels of walking and running, and the ranges of movement, as shares of reference clips, that free runs of these
and of other labels should have: walks and runs are alike, other motions less so."""

SLIDE_MET, SPEED_MET = (1.3, 0.05), (0.8, 1.2, 0.05)
"""Largest slide of free runs of a label, as a share of that of reference clips plus m/s; and the range of their speed,
as shares of that of reference clips, with m/s on both sides."""

Table = dict[str, dict[str, float | None]]
"""By figure and key; None if it has no meaning."""


def long_document(long: LongRuns) -> dict[str, Any]:
    """Return the part ``long`` of a ``--json`` document.

    ``free``, ``own`` and each of ``drawn.paths`` have ``runs`` (how many) and ``rows``: by predictor, figure and
    seconds. ``drawn.mean`` is the mean over the drawn paths. ``real`` has the figures of reference clips of the same
    labels. ``labels`` has the free runs of the model by label; ``wanted`` is the range of movement that they should
    have. A label with fewer than 3 clips has ``goal`` false and no such range. ``alarms`` are sentences.
    """
    paths = {name: _group(long, ALONG, name) for name in DRAWN}
    document = {
        "seconds": list(long.settings.ends(long.fps)),
        "over": SPAN,
        "free": _group(long, FREE),
        "own": _group(long, OWN) if OWN in long.runs else None,
        "drawn": {
            "starts": max(group["runs"] for group in paths.values()),
            "mean": _mean(list(paths.values())),
            "paths": paths,
        },
        "labels": _by_label(long),
        "memory": dict(long.memory),
    }
    return {**document, "alarms": long_alarms(document)}


def long_tables(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return tables: free runs, the model's by label, and runs along paths at 10 s, or at the last time if it is less.

    There is no table of labels if none has 3 clips.
    """
    key = middle(document)
    free, own_path, drawn = document["free"], document["own"], document["drawn"]
    shown: tuple[str, ...] = ("movement", "npss", "slide", "speed", "height", "path_mean")
    rows = [
        (f"{row}, {at} s", [figures[name].get(at) for name in shown])
        for row, figures in free["rows"].items()
        for at in document["seconds"]
    ]
    rows.append(("reference clips", [free["real"].get(name) for name in shown]))
    over = f"the last {document['over']:g} s before each time"
    title = f"{free['runs']} free runs: {over}; movement 1 is that of reference clips"
    tables = [metric_table(title, list(map(_metric, shown)), rows)]
    if labels := _labels_table(document, key):
        tables.append(labels)
    shown = ("path_mean", "path_end", "heading", "movement", "slide", "speed")
    rows = []
    if own_path is not None:
        rows += [
            (f"own path (n = {own_path['runs']}): {row}", [figures[name].get(END) for name in shown])
            for row, figures in own_path["rows"].items()
        ]
    rows += [
        (f"drawn paths: {row}", [figures[name].get(key) for name in shown]) for row, figures in drawn["mean"].items()
    ]
    first = next(iter(drawn["mean"]), "")
    rows += [
        (f"{DRAWN[path].title}: {row}", [group["rows"][row][name].get(key) for name in shown])
        for path, group in drawn["paths"].items()
        for row in group["rows"]
        if row in (first, MATCHING)
    ]
    title = f"along paths for {key} s, {drawn['starts']} starts a path; own paths to the clip's end, at most 7 s"
    return [*tables, metric_table(title, list(map(_metric, shown)), rows)]


def long_alarms(document: Mapping[str, Any]) -> list[str]:
    """Return faults of the model's long runs, a sentence each; empty without a model."""
    alarms = []
    free, drawn = document["free"], document["drawn"]
    key = middle(document)
    if MODEL in free["rows"]:
        moved = free["rows"][MODEL]["movement"]
        low = [at for at in document["seconds"] if (moved[at] or 1.0) < LEAST_MOVEMENT or moved[at] == 0.0]
        if low:
            alarms.append(
                f"the motion dies out: after {low[0]} s it moves {moved[low[0]]:.2f} as much as reference clips of the "
                f"same labels (below {LEAST_MOVEMENT})."
            )
        slide, real = free["rows"][MODEL]["slide"][key], free["real"]["slide"]
        if slide is not None and real is not None and slide > _SLIDES * real + _SLIDES_AT_LEAST:
            alarms.append(f"feet slide: {slide:.2f} m/s after {key} s, in reference clips {real:.2f} m/s.")
    if MODEL in drawn["mean"]:
        off = {path: group["rows"][MODEL]["path_mean"][key] for path, group in drawn["paths"].items()}
        far = {path: value for path, value in off.items() if value is not None and value > FAR_OFF}
        if far:
            worst = max(far, key=far.__getitem__)
            alarms.append(
                f"{len(far)} of {len(off)} drawn paths are not followed: over {key} s the root is more than "
                f"{FAR_OFF:g} m off in the mean, {far[worst]:.1f} m on {DRAWN[worst].title}."
            )
    return alarms


def memory_note(document: Mapping[str, Any]) -> str:
    """Return the memory of the model and of motion matching, in one sentence; empty if neither is known."""
    names = {MODEL: "the model's weights", MATCHING: "motion matching of long runs"}
    parts = [f"{names[row]} {size / 1e6:.1f} MB" for row, size in document["memory"].items()]
    return f"memory in float32: {', '.join(parts)}." if parts else ""


def long_metrics(document: Mapping[str, Any]) -> dict[str, float]:
    """Return the model's figures as metrics, ``mpl/long/movement/10``: of free runs, path errors of the drawn paths."""
    metrics = {}
    free, mean = document["free"], document["drawn"]["mean"]
    for table, names in ((free["rows"].get(MODEL), FIGURES[:5]), (mean.get(MODEL), FIGURES[5:])):
        for name in names if table else ():
            for key, value in table[name].items():
                if value is not None:
                    metrics[f"mpl/long/{name}/{key}"] = value
    return metrics


def middle(document: Mapping[str, Any]) -> str:
    """Return the key of the last time up to 10 seconds, or of the first one if all are later."""
    keys: Sequence[str] = document["seconds"]
    return max((key for key in keys if float(key) <= 10.0), key=float, default=min(keys, key=float))


def _group(long: LongRuns, kind: str, name: str = "") -> dict[str, Any]:
    """Return the runs of a kind; with a name, those along that path."""
    runs = long.runs[kind]
    chosen = torch.tensor([not name or path == name for path in runs.names])
    keys = tuple(runs.ends)
    return {
        "runs": int(chosen.sum()),
        "rows": {row: _mean_figures(figures, keys, chosen) for row, figures in long.rows[kind].items()},
        "real": _real(
            [label for label, is_chosen in zip(runs.labels, chosen.tolist(), strict=True) if is_chosen], long.real
        ),
    }


def _mean_figures(figures: Figures, keys: Sequence[str], chosen: Tensor) -> Table:
    """Return means over the runs that are chosen (``[N]`` bool), of NPSS the quotient of sums."""

    def of(name: str, key: str) -> Tensor:
        return figures[f"{name}/{key}"][chosen]

    table: Table = {}
    for name in FIGURES:
        if name == "npss":
            sums = {key: (float(of("npss_above", key).sum()), float(of("npss_below", key).sum())) for key in keys}
            table[name] = {key: above / below if below > 0 else None for key, (above, below) in sums.items()}
        else:
            table[name] = {key: finite(float(of(name, key).nanmean())) for key in keys}
    return table


def _real(labels: Sequence[str], real: Mapping[str, RealLabel]) -> dict[str, float | None]:
    """Return the figures of reference clips, mean over the labels."""
    rows = [real[label] for label in labels]
    means = {
        name: finite(float(torch.tensor([getattr(row, name) for row in rows]).nanmean()))
        for name in ("slide", "speed", "height")
    }
    return {"movement": 1.0, **means}


def _mean(groups: Sequence[Mapping[str, Any]]) -> dict[str, Table]:
    """Return means over the drawn paths; None if a figure of one is not known."""
    means: dict[str, Table] = {}
    for row, table in groups[0]["rows"].items():
        means[row] = {}
        for name, values in table.items():
            by_key = {key: [group["rows"][row][name][key] for group in groups] for key in values}
            means[row][name] = {
                key: None if any(value is None for value in paths_values) else sum(paths_values) / len(paths_values)
                for key, paths_values in by_key.items()
            }
    return means


def _by_label(long: LongRuns) -> dict[str, Any]:
    """Return the first row's free runs by label."""
    runs = long.runs[FREE]
    takes = runs.windows.takes[runs.windows.clip[runs.index]]
    figures = next(iter(long.rows[FREE].values()))
    names = ("movement", "slide", "speed", "height")
    labels = {}
    for label in dict.fromkeys(runs.labels):
        chosen = torch.tensor([run_label == label for run_label in runs.labels])
        real = long.real[label]
        judged = int(chosen.sum()) >= LISTED
        found = _mean_figures(figures, tuple(runs.ends), chosen)
        group = {
            "clips": int(chosen.sum()),
            "takes": len(takes[chosen].unique()),
            "goal": judged,
            "wanted": list(GOING if GOES.search(label) else OTHER) if judged else None,
            "real": {"clips": real.clips, **{name: finite(getattr(real, name)) for name in names}},
            **found,
        }
        labels[label] = {**group, "missed": {key: _missed(group, key) for key in runs.ends} if judged else None}
    return labels


def _missed(group: Mapping[str, Any], key: str) -> list[str]:
    """Return which of movement, slide and speed of a label are not as they should be at a time; none is not known."""
    slide, speed = group["real"]["slide"], group["real"]["speed"]
    ranges = {"movement": group["wanted"]}
    if slide is not None:
        ranges["slide"] = (0.0, SLIDE_MET[0] * slide + SLIDE_MET[1])
    if speed is not None:
        ranges["speed"] = (SPEED_MET[0] * speed - SPEED_MET[2], SPEED_MET[1] * speed + SPEED_MET[2])
    return [
        name
        for name, (first, last) in ranges.items()
        if (value := group[name][key]) is not None and not first <= value <= last
    ]


def _labels_table(document: Mapping[str, Any], key: str) -> dict[str, Any] | None:
    """Return the model's free runs by label; labels with too few clips share a row. None if all have too few."""
    labels = document["labels"]
    judged = {label: group for label, group in labels.items() if group["goal"]}
    if not judged or MODEL not in document["free"]["rows"]:
        return None
    rows = []
    for label, group in judged.items():
        low, high = group["wanted"]
        moved, missed = group["movement"][key], _missed(group, key)
        met = f"no: {', '.join(missed)}" if missed else "" if moved is None else "yes"
        met = TOO_FEW if met and group["takes"] < FEWEST else met
        pairs = [_cell(name, value) for name in ("slide", "speed") for value in (group[name][key], group["real"][name])]
        goal = f"{low:g} to {high:g}"
        rows.append((label or "without a caption", f"{group['clips']}", _cell("movement", moved), goal, met, *pairs))
    few = [group for label, group in labels.items() if label not in judged]
    if few:
        clips = sum(group["clips"] for group in few)

        def mean(values: Sequence[float | None]) -> float | None:
            known = [(group["clips"], value) for group, value in zip(few, values, strict=True) if value is not None]
            total = sum(count for count, _ in known)
            return sum(count * value for count, value in known) / total if total else None

        pairs = [
            _cell(name, mean(values))
            for name in ("slide", "speed")
            for values in ([group[name][key] for group in few], [group["real"][name] for group in few])
        ]
        moved = mean([group["movement"][key] for group in few])
        rows.append(
            (f"{len(few)} with fewer than {LISTED} clips", f"{clips}", _cell("movement", moved), "", "", *pairs)
        )
    movement, slide, speed = (_metric(name).heading for name in ("movement", "slide", "speed"))
    columns = ["", "clips", movement, "wanted", "met", slide, "of reference clips", speed, "of reference clips"]
    slides, speeds = SLIDE_MET, SPEED_MET
    title = (
        f"the model's free runs by label, {document['over']:g} s before {key} s; met: also a slide up to "
        f"{slides[0]:g} times that of reference clips (+ {slides[1]:g} m/s) and {speeds[0]:g} to {speeds[1]:g} times "
        f"their speed (± {speeds[2]:g} m/s)"
    )
    return table_of(title, columns, rows, (1, 2, *range(5, len(columns))))


def _cell(name: str, value: float | None) -> str:
    return "" if value is None else _metric(name).text(value)


def _metric(name: str) -> Metric:
    return definition(f"mpl/long/{name}/<s>")
