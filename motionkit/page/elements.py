"""Pieces of HTML: figures in a grid, tables that a telephone can show."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


def figure(chart: str, caption: str) -> str:
    """Return a chart with words below it."""
    return f"<figure>{chart}<figcaption>{escape(caption)}</figcaption></figure>"


def grid(figures: Sequence[str]) -> str:
    """Return figures or tables side by side, three in a row or two where that leaves none alone."""
    columns = len(figures) if len(figures) < 4 else 2 if len(figures) == 4 else 3
    return f'<div class="grid g{columns}">{"".join(figures)}</div>'


def table(
    columns: Sequence[str], rows: Iterable[Sequence[object]], *, numbers: Sequence[int] = (), kind: str = "cards"
) -> str:
    """Return a table.

    On a telephone a table of the kind ``cards`` becomes a list: the first cell is the head of an entry and each other
    one stands under the name of its column. In the kind ``reasons`` the first two cells share a line and the third, a
    sentence, has the whole width below them.

    Args:
        columns: Heads.
        rows: Cells.
        numbers: Columns of numbers, set to the right.
        kind: ``cards``, ``reasons``, or ``plain`` for a table that is narrow enough to stay one.
    """

    def cell(tag: str, place: int, value: object) -> str:
        words = escape(str(value))
        classes = ["n"] if place in numbers else []
        label = ""
        if tag == "th":
            words = words.replace("_", "_<wbr>")  # long names of settings may take two lines
        else:
            classes += {"error": ["bad"], "warning": ["warn"]}.get(str(value), [])
            label = f' data-label="{escape(columns[place])}"' if place else ""
        mark = f' class="{" ".join(classes)}"' if classes else ""
        return f"<{tag}{mark}{label}>{words}</{tag}>"

    head = "".join(cell("th", place, name) for place, name in enumerate(columns))
    body = "".join(f"<tr>{''.join(cell('td', place, v) for place, v in enumerate(row))}</tr>" for row in rows)
    return f'<div class="card"><table class="{kind}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def note(words: str) -> str:
    """Return a remark in small type; nothing for no words."""
    return f'<p class="cap">{escape(words)}</p>' if words else ""


def details(head: str, inside: str, *, opened: bool = False) -> str:
    """Return what is a click away."""
    return f"<details{' open' if opened else ''}><summary>{escape(head)}</summary>{inside}</details>"
