"""The page of a search."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape
from typing import Any

from motionkit.contracts.search import Range
from motionkit.page.charts import bars
from motionkit.page.curves import Curve, curves, hover_script, parallel
from motionkit.page.html import details, figure, grid, note, result_page, table, tiles
from motionkit.page.wording import count
from motionkit.tuning.result import StudyResult
from motionkit.version import __version__

_SHOWN = 300
"""Most trials in the table of the page, and lines in its chart; the best ones if there are more."""


def study_page(result: StudyResult) -> str:
    """Return the page of a search as HTML without external resources.

    The verdict comes first, then history, importances, the changes, and all trials.
    """
    plan, figures, tables, trials = result.plan, result.figures(), result.tables()[:2], result.rows()
    names = _short_names(plan.space)
    charts = [*_history(result), *_importances(result.importances, names), *_parallel(result, names)]
    pruner = "" if plan.pruner == "none" else f" and pruner {plan.pruner}"
    better = "higher" if plan.direction == "maximize" else "lower"
    return result_page(
        f"Search of {plan.trainer}: {plan.study}",
        [result.verdict],
        [
            tiles(figures),
            "<h2>The search</h2>",
            grid([figure(chart, words, title=title) for title, chart, words in charts]),
            *map(_section, tables),
            details(f"All {count(len(trials), 'trial')}", _table(trials[:_SHOWN], names)),
            note(f"motionkit {__version__}. Numbers behind this page: history.json; settings: best.toml, best.json."),
        ],
        made_by="tune-bayes",
        sub=f"{count(len(trials), 'trial')} with sampler {plan.sampler}{pruner} ({plan.why}); value: {plan.value}, "
        f"{better} is better.",
        scripts=hover_script(),
    )


def _history(result: StudyResult) -> Iterable[tuple[str, str, str]]:
    points, best = [], list[tuple[float, float]]()
    for trial, value in result.done:
        points.append((float(trial.number), value))
        best.append((float(trial.number), value if not best or result.plan.better(value, best[-1][1]) else best[-1][1]))
    chart = curves(
        [Curve("best so far", best), Curve("", points, faint=True, dots=True)], x_label="trial",
        y_label=result.plan.value, zero=False, above=True, height=222,
    )  # fmt: skip
    yield "History", chart, "Every finished trial, and the best so far."


def _importances(importances: Mapping[str, float], names: Mapping[str, str]) -> Iterable[tuple[str, str, str]]:
    if importances:
        shown = [(names[key], round(100 * value, 1)) for key, value in importances.items()][:14]
        chart = bars(shown, label="Share of the value's variation, %")
        yield "What decides", chart, "Which settings tell good trials from others, in % (PED-ANOVA)."


def _parallel(result: StudyResult, names: Mapping[str, str]) -> Iterable[tuple[str, str, str]]:
    done = sorted(result.done, key=lambda one: one[1], reverse=result.plan.direction == "maximize")[:_SHOWN]
    if len(done) < 2:
        return
    axes = []
    for key in list(result.importances or result.plan.space)[:10]:
        logarithmic = isinstance(axis := result.plan.dimensions[key], Range) and axis.log
        axes.append((names[key], [trial.params.get(key) for trial, _ in done], logarithmic))
    chart = parallel(axes, [value for _, value in done], better=result.plan.direction)
    words = "A line for each finished trial, the best tenth in colour: a setting matters if these are close together."
    yield "Trials through their settings", chart, words


def _section(shown: Mapping[str, Any]) -> str:
    head = shown["title"] or "Further seeds"
    rows = [[f"{cell:.4f}" if isinstance(cell, float) else cell for cell in row] for row in shown["rows"]]
    return f"<h2>{escape(head)}</h2>{table(shown['columns'], rows, numbers=shown['numbers'])}"


def _table(trials: Iterable[Mapping[str, Any]], names: Mapping[str, str]) -> str:
    rows = []
    for trial in trials:
        value = "" if trial["value"] is None else f"{trial['value']:.4f}"
        seconds = "" if trial["seconds"] is None else f"{trial['seconds']:.1f}"
        ending = f"{trial['state']}: {trial['reason']}" if trial.get("reason") else trial["state"]
        settings = ", ".join(
            f"{name} {_short(trial['params'][key])}" for key, name in names.items() if key in trial["params"]
        )
        rows.append([trial["number"], value, seconds, ending, settings])
    return table(["trial", "value", "s", "ended", "settings"], rows, numbers=(1, 2))


def _short_names(keys: Iterable[str]) -> dict[str, str]:
    """Return the shortest end of each key that no other key has."""
    ends = {key: [key.split(".", first)[-1] for first in range(key.count("."), 0, -1)] for key in keys}
    return {
        key: next((end for end in found if sum(other.endswith(f".{end}") for other in ends) == 1), key)
        for key, found in ends.items()
    }


def _short(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
