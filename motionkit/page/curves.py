"""Charts of lines: curves over common axes, named at their ends or above the plot, and parallel coordinates."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib.resources import files

from motionkit.page.charts import WIDTH, cut, line, number, svg, text, ticks

_COLOURS = 8
_LEFT, _TOP, _BOTTOM, _BESIDE = 44, 12, 38, 108
_ABOVE, _EDGE, _ROW = 22, 12, 15
"""Space of the names above the plot, space right of it in that case, and space of each further row of names."""

_APART = 12
"""Smallest distance of two names on the right."""

_LETTER = 6.6
"""Approximate width of a letter in a wide font."""

_MARK, _GAP = 19, 12
"""Space of the mark before a name, and between two names, above the plot."""

_AXIS_ROW, _AXIS_TOP, _AXIS_LEFT, _RIGHT = 27, 20, 88, 8
_BEST = 0.1
"""Share of the lines that are drawn in colour."""


@dataclass(frozen=True)
class Chart:
    """A chart of metrics over the steps of a run."""

    title: str  # Heading of the chart
    metrics: Mapping[str, str]  # By the name of the curve
    caption: str  # Sentence below it
    zero: bool = False  # Whether the axis of values begins at 0
    shares: bool = False  # Whether values are in percent of the sum of all its metrics
    steps: bool = False  # Whether it shows a setting, which is never smoothed
    alone: bool = False  # Whether it is only on the page of a single run


@dataclass(frozen=True)
class Curve:
    """One curve."""

    name: str  # Its name, written at its right end, or above the plot
    points: Sequence[tuple[float, float]]  # (x, y) in order of x, at least one
    dashed: bool = False  # Draw it dashed and grey, as a control
    faint: bool = False  # Draw it thin and light, without a name: the raw values of the smoothed curve that follows
    dots: bool = False  # Mark every point, as of sparse measurements
    # Number of its colour, if other charts of the page show the same thing; None takes the next one.
    colour: int | None = None


def curves(
    shown: Sequence[Curve],
    *,
    x_label: str,
    y_label: str,
    width: int = WIDTH,
    height: int = 222,
    zero: bool = True,
    above: bool = False,
) -> str:
    """Draw curves over common axes; names at their ends are moved apart if they would overlap.

    Args:
        shown: The curves; a curve of one point is a dot.
        x_label: Name and unit of the horizontal axis, which starts at 0.
        y_label: Name and unit of the vertical axis, written above it.
        width: Width of the drawing in units.
        height: Its height.
        zero: Begin the vertical axis at 0 if all values are positive; otherwise it spans the values.
        above: Write the names with their last values above the plot, for narrow charts, in as many rows as they need;
            each further row makes the drawing higher. With `hover_script` in the page, the values under the pointer
            are shown.

    Example:
        >>> chart = curves([Curve("grpo", [(0, 0), (10, 0.02)])], x_label="seconds", y_label="reward")
        >>> chart.count("<polyline"), chart.count(">grpo<")
        (1, 1)
    """
    xs = [x for curve in shown for x, _ in curve.points]
    ys = [y for curve in shown for _, y in curve.points]
    right = max([*xs, 1e-9])
    least, most = _span(ys, zero)
    named = [curve for curve in shown if not curve.faint]
    rows = _rows_above(named, width) if above else []
    further = _ROW * max(0, len(rows) - 1)
    height += further
    floor, margin = height - _BOTTOM, _EDGE if above else _BESIDE
    top = _TOP + (_ABOVE + further if above else 10)

    def across(x: float) -> float:
        return _LEFT + x / right * (width - _LEFT - margin)

    def up(y: float) -> float:
        return floor - (y - least) / (most - least) * (floor - top)

    parts = []
    for tick in ticks(least, most, 5):
        parts.append(line("base" if tick == 0 else "grid", _LEFT, up(tick), width - margin, up(tick)))
        parts.append(text(_LEFT - 5, up(tick) + 4, f"{tick:g}", "end"))
    parts.extend(text(across(tick), floor + 15, number(tick), "middle") for tick in ticks(0, right, width // 90))
    parts.append(text((_LEFT + width - margin) / 2, floor + 31, x_label, "middle", "axis"))
    kinds, colour = {}, 0
    for curve in named:
        colour_number = colour if curve.colour is None else curve.colour
        kinds[curve.name] = "control" if curve.dashed else f"c{colour_number % _COLOURS}"
        colour += not curve.dashed
    for curve in shown:
        parts.append(_drawn(curve, kinds.get(curve.name, "c0"), across, up))
    if above:
        parts.extend(_names_above(rows, kinds))
    else:
        parts.append(text(_LEFT, _TOP - 2, y_label, "start", "axis"))
        places = _apart([up(curve.points[-1][1]) for curve in named], floor)
        for curve, place in zip(named, places, strict=True):
            end, level, kind = across(curve.points[-1][0]), up(curve.points[-1][1]), kinds[curve.name]
            parts.append(f'<circle class="dot {kind}" cx="{end:.1f}" cy="{level:.1f}" r="2.6"/>')
            parts.append(line(f"lead {kind}", end, level, width - _BESIDE + 4, place))
            parts.append(text(width - _BESIDE + 7, place + 4, curve.name))
    ends = ", ".join(f"{curve.name} {curve.points[-1][1]:.3g}" for curve in named)
    chart = svg(height, f"{y_label} over {x_label}; at the end {ends}.", parts, width=width)
    # The mapping from the drawing back to values, for `hover_script`.
    frame = (
        f"{_LEFT:g} {(width - _LEFT - margin) / right:.8g} {floor:g} {(floor - top) / (most - least):.8g} {least:.8g} "
        f"{top - 4:g}"
    )
    return chart.replace("<svg ", f'<svg data-frame="{frame}" ', 1) if above else chart


@cache
def hover_script() -> str:
    """Return the script that shows the values of a page's curves under the pointer; once per page is enough."""
    source = files(__package__).joinpath("hover.js").read_text(encoding="utf-8")
    return f"<script>{source}</script>"


def _span(values: Sequence[float], zero: bool) -> tuple[float, float]:
    """Return the ends of the vertical axis."""
    if zero:
        return min([*values, 0.0]), max([*values, 1e-9])
    least, most = min(values), max(values)
    room = 0.06 * (most - least) or 0.5 * abs(most) or 1.0
    return least - room, most + room


def _drawn(curve: Curve, kind: str, across: Callable[[float], float], up: Callable[[float], float]) -> str:
    corners = " ".join(f"{across(x):.1f},{up(y):.1f}" for x, y in curve.points)
    tip = f"{curve.name}: {curve.points[-1][1]:.3g} at {curve.points[-1][0]:.3g}"
    name = "" if curve.faint else f' data-name="{escape(curve.name)}"'
    polyline = (
        f'<polyline class="curve {kind}{" faint" if curve.faint else ""}"{name} points="{corners}">'
        f"<title>{escape(tip)}</title></polyline>"
    )
    single = len(curve.points) == 1 and not curve.faint
    marks = [corner.split(",") for corner in corners.split(" ")] if curve.dots or single else []
    return polyline + "".join(f'<circle class="dot {kind}" cx="{x}" cy="{y}" r="2.6"/>' for x, y in marks)


def _rows_above(named: Sequence[Curve], width: int) -> list[list[tuple[float, Curve, str]]]:
    """Break names with their last values into rows: position of the mark, curve, words."""
    rows: list[list[tuple[float, Curve, str]]] = [[]]
    at = 2.0
    for curve in named:
        words = f"{curve.name} {curve.points[-1][1]:.3g}".strip()
        room = _MARK + _LETTER * len(words)
        if rows[-1] and at + room > width:
            rows.append([])
            at = 2.0
        rows[-1].append((at, curve, cut(words, int((width - _MARK - 2) / _LETTER))))
        at += room + _GAP
    return rows


def _names_above(rows: Sequence[Sequence[tuple[float, Curve, str]]], kinds: Mapping[str, str]) -> list[str]:
    """Draw the names above a plot, each with a mark in its colour."""
    parts = []
    for place, row in enumerate(rows):
        for at, curve, words in row:
            middle = 8 + _ROW * place
            parts.append(line(f"curve {kinds[curve.name]}", at, middle, at + _MARK - 5, middle))
            parts.append(text(at + _MARK, middle + 4, words))
    return parts


def _apart(levels: Sequence[float], floor: float) -> list[float]:
    """Return vertical positions near `levels`, `_APART` from each other if there is room for all."""
    step = min(_APART, (floor - _TOP) / max(1, len(levels) - 1)) if len(levels) > 1 else 0.0
    order = sorted(range(len(levels)), key=lambda index: levels[index])
    places = [0.0] * len(levels)
    last = -float("inf")
    for index in order:  # from the top down
        last = places[index] = max(levels[index], last + step)
    bound = floor
    for index in reversed(order):  # and back up, if the lowest ones are below the axis now
        places[index] = min(places[index], bound)
        bound = places[index] - step
    return places


def parallel(
    axes: Sequence[tuple[str, Sequence[object], bool]], values: Sequence[float], *, better: str = "maximize"
) -> str:
    """Draw each item as a line through its value on every axis, the best tenth in colour.

    Axes are horizontal, one below the other, so that their names are readable on a phone too. The last is the result.

    Args:
        axes: Name, value of each item (numbers, or words, which are spaced evenly), and whether the axis is
            logarithmic.
        values: Result of each item, the best first.
        better: ``maximize`` or ``minimize``.

    Example:
        >>> chart = parallel([("lr", [1e-3, 1e-4], True), ("depth", [2, 3], False)], [0.5, 0.4])
        >>> chart.count("<polyline")
        2
    """
    rows = [*axes, ("value", list(values), False)]
    bottom = _AXIS_TOP + _AXIS_ROW * (len(rows) - 1)
    parts, places = [], []
    for row, (name, quantities, logarithmic) in enumerate(rows):
        y = _AXIS_TOP + _AXIS_ROW * row
        shares, low, high = _shares(quantities, logarithmic)
        places.append([_AXIS_LEFT + share * (WIDTH - _AXIS_LEFT - _RIGHT) for share in shares])
        parts.append(line("grid", _AXIS_LEFT, y, WIDTH - _RIGHT, y))
        parts.append(text(_AXIS_LEFT - 8, y + 4, cut(name, 14), "end", "axis"))
        parts.append(text(_AXIS_LEFT, y - 4, low))
        parts.append(text(WIDTH - _RIGHT, y - 4, high, "end"))
    first = max(1, round(_BEST * len(values)))
    for index in reversed(range(len(values))):  # the best ones last, above the others
        corners = " ".join(f"{row[index]:.1f},{_AXIS_TOP + _AXIS_ROW * at}" for at, row in enumerate(places))
        kind = "curve c1" if index < first else "curve c0 faint"
        parts.append(f'<polyline class="{kind}" points="{corners}"><title>{values[index]:.4g}</title></polyline>')
    ends = f"best {values[0]:.4g}" if values else "none"
    return svg(bottom + 14, f"{len(values)} lines through {len(axes)} settings; {better}: {ends}.", parts)


def _shares(values: Sequence[object], logarithmic: bool) -> tuple[list[float], str, str]:
    """Return the position of each value between the smallest and the largest, and these two as text."""
    if not all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values):
        words = sorted({str(value) for value in values})
        step = max(len(words) - 1, 1)
        return [words.index(str(value)) / step for value in values], words[0], words[-1]
    numbers = [float(value) for value in values if isinstance(value, (int, float))]
    scaled = [math.log(value) for value in numbers] if logarithmic and min(numbers) > 0 else numbers
    low, high = min(scaled), max(scaled)
    span = (high - low) or 1.0
    return [(value - low) / span for value in scaled], f"{min(numbers):.3g}", f"{max(numbers):.3g}"
