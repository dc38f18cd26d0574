"""What was typed, for the modules that build and record commands."""

from __future__ import annotations

from contextvars import ContextVar

raw_arguments: ContextVar[tuple[str, ...]] = ContextVar("raw_arguments", default=())
"""Arguments of the command that is being built."""

command_line: ContextVar[tuple[str, ...]] = ContextVar("command_line", default=())
"""Everything after ``motionkit`` as it was typed, for the record."""
