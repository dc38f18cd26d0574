"""Elements of a page: tiles, figures in a grid, tables that a telephone can show."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape

_CLASSES = {"error": ["bad"], "warning": ["warn"], "better": ["good"], "worse": ["bad"]}
"""Cells that say how bad or good something is."""


def figure(chart: str, caption: str, *, title: str = "") -> str:
    """Return a chart with a caption below it and perhaps a title above it."""
    head = f"<h3>{escape(title)}</h3>" if title else ""
    return f"<figure>{head}{chart}<figcaption>{escape(caption)}</figcaption></figure>"


def grid(figures: Sequence[str]) -> str:
    """Return figures or tables side by side, three in a row; two if four would leave one alone."""
    columns = len(figures) if len(figures) < 4 else 2 if len(figures) == 4 else 3
    return f'<div class="grid g{columns}">{"".join(figures)}</div>'


def table(
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    numbers: Sequence[int] = (),
    kind: str = "cards",
    tones: Sequence[str] = (),
) -> str:
    """Return a table.

    On a telephone a table of the kind ``cards`` becomes a list: the first cell is the head of an entry and each other
    one stands under the name of its column. In the kind ``reasons`` the first two cells share a line and the third, a
    sentence, has the whole width below them.

    Args:
        columns: Heads.
        rows: Cells.
        numbers: Columns of numbers, set to the right.
        kind: ``cards``, ``reasons``, ``plain`` for a table that is narrow enough to stay one, or ``plain result``;
            with ``interval`` after it a telephone leaves out the last column of numbers, with ``real`` the fifth one.
            With ``columns`` after it, and `columns_script` on the page, a row's name puts the columns in its order.
        tones: Class of each row's last cell (``good``, ``bad``), where the word in it does not say it; empty for none.

    Example:
        >>> "<td>walk</td>" in table(("clip", "frames"), [("walk", 60)], numbers=(1,))
        True
    """

    def cell(tag: str, place: int, value: object, tone: str = "") -> str:
        words = escape(str(value))
        classes = ["n"] if place in numbers else []
        label = ""
        if tag == "th":
            words = words.replace("_", "_<wbr>")  # long names of settings may take two lines
        else:
            classes += [tone] if tone else _CLASSES.get(str(value), [])
            label = f' data-label="{escape(columns[place])}"' if place else ""
        mark = f' class="{" ".join(classes)}"' if classes else ""
        return f"<{tag}{mark}{label}>{words}</{tag}>"

    head = "".join(cell("th", place, name) for place, name in enumerate(columns))
    body = ""
    for number, row in enumerate(rows):
        last = {len(row) - 1: tones[number]} if tones else {}
        body += f"<tr>{''.join(cell('td', place, v, last.get(place, '')) for place, v in enumerate(row))}</tr>"
    return f'<div class="card"><table class="{kind}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def note(words: str) -> str:
    """Return a note in small type; empty for an empty text."""
    return f'<p class="cap">{escape(words)}</p>' if words else ""


def details(head: str, inside: str, *, opened: bool = False) -> str:
    """Return content that is shown after a click on `head`."""
    return f"<details{' open' if opened else ''}><summary>{escape(head)}</summary>{inside}</details>"


def tiles(values: Iterable[tuple[str, str]]) -> str:
    """Return figures in large type, each with its name; units, and what stands in brackets, are smaller."""
    cells = "".join(f"<div><dt>{escape(name)}</dt><dd>{_large(value)}</dd></div>" for name, value in values)
    return f'<dl class="tiles">{cells}</dl>'


def definitions(texts: Mapping[str, str]) -> str:
    """Return a list of names with what they mean."""
    rows = "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in texts.items())
    return f'<dl class="defs">{rows}</dl>'


def _large(value: str) -> str:
    head, space, rest = value.partition(" ")
    small = space and not rest.startswith("/") and head[:1].isdigit()
    return f"{escape(head)} <small>{escape(rest)}</small>" if small else escape(value)
