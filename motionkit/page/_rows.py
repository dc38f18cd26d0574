"""Charts with a row or a column for each name: bars, spans between quantiles, shares of a whole."""

from __future__ import annotations

from collections.abc import Sequence

from motionkit.page._svg import WIDTH, bar, cut, line, svg, text, ticks
from motionkit.page._wording import percent

_RIGHT = 10


def bars(rows: Sequence[tuple[str, float]], *, label: str) -> str:
    """Draw one horizontal bar per row with its name before and its value after it.

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
    """Draw for each row a bar from its first to its last value with a tick at the middle one.

    Args:
        rows: Name and (low, middle, high).
        label: What the values are.
        unit: Their unit.
        of: What the rows are, and what a bar spans, for the chart's description.
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
        rows: Names and amounts; they add up to the whole.
        label: What the whole is.

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
