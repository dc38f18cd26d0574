"""Commands of a page, each with a button that copies it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from html import escape
from importlib.resources import files


def commands(lines: Sequence[str]) -> str:
    """Return command lines, one below the other; without a script the buttons are not shown.

    Example:
        >>> commands(["motionkit doctor"]).count("<button")
        1
    """
    rows = "".join(
        f'<div><code>{_words(line)}</code><button class="copy" type="button" hidden>copy</button></div>'
        for line in lines
    )
    return f'<div class="commands">{rows}</div>' if rows else ""


@cache
def copy_script() -> str:
    """Return the script behind every button of `commands`; once per page is enough."""
    source = files(__package__).joinpath("copy.js").read_text(encoding="utf-8")
    return f"<script>{source}</script>"


def _words(line: str) -> str:
    """Return a line whose words break as a whole where the page is narrow."""
    return " ".join(f"<span>{escape(word)}</span>" for word in line.split(" "))
