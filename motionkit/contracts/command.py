"""What a command of a system is: its settings and a function, which is given the terminal and returns the result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from motionkit.config import Settings


@dataclass(frozen=True)
class Command:
    """A command of a system. The command line makes its options of the settings, and the rest of `run`'s parameters."""

    # Called as ``run(settings, console, **arguments)`` with a `motionkit.contracts.console.Console`. Further parameters
    # are annotated for Typer; the docstring is the help. Returns the document of ``--json``; of it ``text``, ``table``,
    # ``closing`` (lines for people) and ``next`` (commands to type next) are printed instead where people read.
    run: Callable[..., Mapping[str, Any]]
    settings: type[Settings]
    name: str = ""  # Of the command in documents; the function's own by default
    # Refuses what can be seen before any input is opened: ``check(settings, **arguments)``, of a dry run too.
    check: Callable[..., None] | None = None
    # What a dry run adds to the settings, such as data that follow from a run; called as `check`.
    plan: Callable[..., Mapping[str, Any]] | None = None
