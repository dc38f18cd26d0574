"""A histogram; the names of its marks are above the plot, so that no bar covers them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from motionkit.page.charts import WIDTH, bar, line, number, svg, text, ticks

HEIGHT = 222
_LEFT, _RIGHT, _TOP, _BOTTOM = 38, 8, 42, 38
_FLAT = 4.0, 16.0
"""Ratio to the next highest bar, and to the median one, above which a bar would flatten the others."""

_APART = 18
"""Smallest distance of two values on the vertical axis."""


def histogram(
    start: float,
    width: float,
    counts: Sequence[int],
    *,
    label: str,
    unit: str,
    of: str,
    marks: Mapping[str, float],
    digits: int = 2,
    whole: bool = False,
) -> str:
    """Draw a histogram; if one bar would flatten all others, heights are square roots and the axis is labelled so.

    Args:
        start: Lower end of the first bin.
        width: Width of each bin.
        counts: Values per bin.
        label: Name of the horizontal axis.
        unit: Its unit.
        of: Name of what is counted: ``clips``, ``frames``.
        marks: Values to mark with a line, by name; one beyond the last bin is named without a line.
        digits: Decimals of the marks' values.
        whole: Whether values are whole numbers; the axis then has whole numbers only.

    Example:
        >>> chart = histogram(0.0, 0.5, [3, 1, 4], label="length", unit="s", of="clips", marks={"median": 0.8})
        >>> chart[:4], chart.count('class="bar"')
        ('<svg', 3)
    """
    most = max([*counts, 1])
    rooted = is_rooted(counts)
    stop = start + width * len(counts)

    def x(value: float) -> float:
        return _LEFT + (value - start) / (stop - start) * (WIDTH - _LEFT - _RIGHT)

    def y(value: float) -> float:
        part = math.sqrt(value / most) if rooted else value / most
        return HEIGHT - _BOTTOM - part * (HEIGHT - _TOP - _BOTTOM)

    floor = HEIGHT - _BOTTOM
    parts = [_vertical(_heights(most, rooted), y, f"{of}, square-root scale" if rooted else of)]
    for place, many in enumerate(counts):
        if many:
            low = start + place * width
            tip = f"{low:.3g} to {low + width:.3g} {unit}: {many:,} {of}"
            parts.append(bar(x(low), y(many), x(low + width) - x(low), floor - y(many), tip))
    for tick in ticks(start, stop, 6, whole=whole):
        # Half of a long number would stand beyond the right edge.
        edge = x(tick) + 3.2 * len(f"{tick:g}") > WIDTH
        parts.append(text(WIDTH if edge else x(tick), floor + 15, f"{tick:g}", "end" if edge else "middle"))
    parts.append(text((WIDTH + _LEFT) / 2, HEIGHT - 6, f"{label} ({unit})", "middle", "axis"))
    at = 0.0
    for row, (name, value) in enumerate(marks.items()):
        if start <= value <= stop:
            parts.append(line(f"mark m{row}", x(value), _TOP - 2, x(value), floor))
        words = f"{name} {value:.{digits}f}"
        parts.append(line(f"mark m{row}", at, 8, at + 16, 8))
        parts.append(text(at + 21, 12, words, kind="note"))
        at += 21 + 6.2 * len(words) + 14
    values = ", ".join(f"{name} {value:.{digits}f} {unit}" for name, value in marks.items())
    return svg(HEIGHT, f"Histogram of {label} over {sum(counts):,} {of}. {values}.", parts)


def is_rooted(counts: Sequence[int]) -> bool:
    """Return whether one bar is so high that the axis uses square roots."""
    used = sorted(many for many in counts if many)
    return len(used) > 3 and (used[-1] > _FLAT[0] * used[-2] or used[-1] > _FLAT[1] * used[len(used) // 2])


def _heights(most: int, rooted: bool) -> list[float]:
    """Return values for the vertical axis; a square-root axis gets 1, 2, 5, 10, ..."""
    if not rooted:
        return ticks(0, most, 4, whole=True)
    return [
        0.0,
        *(part * 10.0**power for power in range(len(str(most))) for part in (1, 2, 5) if part * 10**power <= most),
    ]


def _vertical(heights: Sequence[float], y: Callable[[float], float], name: str) -> str:
    """Draw the vertical axis, with numbers at least `_APART` from each other."""
    parts, last = [text(0, 31, name, kind="axis")], -math.inf
    for tick in sorted(heights, key=lambda tick: (tick != 0, -tick)):
        if tick == 0:
            parts.append(text(_LEFT - 5, y(0) + 4, "0", "end"))
        elif y(tick) - last >= _APART and y(0) - y(tick) >= _APART:
            last = y(tick)
            parts.append(line("grid", _LEFT, last, WIDTH - _RIGHT, last))
            parts.append(text(_LEFT - 5, last + 4, number(tick), "end"))
    return "".join(parts)
