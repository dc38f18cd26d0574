"""Charts as inline SVG: no library, no script, readable in light and dark and by a screen reader."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape

WIDTH, HEIGHT = 460, 220
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 12, 12, 40


def histogram(
    start: float, width: float, counts: Sequence[int], *, label: str, unit: str, of: str, marks: dict[str, float]
) -> str:
    """Draw a histogram.

    Args:
        start: Lower end of the first bin.
        width: Width of a bin.
        counts: Values per bin.
        label: What the horizontal axis is.
        unit: Its unit.
        of: What is counted (``clips``, ``frames``).
        marks: Values to mark with a line, by name.
    """
    most = 1.12 * max([*counts, 1])
    stop = start + width * len(counts)
    span = stop - start

    def x(value: float) -> float:
        return _LEFT + (value - start) / span * (WIDTH - _LEFT - _RIGHT)

    def y(value: float) -> float:
        return HEIGHT - _BOTTOM - value / most * (HEIGHT - _TOP - _BOTTOM)

    parts = [_y_axis(most, y, of)]
    for place, number in enumerate(counts):
        if number:
            low = start + place * width
            tip = f"{low:.3g} to {low + width:.3g} {unit}: {number} {of}"
            parts.append(_bar(x(low), y(number), x(low + width) - x(low), HEIGHT - _BOTTOM - y(number), tip))
    for tick in ticks(start, stop, 6):
        parts.append(_text(x(tick), HEIGHT - _BOTTOM + 16, f"{tick:g}", "middle"))
    parts.append(_text((WIDTH + _LEFT) / 2, HEIGHT - 6, f"{label} ({unit})", "middle", "axis"))
    places = [x(min(max(value, start), stop)) for value in marks.values()]
    for row, at in enumerate(places):
        parts.append(f'<line class="mark m{row}" x1="{at:.1f}" x2="{at:.1f}" y1="{_TOP}" y2="{HEIGHT - _BOTTOM}"/>')
    for row, ((name, value), at) in enumerate(zip(marks.items(), places, strict=True)):
        anchor = "start" if at < WIDTH * 0.7 else "end"
        words = f"{name} {value:.3g}"
        parts.append(_text(at + (4 if anchor == "start" else -4), _TOP + 10 + 13 * row, words, anchor, "note"))
    said = ", ".join(f"{name} {value:.3g} {unit}" for name, value in marks.items())
    return _svg(WIDTH, HEIGHT, f"Histogram of {label} over {sum(counts)} {of}. {said}.", parts)


def rose(counts: Sequence[int], *, label: str, of: str) -> str:
    """Draw directions as sectors whose area is their share; the first count is straight ahead, then to the left.

    Args:
        counts: Values per direction, evenly round the circle.
        label: What the directions are.
        of: What is counted.
    """
    size, centre, radius = 250, 125.0, 92.0
    total, most = max(sum(counts), 1), max([*counts, 1])
    parts = []
    for part in (0.25, 1.0):
        share = 100 * part * most / total
        ring = radius * math.sqrt(part)
        parts.append(f'<circle class="grid" cx="{centre}" cy="{centre}" r="{ring:.1f}"/>')
        parts.append(_text(centre + 0.71 * ring + 3, centre + 0.71 * ring + 11, f"{share:.2g} %", "start", "small"))
    step = 2 * math.pi / max(len(counts), 1)
    for place, number in enumerate(counts):
        if number:
            reach = radius * math.sqrt(number / most)
            edges = [
                (centre - reach * math.sin(angle), centre - reach * math.cos(angle))
                for angle in ((place - 0.46) * step, (place + 0.46) * step)
            ]
            path = (
                f"M{centre} {centre}L{edges[0][0]:.1f} {edges[0][1]:.1f}"
                f"A{reach:.1f} {reach:.1f} 0 0 0 {edges[1][0]:.1f} {edges[1][1]:.1f}Z"
            )
            degrees = math.degrees(math.remainder(place * step, 2 * math.pi))
            side = "ahead" if abs(degrees) < 1 else f"{abs(degrees):.0f}° {'left' if degrees > 0 else 'right'}"
            parts.append(
                f'<path class="bar" d="{path}"><title>{side}: {100 * number / total:.1f} % of {of}</title></path>'
            )
    for words, at_x, at_y, anchor in (
        ("ahead", centre, 22, "middle"),
        ("back", centre, 236, "middle"),
        ("left", 24, centre + 4, "end"),
        ("right", 226, centre + 4, "start"),
    ):
        parts.append(_text(at_x, at_y, words, anchor, "axis"))
    ahead = 100 * counts[0] / total if counts else 0.0
    return _svg(size, size, f"{label}, share of {of} by direction; straight ahead {ahead:.0f} %.", parts, left=-20)


def bars(rows: Sequence[tuple[str, float]], *, label: str, unit: str = "") -> str:
    """Draw one horizontal bar per row with its name before and its value after it."""
    height, name_width, width = 20, 96, WIDTH
    most = max([value for _, value in rows] or [1]) or 1
    parts = []
    for place, (name, value) in enumerate(rows):
        top = 4 + place * height
        length = value / most * (width - name_width - 60)
        parts.append(_text(name_width - 6, top + 13, _cut(name, 15), "end"))
        parts.append(_bar(name_width, top + 2, max(length, 0.5), height - 5, f"{name}: {value:g}{unit}"))
        parts.append(_text(name_width + length + 5, top + 13, f"{value:g}{unit}", "start", "small"))
    said = ", ".join(f"{name} {value:g}{unit}" for name, value in rows[:5])
    return _svg(width, 8 + height * len(rows), f"{label}: {said}{', ...' if len(rows) > 5 else ''}.", parts)


def shares(rows: Sequence[tuple[str, float]], *, label: str) -> str:
    """Draw parts of a whole as one bar in pieces, with a legend."""
    width = 280
    total = sum(value for _, value in rows) or 1.0
    parts, at = [], 0.0
    for place, (name, value) in enumerate(rows):
        length = value / total * width
        tip = f"{name}: {100 * value / total:.1f} %"
        parts.append(
            f'<rect class="share s{place % 5}" x="{at:.1f}" y="2" width="{max(length - 1, 0):.1f}" height="30">'
            f"<title>{escape(tip)}</title></rect>"
        )
        parts.append(f'<rect class="share s{place % 5}" x="0" y="{49 + 22 * place}" width="12" height="12"/>')
        parts.append(_text(20, 59 + 22 * place, tip, "start"))
        at += length
    said = ", ".join(f"{name} {100 * value / total:.0f} %" for name, value in rows)
    return _svg(width, 48 + 22 * len(rows), f"{label}: {said}.", parts)


def spans(rows: Sequence[tuple[str, Sequence[float]]], *, label: str, unit: str, low: float | None = None) -> str:
    """Draw for each row a bar from its first to its last value with a tick at the middle one.

    Args:
        rows: Name and (low, middle, high).
        label: What the values are.
        unit: Their unit.
        low: Left end of the axis; None takes the smallest value.
    """
    height, name_width, top = 17, 118, 6
    start = min([values[0] for _, values in rows] + ([] if low is None else [low]))
    stop = max([values[-1] for _, values in rows] + [start + 1e-6])
    grid = ticks(start, stop, 6)
    bottom = top + height * len(rows)

    def x(value: float) -> float:
        return name_width + (value - start) / (stop - start) * (WIDTH - name_width - _RIGHT)

    parts = [f'<line class="grid" x1="{x(t):.1f}" x2="{x(t):.1f}" y1="{top}" y2="{bottom}"/>' for t in grid]
    for place, (name, values) in enumerate(rows):
        at = top + place * height
        tip = f"{name}: {values[0]:g} to {values[-1]:g} {unit}, median {values[1]:g}"
        parts.append(_text(name_width - 6, at + 12, _cut(name, 18), "end"))
        parts.append(_bar(x(values[0]), at + 4, max(x(values[-1]) - x(values[0]), 1.5), height - 8, tip))
        parts.append(
            f'<line class="tick" x1="{x(values[1]):.1f}" x2="{x(values[1]):.1f}" y1="{at + 2}" y2="{at + height - 2}"/>'
        )
    parts.extend(_text(x(tick), bottom + 14, f"{tick:g}", "middle") for tick in grid)
    parts.append(_text((WIDTH + name_width) / 2, bottom + 30, f"{label} ({unit})", "middle", "axis"))
    return _svg(WIDTH, bottom + 36, f"{label} of {len(rows)} joints: bars from the 5 % to the 95 % quantile.", parts)


def ticks(start: float, stop: float, about: int) -> list[float]:
    """Return round values between two ends, about as many as asked for."""
    raw = (stop - start) / max(about, 1)
    power = 10.0 ** math.floor(math.log10(raw)) if raw > 0 else 1.0
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= raw * (1 - 1e-9))
    first = math.ceil(start / step - 1e-9)
    return [round(place * step, 10) for place in range(first, math.floor(stop / step + 1e-9) + 1)]


def _y_axis(most: float, y: Callable[[float], float], of: str) -> str:
    parts = []
    for tick in ticks(0, most, 4):
        if tick == int(tick):
            parts.append(
                f'<line class="grid" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y(tick):.1f}" y2="{y(tick):.1f}"/>'
                + _text(_LEFT - 6, y(tick) + 4, _short(tick), "end")
            )
    middle = (HEIGHT - _BOTTOM) / 2
    parts.append(
        f'<text class="axis" transform="translate(11 {middle}) rotate(-90)" text-anchor="middle">{escape(of)}</text>'
    )
    return "".join(parts)


def _short(value: float) -> str:
    if value >= 1e6:
        return f"{value / 1e6:g}M"
    return f"{value / 1e3:g}k" if value >= 1e4 else f"{value:g}"


def _cut(name: str, most: int) -> str:
    return name if len(name) <= most else f"{name[: most - 1]}…"


def _bar(x: float, y: float, width: float, height: float, tip: str) -> str:
    return (
        f'<rect class="bar" x="{x + 0.5:.1f}" y="{y:.1f}" width="{max(width - 1, 0.5):.1f}" '
        f'height="{max(height, 0.5):.1f}"><title>{escape(tip)}</title></rect>'
    )


def _text(x: float, y: float, words: str, anchor: str, kind: str = "") -> str:
    mark = f' class="{kind}"' if kind else ""
    return f'<text{mark} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'


def _svg(width: float, height: float, said: str, parts: Sequence[str], left: float = 0) -> str:
    box = f"{left:g} 0 {width - 2 * left:g} {height:g}"
    return (
        f'<svg viewBox="{box}" style="max-width:{width - 2 * left:g}px" role="img" aria-label="{escape(said)}">'
        f"{''.join(parts)}</svg>"
    )
