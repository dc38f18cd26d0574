"""Format 'demo': the light half. It imports no torch, so that listings and help stay quick."""

from __future__ import annotations

from motionkit.formats import Format, Peek, Reader, Writer

COLUMNS = 66
"""Places of 22 joints in a row."""


def is_ours(peek: Peek) -> bool:
    """Whether the first line of a CSV file has the columns of this format; other files are left to others."""
    return peek.line is not None and peek.line.count(",") == COLUMNS - 1


FORMAT = Format(
    "demo",
    "What format 'demo' is, in a few words",
    (".demo.csv", ".csv"),  # the first is written, so that another package may write .csv
    Reader("motionkit_format_demo.files:read", options=("fps",), claims="motionkit_format_demo:is_ours"),
    Writer("motionkit_format_demo.files:write", rotations=False, fps=20.0, rig=False),
)
