"""A chart with an axis for each quantity and a line through all of them for each thing."""

from __future__ import annotations

import math
from collections.abc import Sequence

from motionkit.page._charts import WIDTH, cut, line, svg, text

_ROW, _TOP, _LEFT, _RIGHT = 27, 20, 88, 8
_BEST = 0.1
"""Share of the lines that are drawn in colour."""


def parallel(
    axes: Sequence[tuple[str, Sequence[object], bool]], values: Sequence[float], *, better: str = "maximize"
) -> str:
    """Draw each thing as a line that goes down through its place on every axis; the best tenth in colour.

    Axes lie across, one below the other, so that their names are read on a telephone too. The last one is the value.

    Args:
        axes: Name, what each thing has there (numbers, or words, which are spread evenly), and whether it is drawn by
            the logarithm.
        values: What each thing reached, the best first.
        better: ``maximize`` or ``minimize``.

    Example:
        >>> chart = parallel([("lr", [1e-3, 1e-4], True), ("depth", [2, 3], False)], [0.5, 0.4])
        >>> chart.count("<polyline")
        2
    """
    rows = [*axes, ("value", list(values), False)]
    bottom = _TOP + _ROW * (len(rows) - 1)
    parts, places = [], []
    for row, (name, held, logarithmic) in enumerate(rows):
        y = _TOP + _ROW * row
        shares, low, high = _shares(held, logarithmic)
        places.append([_LEFT + share * (WIDTH - _LEFT - _RIGHT) for share in shares])
        parts.append(line("grid", _LEFT, y, WIDTH - _RIGHT, y))
        parts.append(text(_LEFT - 8, y + 4, cut(name, 14), "end", "axis"))
        parts.append(text(_LEFT, y - 4, low))
        parts.append(text(WIDTH - _RIGHT, y - 4, high, "end"))
    first = max(1, round(_BEST * len(values)))
    for index in reversed(range(len(values))):  # the best ones last, above the others
        corners = " ".join(f"{row[index]:.1f},{_TOP + _ROW * at}" for at, row in enumerate(places))
        kind = "curve c1" if index < first else "curve c0 faint"
        parts.append(f'<polyline class="{kind}" points="{corners}"><title>{values[index]:.4g}</title></polyline>')
    ends = f"best {values[0]:.4g}" if values else "none"
    return svg(bottom + 14, f"{len(values)} lines through {len(axes)} settings; {better}: {ends}.", parts)


def _shares(held: Sequence[object], logarithmic: bool) -> tuple[list[float], str, str]:
    """Return where each value lies between the least and the most, and these two in words."""
    if not all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in held):
        words = sorted({str(value) for value in held})
        step = max(len(words) - 1, 1)
        return [words.index(str(value)) / step for value in held], words[0], words[-1]
    numbers = [float(value) for value in held if isinstance(value, (int, float))]
    scaled = [math.log(value) for value in numbers] if logarithmic and min(numbers) > 0 else numbers
    low, high = min(scaled), max(scaled)
    span = (high - low) or 1.0
    return [(value - low) / span for value in scaled], f"{min(numbers):.3g}", f"{max(numbers):.3g}"
