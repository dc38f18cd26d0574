"""Parts of a whole as columns."""

from __future__ import annotations

from collections.abc import Sequence

from motionkit.page.charts._svg import WIDTH, bar, line, svg, text
from motionkit.page.wording import percent

HEIGHT = 232
_TOP, _BOTTOM = 26, 30


def shares(rows: Sequence[tuple[str, float]], *, label: str) -> str:
    """Draw a column for each part with its name below and its share above it.

    Args:
        rows: Names and amounts; they add up to the whole.
        label: What the whole is.
    """
    total = sum(value for _, value in rows) or 1.0
    most = max([value for _, value in rows] or [1.0]) or 1.0
    floor, step = HEIGHT - _BOTTOM, WIDTH / max(len(rows), 1)
    parts = []
    for place, (name, value) in enumerate(rows):
        tall, middle = value / most * (floor - _TOP), (place + 0.5) * step
        said = percent(100 * value / total)
        parts.append(bar(middle - 0.34 * step, floor - tall, 0.68 * step, tall, f"{name}: {said}"))
        parts.append(text(middle, floor - tall - 7, said, "middle", "axis"))
        parts.append(text(middle, floor + 18, name, "middle"))
    parts.append(line("base", 0, floor, WIDTH, floor))
    said = ", ".join(f"{name} {percent(100 * value / total)}" for name, value in rows)
    return svg(HEIGHT, f"{label}: {said}.", parts)
