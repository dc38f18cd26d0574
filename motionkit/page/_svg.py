"""Elements of all charts: text, bars, lines, round values for axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

WIDTH = 300


def ticks(start: float, stop: float, about: int, *, whole: bool = False) -> list[float]:
    """Return round values between two ends, about as many as asked for; whole numbers only where asked for."""
    raw = (stop - start) / max(about, 1)
    power = 10.0 ** math.floor(math.log10(raw)) if raw > 0 else 1.0
    factors = (1, 2, 5, 10) if whole else (1, 2, 2.5, 5, 10)
    step = next(factor * power for factor in factors if factor * power >= raw * (1 - 1e-9))
    step = max(step, 1.0) if whole else step
    first = math.ceil(start / step - 1e-9)
    return [round(place * step, 10) for place in range(first, math.floor(stop / step + 1e-9) + 1)]


def number(value: float) -> str:
    """Return a value of an axis, thousands and millions short."""
    if value >= 1e6:
        return f"{value / 1e6:g}M"
    return f"{value / 1e3:g}k" if value >= 1e4 else f"{value:g}"


def cut(name: str, most: int) -> str:
    """Return a name that fits beside a bar."""
    return name if len(name) <= most else f"{name[: most - 1]}…"


def bar(x: float, y: float, width: float, height: float, tip: str) -> str:
    """Return a rectangle with a tooltip; half a unit is kept free on both sides."""
    return (
        f'<rect class="bar" x="{x + 0.5:.1f}" y="{y:.1f}" width="{max(width - 1, 0.5):.1f}" '
        f'height="{max(height, 0.5):.1f}"><title>{escape(tip)}</title></rect>'
    )


def line(kind: str, x1: float, y1: float, x2: float, y2: float) -> str:
    """Return a line of a style."""
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def text(x: float, y: float, words: str, anchor: str = "start", kind: str = "") -> str:
    """Return text at a place; `anchor` is the part of it at (x, y): ``start``, ``middle`` or ``end``."""
    mark = f' class="{kind}"' if kind else ""
    return f'<text{mark} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'


def svg(height: float, description: str, parts: Sequence[str], *, width: float = WIDTH) -> str:
    """Return a whole chart.

    Args:
        height: Its height.
        description: What it shows, in words, for screen readers.
        parts: Its elements.
        width: Its width.
    """
    return (
        f'<svg viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{escape(description)}">{"".join(parts)}</svg>'
    )
