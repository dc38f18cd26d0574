"""The page of a search: the verdict first, then history, what decides, all trials, and what changes."""

from __future__ import annotations

from html import escape
from typing import Any

from motionkit._version import __version__
from motionkit.page import (
    Curve,
    bars,
    count,
    curves,
    details,
    figure,
    grid,
    hover_script,
    html_page,
    note,
    parallel,
    table,
    tiles,
)
from motionkit.tuning._result import Result, state_of

_SHOWN = 300
"""Trials in the table, and lines in the chart; the best ones where there are more."""


def study_page(result: Result) -> str:
    """Return the page as HTML that loads nothing."""
    plan = result.plan
    title = f"Search of {plan.trainer}: {plan.study}"
    body = [
        f"<h1>{escape(title)}</h1>",
        f'<p class="sub">{escape(_how(result))}</p>',
        f'<p class="lead-in">{escape(result.verdict)}</p>',
        tiles(_figures(result)),
        "<h2>The search</h2>",
        grid([*_charts(result), *_parallel(result)]),
        *_tables(result),
        _trials(result),
        note(f"motionkit {__version__}. Numbers behind this page: history.json; settings: best.toml, best.json."),
    ]
    return html_page(title, "".join(body), made_by="tune-bayes", scripts=hover_script())


def _how(result: Result) -> str:
    plan = result.plan
    pruner = "" if plan.pruner == "none" else f" and pruner {plan.pruner}"
    return (
        f"{count(len(result.trials), 'trial')} with sampler {plan.sampler}{pruner} ({plan.why}); value: {plan.value}, "
        f"{'higher' if plan.direction == 'maximize' else 'lower'} is better."
    )


def _figures(result: Result) -> list[tuple[str, str]]:
    found = [("best trial", f"{result.best.value:.4f} (trial {result.best.number})")]
    if result.baseline is not None:
        found.append(("base, trial 0", f"{result.baseline:.4f}"))
    for who, name in (("best", "best, further seeds"), ("base", "base, further seeds")):
        if (spread := result.spread(who)) is not None:
            found.append((name, f"{spread.mean:.4f}"))
    return found


def _charts(result: Result) -> list[str]:
    done = [one for one in result.trials if one.state.name == "COMPLETE" and one.value is not None]
    points = [(float(one.number), float(one.value or 0.0)) for one in done]
    best: list[tuple[float, float]] = []
    for number, value in points:
        best.append((number, value if not best or result.plan.better(value, best[-1][1]) else best[-1][1]))
    history = curves(
        [Curve("best so far", best), Curve("", points, faint=True, dots=True)], x_label="trial",
        y_label=result.plan.value, zero=False, above=True, height=222,
    )  # fmt: skip
    found = [figure(history, "Every finished trial, and the best so far.", title="History")]
    if result.importances:
        shown = [(_tail(key, result), round(100 * value, 1)) for key, value in result.importances.items()][:14]
        chart = bars(shown, label="Share of the value's variation, %")
        found.append(
            figure(chart, "Which settings tell good trials from others, in % (PED-ANOVA).", title="What decides")
        )
    return found


def _parallel(result: Result) -> list[str]:
    done = [one for one in result.trials if one.state.name == "COMPLETE" and one.value is not None]
    if len(done) < 2:
        return []
    done.sort(key=lambda one: float(one.value or 0.0), reverse=result.plan.direction == "maximize")
    axes = []
    for key in result.importances or result.plan.space:
        one = result.plan.dimensions[key]
        logarithmic = bool(getattr(one, "log", False))
        values = [trial.params.get(key) for trial in done[:_SHOWN]]
        axes.append((_tail(key, result), values, logarithmic))
    chart = parallel(axes[:10], [float(one.value or 0.0) for one in done[:_SHOWN]], better=result.plan.direction)
    words = "A line for each finished trial, the best tenth in colour: where it is narrow, the setting matters."
    return [figure(chart, words, title="Trials through their settings")]


def _tables(result: Result) -> list[str]:
    found = []
    for one in result.tables()[:2]:
        head = one["title"] or "Further seeds"
        rows = [[f"{cell:.4f}" if isinstance(cell, float) else cell for cell in row] for row in one["rows"]]
        found.append(f"<h2>{escape(head)}</h2>{table(one['columns'], rows, numbers=one['numbers'])}")
    return found


def _trials(result: Result) -> str:
    keys = list(result.plan.space)
    rows: list[list[object]] = []
    for one in result.trials[:_SHOWN]:
        value: Any = one.value if one.state.name == "COMPLETE" else None
        reason = str(one.user_attrs.get("reason", ""))
        seconds = "" if one.duration is None else f"{one.duration.total_seconds():.1f}"
        said = f"{state_of(one)}: {reason}" if reason else state_of(one)
        params = ", ".join(f"{_tail(key, result)} {_short(one.params[key])}" for key in keys if key in one.params)
        rows.append([one.number, "" if value is None else f"{value:.4f}", seconds, said, params])
    columns = ["trial", "value", "s", "ended", "settings"]
    return details(f"All {count(len(result.trials), 'trial')}", table(columns, rows, numbers=(1, 2)))


def _tail(key: str, result: Result) -> str:
    """Return the end of a key that tells it from the others."""
    parts = key.split(".")
    for first in range(len(parts) - 1, 0, -1):
        tail = ".".join(parts[first:])
        if sum(other.endswith(f".{tail}") for other in result.plan.space) == 1:
            return tail
    return key


def _short(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
