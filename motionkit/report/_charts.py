"""Curves of a run: the ones that say most first, all others in a closed part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from motionkit.page.curves import Curve, curves
from motionkit.page.html import count, details, figure, grid
from motionkit.tracking import Metric, binned, definition, series, smoothed

_POINTS = 200
"""Points of a curve at most: about the pixels of a chart."""

_SMOOTH = 25  # a smoothed value is the mean over this part of the run
_FEW = 40  # points from which a curve is smoothed
_MOST = 60  # charts in the closed part

Lines = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class _Chart:
    title: str
    metrics: Mapping[str, str]  # by the name of the curve
    caption: str
    zero: bool = False
    shares: bool = False  # in percent of the sum of all its metrics
    steps: bool = False  # a setting: as it is, never smoothed
    alone: bool = False  # on the page of one run only


_HORIZONS = (100, 200, 400, 1000)  # milliseconds at which a predictor is validated

_CHARTS = (
    _Chart(
        "Reward",
        {"train": "reward/mean", "held out": "heldout/reward/mean"},
        "In training: other inputs at every step. Held out: the same inputs and noise at every point.",
    ),
    _Chart(
        "Gain since the start",
        {"reward": "heldout/reward/delta", "judge": "heldout/judge/delta"},
        "On held-out prompts. Where the judge, which is never trained on, stops following, the reward is being gamed.",
        zero=True,
    ),
    _Chart(
        "Movement, share of real",
        {"movement": "heldout/movement", "statues": "heldout/statues"},
        "How far the limb swings that moves most in real clips of the action, as a share of theirs; and the share of "
        "segments in which nothing moves 10 cm.",
        zero=True,
    ),
    _Chart(
        "Foot skate, m/s",
        {"train": "physics/skate", "held out": "heldout/physics/skate"},
        "Speed of the feet along the floor while they touch it; lower is better.",
    ),
    _Chart(
        "Jerk, m/s³",
        {"train": "physics/jerk", "held out": "heldout/physics/jerk"},
        "Roughness of the motion: far above the start it trembles, far below it has all but stopped.",
    ),
    _Chart(
        "Skill while training",
        {"skill": "mpl/skill"},
        "Free runs on validation clips, mean over the horizons; 0 is no better than holding the last pose.",
        zero=True,
    ),
    _Chart(
        "GeoDeg by ms ahead, degrees",
        {f"{ms}": f"mpl/geo_deg/{ms}" for ms in _HORIZONS},
        "Error of free runs on validation clips, 100 to 1000 ms ahead.",
        zero=True,
    ),
    _Chart(
        "GeoDeg, teacher forcing, degrees",
        {f"{ms}": f"mpl/teacher_geo_deg/{ms}" for ms in _HORIZONS},
        "The same frames, each predicted from the true frames before it.",
        zero=True,
        alone=True,
    ),
    _Chart(
        "Loss groups, % of the loss",
        {group: f"loss_group/{group}" for group in ("core", "aux", "long")},
        "Aim: core 65, aux 5, long 30. Out of balance: core above 80, aux above 15, long below 15.",
        zero=True,
        shares=True,
        alone=True,
    ),
    _Chart(
        "Schedule: share and weight",
        {"teacher forcing": "teacher/share", "free-run weight": "freerun/weight"},
        "Share of frames predicted from the true frame before, and weight of the free run's loss.",
        zero=True,
        steps=True,
        alone=True,
    ),
    _Chart(
        "Schedule: free run, frames",
        {"horizon": "freerun/horizon"},
        "Frames of the free run whose loss is minimised.",
        zero=True,
        steps=True,
        alone=True,
    ),
    _Chart(
        "Classifier on validation episodes",
        {"AUROC": "classifier/auroc", "average precision": "classifier/average_precision"},
        "The weights with the highest average precision are kept.",
    ),
    _Chart(
        "Success",
        {"true": "success/true", "predicted": "success/predicted", "watched starts": "success/watched"},
        "Share of the newest episodes, true by the environment and predicted by the reward. Where the lines part, the "
        "policy pleases the reward without the task.",
        zero=True,
        steps=True,
    ),
    _Chart(
        "Rewards of the loops",
        {"mask to caption": "loop1/reward_mean", "caption to mask": "loop2/reward_mean"},
        "Mean over the samples of a step.",
    ),
    _Chart(
        "Regions while training",
        {
            "cycle IoU": "regions/cycle_iou_greedy",
            "frozen judge": "regions/judge_iou_greedy",
            "uniqueness": "regions/unique_greedy",
            "METEOR": "regions/meteor_greedy",
            "referring IoU": "regions/referring_iou",
            "cycle IoU, sampled": "regions/cycle_iou",
            "frozen judge, sampled": "regions/judge_iou",
            "METEOR, sampled": "regions/meteor",
        },
        "On validation regions, captions of the likeliest words. Where the frozen judge stops following, policy and "
        "partner speak a code of their own.",
        steps=True,
    ),
    _Chart(
        "What may get worse",
        {
            "attributes named wrongly": "regions/attributes_wrong_greedy",
            "absent objects: nothing drawn": "regions/no_target",
        },
        "On validation regions. Wrong words should not rise, and nothing should be drawn of what is not there.",
        zero=True,
        steps=True,
    ),
    _Chart("Length of captions", {"words": "regions/words_greedy"}, "On validation regions.", zero=True, steps=True),
    _Chart("KL, nats per dimension", {"KL": "kl/nats_per_dim"}, "To the reference policy.", zero=True),
    _Chart("Loss", {"train": "loss/total", "validation": "val/loss"}, "What is minimised; no measure of the result."),
    _Chart("Gradient norm", {"norm": "grad/norm"}, "The norm of the gradient before it is clipped.", zero=True),
    _Chart(
        "Retrieval of 32, %",
        {"R@1": "retrieval/t2m/r1_32", "R@3": "retrieval/t2m/r3_32", "R@10": "retrieval/t2m/r10_32"},
        "Text to motion: how often the true motion is among the first 1, 3 or 10 of 32.",
    ),
    _Chart(
        "Retrieval of all, %",
        {"R@1": "retrieval/t2m/r1", "R@3": "retrieval/t2m/r3", "R@10": "retrieval/t2m/r10"},
        "Text to motion among all held-out clips.",
    ),
)


def charts(lines: Lines) -> str:
    """Return the section of curves; empty where nothing was logged."""
    names = list(dict.fromkeys(name for line in lines for name in line if name not in ("step", "seconds")))
    first, used = [], set[str]()
    for chart in _CHARTS:
        found = _points(chart, lines)
        used |= {chart.metrics[label] for label in found}
        if found and any(len(points) > 1 for points in found.values()):
            first.append(_figure(chart.title, found, chart.caption, zero=chart.zero, smooth=not chart.steps))
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


def compared(runs: Mapping[str, Lines]) -> str:
    """Return charts with a curve for each run, by its name, in one colour throughout."""
    figures = []
    colours = {run: place for place, run in enumerate(runs)}
    for chart in (one for one in _CHARTS if not one.alone):
        every = {run: _points(chart, lines) for run, lines in runs.items()}
        for label in chart.metrics:
            found = {run: points[label] for run, points in every.items() if label in points}
            if len(found) > 1 and any(len(points) > 1 for points in found.values()):
                title = chart.title if len(chart.metrics) == 1 else f"{chart.title}: {label}"
                figures.append(
                    _figure(title, found, chart.caption, zero=chart.zero, smooth=not chart.steps, colours=colours)
                )
    return f"<h2>Curves</h2>{grid(figures)}" if figures else ""


def _points(chart: _Chart, lines: Lines) -> dict[str, list[tuple[float, float]]]:
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
    found: Mapping[str, Sequence[tuple[float, float]]],
    caption: str,
    *,
    zero: bool = False,
    smooth: bool = True,
    colours: Mapping[str, int] | None = None,
) -> str:
    """Return a chart; with `colours`, those of runs, the values behind a smoothed curve are left out."""
    shown = []
    for label, points in found.items():
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
