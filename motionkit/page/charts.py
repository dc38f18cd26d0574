"""Charts of amounts: sectors of a circle, a bar or a column for each name; and the elements of all charts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from motionkit.page.wording import percent

WIDTH = 300
"""Units of a chart, shown at about as many pixels."""

HEIGHT = 232
_X, _Y, _RADIUS = WIDTH / 2, 116.0, 92.0
"""Height of a circle of directions, its centre and its radius."""

_DIAGONAL = math.sqrt(0.5)
_RIGHT = 10
"""Space to the right of the bars between quantiles."""


def ticks(start: float, stop: float, about: int, *, whole: bool = False) -> list[float]:
    """Return about `about` round values between two ends; whole numbers only if `whole`."""
    raw = (stop - start) / max(about, 1)
    power = 10.0 ** math.floor(math.log10(raw)) if raw > 0 else 1.0
    factors = (1, 2, 5, 10) if whole else (1, 2, 2.5, 5, 10)
    step = next(factor * power for factor in factors if factor * power >= raw * (1 - 1e-9))
    step = max(step, 1.0) if whole else step
    first = math.ceil(start / step - 1e-9)
    return [round(place * step, 10) for place in range(first, math.floor(stop / step + 1e-9) + 1)]


def number(value: float) -> str:
    """Return a value for an axis, with k and M for thousands and millions."""
    if value >= 1e6:
        return f"{value / 1e6:g}M"
    return f"{value / 1e3:g}k" if value >= 1e4 else f"{value:g}"


def cut(name: str, most: int) -> str:
    """Return a name cut to at most `most` characters."""
    return name if len(name) <= most else f"{name[: most - 1]}…"


def bar(x: float, y: float, width: float, height: float, tip: str) -> str:
    """Return a rectangle with a tooltip and a gap of half a unit on both sides."""
    return (
        f'<rect class="bar" x="{x + 0.5:.1f}" y="{y:.1f}" width="{max(width - 1, 0.5):.1f}" '
        f'height="{max(height, 0.5):.1f}"><title>{escape(tip)}</title></rect>'
    )


def line(kind: str, x1: float, y1: float, x2: float, y2: float) -> str:
    """Return a line with a CSS class."""
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def text(x: float, y: float, words: str, anchor: str = "start", kind: str = "") -> str:
    """Return text at (x, y); `anchor` is ``start``, ``middle`` or ``end``."""
    mark = f' class="{kind}"' if kind else ""
    return f'<text{mark} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'


def svg(height: float, description: str, parts: Sequence[str], *, width: float = WIDTH) -> str:
    """Return a whole chart."""
    return (
        f'<svg viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{escape(description)}">{"".join(parts)}</svg>'
    )


def rose(counts: Sequence[int], *, label: str, of: str) -> str:
    """Draw directions as sectors whose area is their share; the first count is straight ahead, then to the left.

    Args:
        counts: Values per direction, evenly around the circle.
        label: Name of the directions.
        of: Name of the counted things.

    Example:
        >>> rose([4, 0, 1, 0], label="Travel", of="steps").count('class="bar"')
        2
    """
    total, most = max(sum(counts), 1), max([*counts, 1])
    sectors, rings, names = [], [], []
    for part in (0.25, 1.0):
        ring = _RADIUS * math.sqrt(part)
        rings.append(f'<circle class="grid" cx="{_X:g}" cy="{_Y:g}" r="{ring:.1f}"/>')
        at_x, at_y = _X + _DIAGONAL * ring + 2, _Y + _DIAGONAL * ring + 10
        names.append(text(at_x, at_y, f"{100 * part * most / total:.2g} %", kind="note"))
    step = 2 * math.pi / max(len(counts), 1)
    for place, number in enumerate(counts):
        if number:
            path = _sector(place * step, 0.46 * step, _RADIUS * math.sqrt(number / most))
            tip = f"{_side(place * step)}: {100 * number / total:.1f} % of {of}"
            sectors.append(f'<path class="bar" d="{path}"><title>{tip}</title></path>')
    for words, at_x, at_y, anchor in (
        ("ahead", _X, _Y - _RADIUS - 8, "middle"),
        ("back", _X, _Y + _RADIUS + 17, "middle"),
        ("left", _X - _RADIUS - 8, _Y + 4, "end"),
        ("right", _X + _RADIUS + 8, _Y + 4, "start"),
    ):
        names.append(text(at_x, at_y, words, anchor, "axis"))
    ahead = 100 * counts[0] / total if counts else 0.0
    description = f"{label}, share of {of} by direction; straight ahead {ahead:.0f} %."
    # Names come last: later elements cover earlier ones.
    return svg(HEIGHT, description, [*rings, *sectors, *names])


def _sector(angle: float, half: float, reach: float) -> str:
    edges = [(_X - reach * math.sin(angle + turn), _Y - reach * math.cos(angle + turn)) for turn in (-half, half)]
    return (
        f"M{_X:g} {_Y:g}L{edges[0][0]:.1f} {edges[0][1]:.1f}"
        f"A{reach:.1f} {reach:.1f} 0 0 0 {edges[1][0]:.1f} {edges[1][1]:.1f}Z"
    )


def _side(angle: float) -> str:
    degrees = math.degrees(math.remainder(angle, 2 * math.pi))
    if abs(degrees) < 1:
        return "ahead"
    return f"{abs(degrees):.0f}° {'left' if degrees > 0 else 'right'}"


def bars(rows: Sequence[tuple[str, float]], *, label: str) -> str:
    """Draw a horizontal bar per row, with its name before and its value after it.

    Example:
        >>> bars([("walk", 3.0), ("jump", 1.0)], label="Clips").count('class="bar"')
        2
    """
    height, before = 19, 86
    most = max([value for _, value in rows] or [1]) or 1
    parts = []
    for place, (name, value) in enumerate(rows):
        top = 2 + place * height
        length = value / most * (WIDTH - before - 44)
        parts.append(text(before - 6, top + 13, cut(name, 13), "end"))
        parts.append(bar(before, top + 2, max(length, 0.5), height - 5, f"{name}: {value:,g}"))
        parts.append(text(before + length + 5, top + 13, f"{value:,g}"))
    shown = ", ".join(f"{name} {value:g}" for name, value in rows[:5])
    return svg(6 + height * len(rows), f"{label}: {shown}{', ...' if len(rows) > 5 else ''}.", parts)


def spans(
    rows: Sequence[tuple[str, Sequence[float]]], *, label: str, unit: str, of: str, low: float | None = None
) -> str:
    """Draw a bar per row from its low to its high value, with a tick at the middle one.

    Args:
        rows: Name and (low, middle, high).
        label: Name of the values.
        unit: Their unit.
        of: Name of the rows and what a bar spans, for the chart's description.
        low: Left end of the axis; None takes the smallest value.

    Example:
        >>> chart = spans([("knee", (5.0, 20.0, 60.0))], label="rotation", unit="°", of="joints")
        >>> chart.count('class="bar"'), chart.count('class="tick"')
        (1, 1)
    """
    height, before, top = 17, 104, 4
    start = min([values[0] for _, values in rows] + ([] if low is None else [low]))
    stop = max([values[-1] for _, values in rows] + [start + 1e-6])
    grid = ticks(start, stop, 5)
    bottom = top + height * len(rows)

    def x(value: float) -> float:
        return before + (value - start) / (stop - start) * (WIDTH - before - _RIGHT)

    parts = [line("grid", x(tick), top, x(tick), bottom) for tick in grid]
    for place, (name, values) in enumerate(rows):
        at = top + place * height
        tip = f"{name}: {values[0]:.3g} to {values[-1]:.3g} {unit}, median {values[1]:.3g}"
        parts.append(text(before - 6, at + 12, cut(name, 16), "end"))
        parts.append(bar(x(values[0]), at + 4, max(x(values[-1]) - x(values[0]), 1.5), height - 8, tip))
        parts.append(line("tick", x(values[1]), at + 2, x(values[1]), at + height - 2))
    parts.extend(text(x(tick), bottom + 14, f"{tick:g}", "middle") for tick in grid)
    parts.append(text((WIDTH + before) / 2, bottom + 31, f"{label} ({unit})", "middle", "axis"))
    return svg(bottom + 38, f"{label} of {len(rows)} {of}.", parts)


def shares(rows: Sequence[tuple[str, float]], *, label: str) -> str:
    """Draw a column for each part with its name below and its share above it.

    Args:
        rows: Names and amounts.
        label: Name of the total.

    Example:
        >>> "75 %" in shares([("left", 3), ("right", 1)], label="Contacts")
        True
    """
    height = 232
    total = sum(value for _, value in rows) or 1.0
    most = max([value for _, value in rows] or [1.0]) or 1.0
    floor, step = height - 30, WIDTH / max(len(rows), 1)
    parts = []
    for place, (name, value) in enumerate(rows):
        tall, middle = value / most * (floor - 26), (place + 0.5) * step
        part = percent(100 * value / total)
        parts.append(bar(middle - 0.34 * step, floor - tall, 0.68 * step, tall, f"{name}: {part}"))
        parts.append(text(middle, floor - tall - 7, part, "middle", "axis"))
        parts.append(text(middle, floor + 18, name, "middle"))
    parts.append(line("base", 0, floor, WIDTH, floor))
    shown = ", ".join(f"{name} {percent(100 * value / total)}" for name, value in rows)
    return svg(height, f"{label}: {shown}.", parts)
