"""Curves of a run: the ones that say most first, all others in a closed part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from motionkit import plugins
from motionkit.page.curves import Chart, Curve, curves
from motionkit.page.html import details, figure, grid
from motionkit.page.wording import count
from motionkit.report._systems import trainers_of
from motionkit.runs.source import Source
from motionkit.tracking import Metric, binned, definition, series, smoothed

_POINTS = 200
"""Points of a curve at most: about the pixels of a chart."""

_SMOOTH = 25  # a smoothed value is the mean over this part of the run
_FEW = 40  # points from which a curve is smoothed
_MOST = 60  # charts in the closed part

Lines = Sequence[Mapping[str, Any]]


_FIRST = (
    Chart(
        "Reward",
        {"train": "reward/mean", "held out": "heldout/reward/mean"},
        "In training: other inputs at every step. Held out: the same inputs and noise at every point.",
    ),
)
_LAST = (
    Chart("KL, nats per dimension", {"KL": "kl/nats_per_dim"}, "To the reference policy.", zero=True),
    Chart("Loss", {"train": "loss/total", "validation": "val/loss"}, "What is minimised; no measure of the result."),
    Chart("Gradient norm", {"norm": "grad/norm"}, "The norm of the gradient before it is clipped.", zero=True),
)


def _charts(*sources: Source) -> list[Chart]:
    """Return the charts that are shown first, in their order."""
    own = plugins.named("charts", *trainers_of(sources))
    return [*_FIRST, *(chart for charts in own for chart in charts), *_LAST]


def charts(source: Source) -> str:
    """Return the section of curves; empty where nothing was logged."""
    lines = source.lines
    names = list(dict.fromkeys(name for line in lines for name in line if name not in ("step", "seconds")))
    first, used = [], set[str]()
    for chart in _charts(source):
        curves = _points(chart, lines)
        used |= {chart.metrics[label] for label in curves}
        if curves and any(len(points) > 1 for points in curves.values()):
            first.append(_figure(chart.title, curves, chart.caption, zero=chart.zero, smooth=not chart.steps))
    rest = []
    for name in [name for name in names if name not in used][:_MOST]:
        points = series(lines, name)
        if len(points) > 1:
            metric = _defined(name)
            unit = f", {metric.unit}" if metric.unit != "1" else ""
            rest.append(_figure(f"{name}{unit}", {"": points}, metric.meaning))
    if not first and not rest:
        return ""
    more = details(f"{count(len(rest), 'more metric')}", grid(rest), opened=not first) if rest else ""
    return f"<h2>Curves</h2>{grid(first) if first else ''}{more}"


def compared(sources: Mapping[str, Source]) -> str:
    """Return charts with a curve for each run, by its name, in one colour throughout."""
    runs = {name: source.lines for name, source in sources.items()}
    figures = []
    colours = {run: place for place, run in enumerate(runs)}
    for chart in (chart_of for chart_of in _charts(*sources.values()) if not chart_of.alone):
        every = {run: _points(chart, lines) for run, lines in runs.items()}
        for label in chart.metrics:
            curves = {run: points[label] for run, points in every.items() if label in points}
            if len(curves) > 1 and any(len(points) > 1 for points in curves.values()):
                title = chart.title if len(chart.metrics) == 1 else f"{chart.title}: {label}"
                figures.append(
                    _figure(title, curves, chart.caption, zero=chart.zero, smooth=not chart.steps, colours=colours)
                )
    return f"<h2>Curves</h2>{grid(figures)}" if figures else ""


def _points(chart: Chart, lines: Lines) -> dict[str, list[tuple[float, float]]]:
    """Return the points of each curve that has any."""
    if not chart.shares:
        return {label: points for label, name in chart.metrics.items() if (points := series(lines, name))}
    parts: dict[str, list[tuple[float, float]]] = {label: [] for label in chart.metrics}
    for line in lines:
        values = {label: line.get(name) for label, name in chart.metrics.items()}
        given = {label: float(value) for label, value in values.items() if value is not None}
        if (whole := sum(given.values())) > 0:
            for label, value in given.items():
                parts[label].append((float(line["step"]), 100 * value / whole))
    return {label: points for label, points in parts.items() if points}


def _figure(
    title: str,
    series: Mapping[str, Sequence[tuple[float, float]]],
    caption: str,
    *,
    zero: bool = False,
    smooth: bool = True,
    colours: Mapping[str, int] | None = None,
) -> str:
    """Return a chart; with `colours`, those of runs, the values behind a smoothed curve are left out."""
    shown = []
    for label, points in series.items():
        colour = None if colours is None else colours[label]
        if len(points) < _FEW or not smooth:
            shown.append(Curve(label, binned(points, _POINTS), dots=len(points) < 15, colour=colour))
            continue
        if colours is None:
            shown.append(Curve(label, binned(points, _POINTS), faint=True))
        line = binned(smoothed(points, max(3, len(points) // _SMOOTH)), _POINTS)
        shown.append(Curve(label, line, colour=colour))
    behind_first = sorted(shown, key=lambda curve: not curve.faint)  # the light lines lie behind
    drawn = curves(behind_first, x_label="step", y_label=title, zero=zero, above=True, height=196)
    return figure(drawn, caption, title=title)


def _defined(name: str) -> Metric:
    try:
        return definition(name)
    except KeyError:  # of a newer motionkit, or of a package that is not installed
        return Metric(name, "1", "none", "")
