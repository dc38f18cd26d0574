"""A chart of several curves, each named at its end, so that no legend has to be matched with colours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from motionkit.page._svg import WIDTH, line, number, svg, text, ticks

_COLOURS = 8
_LEFT, _TOP, _BOTTOM, _BESIDE = 44, 12, 38, 108
_APART = 12
"""Least distance of two names on the right."""


@dataclass(frozen=True)
class Curve:
    """One curve.

    Attributes:
        name: Its name, written at its right end.
        points: (x, y) in order of x, at least one.
        dashed: Draw it dashed and grey, as a control.
    """

    name: str
    points: Sequence[tuple[float, float]]
    dashed: bool = False


def curves(shown: Sequence[Curve], *, x_label: str, y_label: str, width: int = WIDTH, height: int = 222) -> str:
    """Draw curves over common axes; names at their ends are moved apart where they would overlap.

    Args:
        shown: The curves; a curve of one point is a dot.
        x_label: Name and unit of the horizontal axis, which starts at 0.
        y_label: Name and unit of the vertical axis, written above it.
        width: Width of the drawing in units.
        height: Its height.

    Example:
        >>> chart = curves([Curve("grpo", [(0, 0), (10, 0.02)])], x_label="seconds", y_label="reward")
        >>> chart.count("<polyline"), chart.count(">grpo<")
        (1, 1)
    """
    xs = [x for curve in shown for x, _ in curve.points]
    ys = [y for curve in shown for _, y in curve.points]
    right, most = max([*xs, 1e-9]), max([*ys, 1e-9])
    least = min([*ys, 0.0])
    floor = height - _BOTTOM

    def across(x: float) -> float:
        return _LEFT + x / right * (width - _LEFT - _BESIDE)

    def up(y: float) -> float:
        return floor - (y - least) / (most - least) * (floor - _TOP - 10)

    parts = []
    for tick in ticks(least, most, 5):
        parts.append(line("base" if tick == 0 else "grid", _LEFT, up(tick), width - _BESIDE, up(tick)))
        parts.append(text(_LEFT - 5, up(tick) + 4, f"{tick:g}", "end"))
    parts.extend(text(across(tick), floor + 15, number(tick), "middle") for tick in ticks(0, right, width // 90))
    parts.append(text((_LEFT + width - _BESIDE) / 2, floor + 31, x_label, "middle", "axis"))
    parts.append(text(_LEFT, _TOP - 2, y_label, "start", "axis"))
    places = _apart([up(curve.points[-1][1]) for curve in shown], floor)
    colour = 0
    for curve, place in zip(shown, places, strict=True):
        kind = "control" if curve.dashed else f"c{colour % _COLOURS}"
        colour += not curve.dashed
        corners = " ".join(f"{across(x):.1f},{up(y):.1f}" for x, y in curve.points)
        end, level = across(curve.points[-1][0]), up(curve.points[-1][1])
        tip = f"{curve.name}: {curve.points[-1][1]:.3g} at {curve.points[-1][0]:.3g}"
        parts.append(f'<polyline class="curve {kind}" points="{corners}"><title>{escape(tip)}</title></polyline>')
        parts.append(f'<circle class="dot {kind}" cx="{end:.1f}" cy="{level:.1f}" r="2.6"/>')
        parts.append(line(f"lead {kind}", end, level, width - _BESIDE + 4, place))
        parts.append(text(width - _BESIDE + 7, place + 4, curve.name))
    ends = ", ".join(f"{curve.name} {curve.points[-1][1]:.3g}" for curve in shown)
    return svg(height, f"{y_label} over {x_label}; at the end {ends}.", parts, width=width)


def _apart(wanted: Sequence[float], floor: float) -> list[float]:
    """Return vertical places near the wanted ones, `_APART` from each other where there is room for all."""
    step = min(_APART, (floor - _TOP) / max(1, len(wanted) - 1)) if len(wanted) > 1 else 0.0
    order = sorted(range(len(wanted)), key=lambda index: wanted[index])
    places = [0.0] * len(wanted)
    last = -float("inf")
    for index in order:  # from the top down
        last = places[index] = max(wanted[index], last + step)
    bound = floor
    for index in reversed(order):  # back up, where the lowest ones fell below the axis
        places[index] = min(places[index], bound)
        bound = places[index] - step
    return places
