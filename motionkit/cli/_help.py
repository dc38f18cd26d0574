"""Help for narrow terminals: names of options are never cut.

Typer gives a negative name (``--no-lora``) a column of its own and lets all columns shrink alike, so that at 80
characters long names end in an ellipsis and cannot be typed. Here both names share a column of fixed width, one below
the other, and the other columns are wrapped.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from functools import partial
from types import ModuleType
from typing import Any

from motionkit.cli.table import example as example_of

_WIDEST = 0.42
"""Largest part of the line for names; longer ones are wrapped."""

_TYPES = {
    "<bool>": "", "<str>": "TEXT", "<text>": "TEXT", "<path>": "PATH", "<int>": "INT", "<float>": "FLOAT",
    "<list[str]>": "TEXT", "<list[path]>": "PATH",
}  # fmt: skip
"""Types as named by typer, and as named for settings."""

_COLUMNS = 6
"""Cells of a row of typer: name, short name, negative name and its short one, type, help; before them a star."""


def import_rich_utils() -> Any:
    """Import typer's help without ``rich.markdown``.

    It takes a third of the time of ``--help``, and typer uses it only in a markup mode that motionkit does not use.
    """
    name = "rich.markdown"
    if name in sys.modules or "typer.rich_utils" in sys.modules:
        return importlib.import_module("typer.rich_utils")
    stand_in = ModuleType(name)
    setattr(stand_in, "Markdown", object)  # noqa: B010  # a module has no declared attributes
    sys.modules[name] = stand_in
    try:
        return importlib.import_module("typer.rich_utils")
    finally:
        del sys.modules[name]


def show_whole_names() -> None:
    """Make the tables of help never cut names; with a typer of other internals, help stays as it is."""
    rich_utils = import_rich_utils()
    table = getattr(rich_utils, "Table", None)
    if table is None or getattr(table, "names_whole", False):
        return

    class Table(table):  # type: ignore[misc, valid-type]
        names_whole = True

        def add_row(self, *cells: Any, **more: Any) -> None:
            """Add a row; names of an option are joined in one cell."""
            if len(cells) >= _COLUMNS:
                star, (name, short, negative, short_negative, kind, words) = cells[:-_COLUMNS], cells[-_COLUMNS:]
                names = [part for part in (name, negative) if str(part)]
                joined = type(name)("\n").join(names) if names else name
                shorts = [part for part in (short, short_negative) if str(part)]
                plain = _TYPES.get(str(kind).strip(), str(kind).strip())
                if plain != str(kind):  # an argument's name may be its type
                    kind = type(kind)("" if plain in (str(name), str(short)) else plain)
                cells = (*star, joined, type(short)("\n").join(shorts) if shorts else short, kind, words)
            super().add_row(*cells, **more)
            for column in self.columns:
                column.overflow = "fold"

        def __rich_console__(self, console: Any, options: Any) -> Any:
            """Give each column of names the width of its longest name, up to a part of the line."""
            limit = int(options.max_width * _WIDEST)
            for column in self.columns[:-2]:
                longest = max((len(line) for cell in column.cells for line in str(cell).splitlines()), default=0)
                column.width = min(longest, limit)
            return super().__rich_console__(console, options)

    # setattr: typer does not offer the name to others
    setattr(rich_utils, "Table", Table)  # noqa: B010


def put_example(command: Any, path: str, *, settings: bool) -> None:
    """Put an example below the help of a command, and where its other settings are.

    Lines of a paragraph are joined, since typer joins only those of the first one and would break a terminal's lines
    twice: where they are full, and where those of the source end.

    Args:
        command: The command; an ``Example:`` at the end of its help is moved down.
        path: Its name, such as ``pretrain mdm``.
        settings: Whether it has settings without flags.
    """
    text, _, from_help = inspect.cleandoc(command.help or "").partition("\n\nExample: ")
    command.help = "\n\n".join(" ".join(paragraph.split("\n")) for paragraph in text.split("\n\n"))
    example = from_help.strip() or example_of(path) or (f"motionkit {path} --dry-run" if settings else "")
    lines = [f"Example: {example}"] if example else []
    if settings:
        lines.append(f"All settings: motionkit config show {path}")
    command.epilog = "\n\n".join(lines)


def _usage(argument: Any, ctx: Any) -> list[str]:
    """Return an argument for the usage line: ``OUT``, ``[TEXT...]``; Typer would write ``{IN... OUT}...``."""
    name = argument.metavar or argument.name.upper()
    many = "..." if argument.nargs != 1 and "..." not in name else ""
    return [f"{name}{many}" if argument.required else f"[{name}{many}]"]


def one_style(parameter: Any, *, panel: str | None) -> None:
    """Show an option or argument in the style of settings: its default in round brackets, in their panel.

    Args:
        parameter: Typer's parameter.
        panel: Panel of an option that names none.
    """
    if parameter.param_type_name == "option" and parameter.rich_help_panel is None:
        parameter.rich_help_panel = panel
    if parameter.param_type_name == "argument":
        parameter.get_usage_pieces = partial(_usage, parameter)
    default = parameter.default
    if parameter.show_default and default not in (None, "", False) and not callable(default):
        parameter.help = f"{parameter.help or ''} (default: {default})".strip()
    parameter.show_default = False
