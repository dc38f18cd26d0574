"""The page of a search."""

from __future__ import annotations

from html import escape
from typing import Any

from motionkit.config import Range
from motionkit.page.charts import bars
from motionkit.page.curves import Curve, curves, hover_script, parallel
from motionkit.page.html import details, figure, grid, note, result_page, table, tiles
from motionkit.page.wording import count
from motionkit.tuning.result import StudyResult
from motionkit.tuning.trials import state_of
from motionkit.version import __version__

_SHOWN = 300
"""Most trials in the table of the page, and lines in its chart; the best ones if there are more."""


def study_page(result: StudyResult) -> str:
    """Return the page of a search as HTML without external resources.

    The verdict comes first, then history, importances, the changes, and all trials.
    """
    plan = result.plan
    title = f"Search of {plan.trainer}: {plan.study}"
    parts = [
        tiles(_figures(result)),
        "<h2>The search</h2>",
        grid([*_charts(result), *_parallel(result)]),
        *_tables(result),
        _trials(result),
        note(f"motionkit {__version__}. Numbers behind this page: history.json; settings: best.toml, best.json."),
    ]
    return result_page(title, [result.verdict], parts, made_by="tune-bayes", sub=_how(result), scripts=hover_script())


def _how(result: StudyResult) -> str:
    plan = result.plan
    pruner = "" if plan.pruner == "none" else f" and pruner {plan.pruner}"
    return (
        f"{count(len(result.trials), 'trial')} with sampler {plan.sampler}{pruner} ({plan.why}); value: {plan.value}, "
        f"{'higher' if plan.direction == 'maximize' else 'lower'} is better."
    )


def _figures(result: StudyResult) -> list[tuple[str, str]]:
    figures = [("best trial", f"{result.best.value:.4f} (trial {result.best.number})")]
    if result.baseline is not None:
        figures.append(("base, trial 0", f"{result.baseline:.4f}"))
    for who, name in (("best", "best, further seeds"), ("base", "base, further seeds")):
        if (spread := result.spread(who)) is not None:
            figures.append((name, f"{spread.mean:.4f}"))
    return figures


def _charts(result: StudyResult) -> list[str]:
    done = [trial for trial in result.trials if trial.state.name == "COMPLETE" and trial.value is not None]
    points = [(float(trial.number), float(trial.value or 0.0)) for trial in done]
    best: list[tuple[float, float]] = []
    for number, value in points:
        best.append((number, value if not best or result.plan.better(value, best[-1][1]) else best[-1][1]))
    history = curves(
        [Curve("best so far", best), Curve("", points, faint=True, dots=True)], x_label="trial",
        y_label=result.plan.value, zero=False, above=True, height=222,
    )  # fmt: skip
    charts = [figure(history, "Every finished trial, and the best so far.", title="History")]
    if result.importances:
        shown = [(_tail(key, result), round(100 * value, 1)) for key, value in result.importances.items()][:14]
        chart = bars(shown, label="Share of the value's variation, %")
        charts.append(
            figure(chart, "Which settings tell good trials from others, in % (PED-ANOVA).", title="What decides")
        )
    return charts


def _parallel(result: StudyResult) -> list[str]:
    done = [trial for trial in result.trials if trial.state.name == "COMPLETE" and trial.value is not None]
    if len(done) < 2:
        return []
    done.sort(key=lambda trial: float(trial.value or 0.0), reverse=result.plan.direction == "maximize")
    axes = []
    for key in result.importances or result.plan.space:
        logarithmic = isinstance(dimension := result.plan.dimensions[key], Range) and dimension.log
        values = [trial.params.get(key) for trial in done[:_SHOWN]]
        axes.append((_tail(key, result), values, logarithmic))
    chart = parallel(axes[:10], [float(trial.value or 0.0) for trial in done[:_SHOWN]], better=result.plan.direction)
    words = "A line for each finished trial, the best tenth in colour: a setting matters if these are close together."
    return [figure(chart, words, title="Trials through their settings")]


def _tables(result: StudyResult) -> list[str]:
    sections = []
    for shown in result.tables()[:2]:
        head = shown["title"] or "Further seeds"
        rows = [[f"{cell:.4f}" if isinstance(cell, float) else cell for cell in row] for row in shown["rows"]]
        sections.append(f"<h2>{escape(head)}</h2>{table(shown['columns'], rows, numbers=shown['numbers'])}")
    return sections


def _trials(result: StudyResult) -> str:
    keys = list(result.plan.space)
    rows: list[list[object]] = []
    for trial in result.trials[:_SHOWN]:
        value: Any = trial.value if trial.state.name == "COMPLETE" else None
        reason = str(trial.user_attrs.get("reason", ""))
        seconds = "" if trial.duration is None else f"{trial.duration.total_seconds():.1f}"
        ending = f"{state_of(trial)}: {reason}" if reason else state_of(trial)
        params = ", ".join(
            f"{_tail(key, result)} {_short_value(trial.params[key])}" for key in keys if key in trial.params
        )
        rows.append([trial.number, "" if value is None else f"{value:.4f}", seconds, ending, params])
    columns = ["trial", "value", "s", "ended", "settings"]
    return details(f"All {count(len(result.trials), 'trial')}", table(columns, rows, numbers=(1, 2)))


def _tail(key: str, result: StudyResult) -> str:
    """Return the shortest end of a key that is unique in the space."""
    parts = key.split(".")
    for first in range(len(parts) - 1, 0, -1):
        tail = ".".join(parts[first:])
        if sum(other.endswith(f".{tail}") for other in result.plan.space) == 1:
            return tail
    return key


def _short_value(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
