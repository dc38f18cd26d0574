"""What a command prints: results on stdout, talk on stderr."""

from __future__ import annotations

import io
import json as _json
import logging
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import IO, Annotated, Any

import typer

from motionkit.cli import _streams
from motionkit.errors import MotionkitError

JsonFlag = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.", metavar="")]

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
"""What a terminal obeys instead of showing it, and halves of characters, which no terminal takes."""

_talk = logging.getLogger("motionkit.cli")
_colour = "auto"


class Talk(logging.Handler):
    """Writes the ``motionkit`` logger to stderr; looks stderr up each time, because tests and progress replace it."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print one record; warnings and errors say so."""
        if record.levelno >= logging.ERROR and record.name == "motionkit.runs":
            return  # why a run failed goes into its log.txt; here it is the command's own last word
        mark = f"{record.levelname.lower()}: " if record.levelno >= logging.WARNING else ""
        try:
            print(wrapped(printable(f"{mark}{record.getMessage()}")), file=sys.stderr)
        except BrokenPipeError:  # as for results: the reader has closed the pipe
            raise
        except OSError:  # a full disk behind stderr is no reason to stop working
            _streams.drop(sys.stderr)


def printable(text: str) -> str:
    """Return a text with control characters spelled out: names of files may hold commands to the terminal."""
    return _CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def wrapped(text: str) -> str:
    """Return a text for stderr: on a terminal its lines are broken between words, and go on indented.

    A command that a backslash spreads over several lines stays as it is, to be copied.
    """
    if not sys.stderr.isatty():
        return text
    width = max(20, shutil.get_terminal_size().columns - 1)
    lines: list[str] = []
    for line in text.split("\n"):
        if line.endswith(" \\") or (lines and lines[-1].endswith(" \\")):
            lines.append(line)
            continue
        hanging = " " * (len(line) - len(line.lstrip(" ")) + 2)
        kept = textwrap.wrap(
            line, width, subsequent_indent=hanging, break_long_words=False, break_on_hyphens=False, tabsize=4
        )
        lines.append("\n".join(kept))
    return "\n".join(lines)


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
    """Print a line for the user on stderr; ``-q`` hides it."""
    _talk.info(message)


def warn(message: str) -> None:
    """Warn the user on stderr."""
    _talk.warning(message)


def write(text: str) -> None:
    """Print lines of the result on stdout; raises as `motionkit.cli._streams.write`."""
    _streams.write(printable(text))


def emit(document: Mapping[str, Any], *, json: bool) -> None:
    """Print the result as one JSON document on stdout, when `json` is asked for."""
    if json:
        _streams.write(as_json({"schema": 1, **document}))


def as_json(document: Mapping[str, Any]) -> str:
    """Return a document as JSON that any stream takes: half a character, as in names that are not UTF-8, is escaped."""
    text = _json.dumps(document, indent=2, ensure_ascii=False, default=str)
    return text.encode(errors="backslashreplace").decode()


def finish(document: Mapping[str, Any], error: MotionkitError | None, *, json: bool) -> None:
    """End a command that has a result even where something went wrong: one JSON document, or the error for people.

    Args:
        document: The result, with ``command``.
        error: What went wrong.
        json: Whether the document is asked for; it then has the status of the command, and the error.

    Raises:
        MotionkitError: `error`, for the root to print.
        typer.Exit: With its exit code, when the document holds it: there is one document per command.
    """
    if error is not None and not json:
        raise error
    rest = {name: value for name, value in document.items() if name not in ("command", "status")}
    whole = {"command": document["command"], "status": "failed" if error else "done", **rest}
    if error is None:
        emit(whole, json=json)
        return
    emit({**whole, "error": error.document()}, json=True)
    raise typer.Exit(error.code)


def console(stream: IO[str], *, file: IO[str] | None = None) -> Any:
    """Return a rich console that obeys ``--color``, NO_COLOR and pipes.

    Args:
        stream: Stdout or stderr.
        file: Where the text goes instead, for now.
    """
    from rich.console import Console

    force = {"always": True, "never": False}.get(_colour, stream.isatty() or None)
    plain = True if _colour == "never" else None
    # A pipe has no width; folding a table to 80 columns there would only break paths and names.
    width = None if stream.isatty() or "COLUMNS" in os.environ else 240
    return Console(file=file or stream, force_terminal=force, no_color=plain, highlight=False, width=width)


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table on stdout; one whose columns have no heads is a list of names and values."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    shown = io.StringIO()  # rich handles a failing stream in its own way
    out = console(_streams.results(), file=shown)
    headed = any(columns)
    style = box.SIMPLE_HEAD if headed else None
    name = Text(printable(title), style="table.title") if title else None  # as Text: brackets in a path are no markup
    grid = Table(title=name, title_justify="left", box=style, pad_edge=False, show_header=headed)
    for column in columns:
        grid.add_column(column, overflow="fold")
    for row in rows:
        grid.add_row(*(Text(_cell(value)) for value in row))
    out.print(grid)
    # Below a list goes the line that a box of rules leaves free below itself.
    _streams.write(shown.getvalue() if not headed else shown.getvalue().removesuffix("\n"))


def tables(found: object) -> None:
    """Print what a command or trainer returned as ``table``: ``{"title", "columns", "rows"}``, or a list of such."""
    for item in found if isinstance(found, (list, tuple)) else [found]:
        if isinstance(item, Mapping):
            table(str(item.get("title", "")), list(item["columns"]), list(item["rows"]))


def _cell(value: object) -> str:
    if isinstance(value, float):
        # Four digits, and no exponent where a number of so many can be read: 16440, not 1.644e+04.
        return f"{value:.0f}" if 1e4 <= abs(value) < 1e9 else f"{value:.4g}"
    return "" if value is None else printable(str(value))
