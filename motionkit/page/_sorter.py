"""Buttons that sort a list of a page, and rows that sort the columns of their table."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from html import escape
from importlib.resources import files


def sorter(orders: Mapping[str, str], of: str) -> str:
    """Return buttons that sort a list; without a script they are not shown.

    Args:
        orders: Words of each button with the key that it sorts by: rows have it as ``data-KEY``, a number. The first
            is the order of the page.
        of: The ``id`` of the list.

    Example:
        >>> sorter({"in order": "place", "IoU": "iou"}, "rows").count("<button")
        2
    """
    buttons = "".join(
        f'<button data-key="{escape(key)}"{"" if place else " aria-pressed=true data-up=true"}>{escape(words)}</button>'
        for place, (words, key) in enumerate(orders.items())
    )
    return f'<div class="sorter" data-sorts="{escape(of)}" hidden>Sort: {buttons}</div>'


@cache
def sort_script() -> str:
    """Return the script behind every `sorter` of a page; once per page is enough."""
    source = files(__package__).joinpath("sort.js").read_text(encoding="utf-8")
    return f"<script>{source}</script>"


@cache
def columns_script() -> str:
    """Return the script behind every `table` with ``columns`` in its kind; once per page is enough."""
    source = files(__package__).joinpath("columns.js").read_text(encoding="utf-8")
    return f"<script>{source}</script>"
