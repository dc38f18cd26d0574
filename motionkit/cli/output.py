"""Output of commands: results on stdout, messages on stderr, pages in the user's browser."""

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
from pathlib import Path
from typing import IO, Annotated, Any

import typer

from motionkit.cli import _streams
from motionkit.errors import MotionkitError

JsonFlag = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.", metavar="")]

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
"""Control characters, which a terminal obeys, and surrogates, which no terminal can show."""

_talk = logging.getLogger("motionkit.cli")
_colour = "auto"


class Talk(logging.Handler):
    """Writes the ``motionkit`` logger to stderr; looks stderr up each time, because tests and progress replace it."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print one record; warnings and errors are marked, in colour on a terminal."""
        # A record has this and `whole` only where the call that logged it gave them.
        if getattr(record, "log_only", False):
            return
        if record.levelno >= logging.ERROR and record.name == "motionkit.runs":
            return  # the error of a run goes into its log.txt; here the command prints it at its end
        mark = f"{record.levelname.lower()}: " if record.levelno >= logging.WARNING else ""
        try:
            text = printable(f"{mark}{record.getMessage()}")
            text = text if getattr(record, "whole", False) else wrapped(text)
            print(marked(text, mark.rstrip()), file=sys.stderr)
        except BrokenPipeError:  # as for results: the reader has closed the pipe
            raise
        except OSError:  # a full disk behind stderr must not stop the work
            _streams.drop(sys.stderr)


def marked(text: str, mark: str, *, red: bool = False) -> str:
    """Return a text for stderr whose first word, `mark`, is yellow or red on a terminal."""
    if not mark or not _coloured(sys.stderr):
        return text
    return f"\x1b[{31 if red else 33}m{mark}\x1b[0m{text.removeprefix(mark)}"


def printable(text: str) -> str:
    """Return a text with control characters escaped: file names may hold commands to the terminal."""
    return _CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def wrapped(text: str, stream: IO[str] | None = None) -> str:
    """Return a text for a stream, stderr by default: on a terminal lines are broken between words and indented.

    A command over several lines with backslashes stays as it is, to be copied.
    """
    if not (stream or sys.stderr).isatty():
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


def is_verbose() -> bool:
    """Whether ``-v`` was given."""
    return _talk.isEnabledFor(logging.DEBUG)


def say(message: str, *, whole: bool = False) -> None:
    """Print a line for the user on stderr; ``-q`` hides it.

    Args:
        message: The line.
        whole: Do not wrap it, so that a command can be copied.
    """
    _talk.info("%s", message, extra={"whole": whole})


def as_next(lines: Sequence[str]) -> list[str]:
    """Return commands to type next for display: ``next: `` before the first, the others below it."""
    return [f"{'next:' if not place else '     '} {line}" for place, line in enumerate(lines)]


def note(message: str) -> None:
    """Write lines only to the run's log.txt; the terminal shows them in another form, such as a bar or a table."""
    for line in message.splitlines():
        _talk.info("%s", printable(line), extra={"log_only": True})


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
    """Return a document as JSON that any stream can encode: surrogates, as in names that are not UTF-8, are escaped."""
    text = _json.dumps(document, indent=2, ensure_ascii=False, default=str)
    return text.encode(errors="backslashreplace").decode()


def finish(document: Mapping[str, Any], error: MotionkitError | None, *, json: bool) -> None:
    """End a command that may have a result and an error: one JSON document, or the error raised.

    Args:
        document: The result, with ``command``.
        error: The error, if any.
        json: Print the document with the status of the command and the error.
    """
    if error is not None and not json:
        raise error
    result = {name: value for name, value in document.items() if name not in ("command", "status")}
    complete = {"command": document["command"], "status": "failed" if error else "done", **result}
    if error is None:
        emit(complete, json=json)
        return
    emit({**complete, "error": error.document()}, json=True)
    raise typer.Exit(error.code)


def console(stream: IO[str], *, file: IO[str] | None = None) -> Any:
    """Return a rich console that respects ``--color``, NO_COLOR and pipes."""
    from rich.console import Console

    force = {"always": True, "never": False}.get(_colour, stream.isatty() or None)
    plain = True if _colour == "never" else None
    # A pipe has no width; folding a table to 80 columns there would only break paths and names.
    width = None if stream.isatty() or "COLUMNS" in os.environ else 240
    return Console(file=file or stream, force_terminal=force, no_color=plain, highlight=False, width=width)


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]], *, numbers: Sequence[int] = ()) -> None:
    """Print a table on stdout; one whose columns have no heads is a list of names and values.

    Args:
        title: Its title; empty for none.
        columns: Heads.
        rows: Cells; the verdicts ``better`` and ``worse`` are coloured on a terminal.
        numbers: Columns that are right-aligned.
    """
    shown = io.StringIO()  # rich would handle errors of the stream itself
    _streams.write(_laid_out(console(_streams.results(), file=shown), shown, title, columns, rows, numbers))


def _laid_out(
    out: Any,
    shown: io.StringIO,
    title: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    numbers: Sequence[int],
) -> str:
    """Return a table as text."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    headed = any(columns)
    style = box.SIMPLE_HEAD if headed else None
    name = Text(printable(title), style="table.title") if title else None  # as Text: brackets are not markup
    grid = Table(title=name, title_justify="left", box=style, pad_edge=False, show_header=headed)
    for place, column in enumerate(columns):
        grid.add_column(column, overflow="fold", justify="right" if place in numbers else "left")
    for row in rows:
        grid.add_row(*(Text(_cell(value), style=_STYLES.get(str(value), "")) for value in row))
    out.print(grid)
    # A table with rules has an empty last line, a list keeps it.
    return shown.getvalue() if not headed else shown.getvalue().removesuffix("\n")


_STYLES = {"better": "green", "worse": "red"}


def tables(items: object, *, logged: bool = False) -> None:
    """Print what a command or trainer returned as ``table``.

    Args:
        items: ``{"title", "columns", "rows"}``, perhaps with ``numbers``, or a list of such.
        logged: Write it to the run's log.txt instead.
    """
    from rich.console import Console

    for item in items if isinstance(items, (list, tuple)) else [items]:
        if not isinstance(item, Mapping):
            continue
        parts = str(item.get("title", "")), list(item["columns"]), list(item["rows"])
        numbers = tuple(item.get("numbers", ()))
        if logged:
            shown = io.StringIO()
            plain = Console(file=shown, width=120, no_color=True, highlight=False)
            note("\n".join(line.rstrip() for line in _laid_out(plain, shown, *parts, numbers).splitlines()))
        else:
            table(*parts, numbers=numbers)


def open_address(address: str) -> bool:
    """Open an address in a browser with windows; one in a terminal would show nothing. Returns whether there is one."""
    import webbrowser

    windows = sys.platform in ("darwin", "win32") or any(os.environ.get(key) for key in ("DISPLAY", "WAYLAND_DISPLAY"))
    return bool(windows or os.environ.get("BROWSER")) and webbrowser.open(address)


def open_page(page: Path) -> None:
    """Open a page in a browser, or say that there is none."""
    if not open_address(page.resolve().as_uri()):
        say("there is no browser here: open the page on a machine that has one.")


def _coloured(stream: IO[str]) -> bool:
    return {"always": True, "never": False}.get(_colour, stream.isatty() and not os.environ.get("NO_COLOR"))


def _cell(value: object) -> str:
    if isinstance(value, float):
        # Four digits, and no exponent up to 1e9: 16440, not 1.644e+04.
        return f"{value:.0f}" if 1e4 <= abs(value) < 1e9 else f"{value:.4g}"
    return "" if value is None else printable(str(value))
