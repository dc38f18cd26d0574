"""What a command prints: results on stdout, talk on stderr."""

from __future__ import annotations

import json as _json
import logging
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

import typer

JsonFlag = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.", metavar="")]

_talk = logging.getLogger("motionkit.cli")
_colour = "auto"


class Talk(logging.Handler):
    """Writes the ``motionkit`` logger to stderr; looks stderr up each time, because tests and progress replace it."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print one record; warnings and errors say so."""
        if record.levelno >= logging.ERROR and record.name == "motionkit.runs":
            return  # why a run failed goes into its log.txt; here it is the command's own last word
        mark = f"{record.levelname.lower()}: " if record.levelno >= logging.WARNING else ""
        print(f"{mark}{record.getMessage()}", file=sys.stderr)


def set_up(*, level: int, colour: str) -> None:
    """Send the ``motionkit`` logger to stderr from `level` up, and decide on colour (auto, always, never)."""
    global _colour
    _colour = colour
    logger = logging.getLogger("motionkit")
    for handler in [handler for handler in logger.handlers if isinstance(handler, Talk)]:
        logger.removeHandler(handler)
    handler = Talk(level)
    logger.addHandler(handler)
    logger.setLevel(min(level, logging.INFO))
    logger.propagate = False


def say(message: str) -> None:
    """Tell the user something on stderr; ``-q`` hides it."""
    _talk.info(message)


def warn(message: str) -> None:
    """Warn the user on stderr."""
    _talk.warning(message)


def emit(document: Mapping[str, Any], *, json: bool) -> None:
    """Print the result as one JSON document on stdout, when `json` is asked for."""
    if json:
        print(_json.dumps({"schema": 1, **document}, indent=2, ensure_ascii=False, default=str))


def console(*, stderr: bool = False) -> Any:
    """Return a rich console for stdout or stderr that obeys ``--color``, NO_COLOR and pipes."""
    from rich.console import Console

    force = {"always": True, "never": False}.get(_colour)
    plain = True if _colour == "never" else None
    stream = sys.stderr if stderr else sys.stdout
    # A pipe has no width; folding a table to 80 columns there would only break paths and names.
    width = None if stream.isatty() or "COLUMNS" in os.environ else 240
    return Console(stderr=stderr, force_terminal=force, no_color=plain, highlight=False, width=width)


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table on stdout; one whose columns have no heads is a list of names and values."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    out = console()
    headed = any(columns)
    style = box.SIMPLE_HEAD if headed else None
    grid = Table(title=title or None, title_justify="left", box=style, pad_edge=False, show_header=headed)
    for column in columns:
        grid.add_column(column, overflow="fold")
    for row in rows:
        grid.add_row(*(Text(_cell(value)) for value in row))
    out.print(grid)
    if not headed:
        out.print()  # what a box of rules leaves free below itself


def tables(found: object) -> None:
    """Print what a command or trainer returned as ``table``: ``{"title", "columns", "rows"}``, or a list of such."""
    for item in found if isinstance(found, (list, tuple)) else [found]:
        if isinstance(item, Mapping):
            table(str(item.get("title", "")), list(item["columns"]), list(item["rows"]))


def _cell(value: object) -> str:
    if isinstance(value, float):
        # Four digits, and no exponent where a number of so many can be read: 16440, not 1.644e+04.
        return f"{value:.0f}" if 1e4 <= abs(value) < 1e9 else f"{value:.4g}"
    return "" if value is None else str(value)
