"""Directions as sectors of a circle."""

from __future__ import annotations

import math
from collections.abc import Sequence

from motionkit.page._svg import WIDTH, svg, text

HEIGHT = 232
_X, _Y, _RADIUS = WIDTH / 2, 116.0, 92.0
_DIAGONAL = math.sqrt(0.5)


def rose(counts: Sequence[int], *, label: str, of: str) -> str:
    """Draw directions as sectors whose area is their share; the first count is straight ahead, then to the left.

    Args:
        counts: Values per direction, evenly round the circle.
        label: What the directions are.
        of: What is counted.

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
