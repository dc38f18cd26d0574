"""Reads TOML."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

from motionkit.documents._text import DEPTH, check_values, read_text, too_deep
from motionkit.errors import MotionkitError

LIMIT = 1 << 20
"""Bytes of a file; it is parsed by plain Python."""

_STATEMENT = re.compile(r"[=,{}\[\]\n]")
_DOT = re.compile(r"\.[ \t]*[\w\"'-]")


def read_toml(path: str | Path, *, limit: int = LIMIT) -> dict[str, Any]:
    """Read a TOML file.

    Args:
        path: The file, UTF-8.
        limit: Bytes beyond which it is not read.
    """
    return parse_toml(read_text(path, limit=limit), str(path))


def parse_toml(text: str, origin: str) -> dict[str, Any]:
    """Parse TOML."""
    # tomllib needs memory quadratic in the parts of a key: 40 KB of "a.a.a..." take 1.6 GB.
    if any(piece.count(".") > DEPTH and len(_DOT.findall(piece)) > DEPTH for piece in _STATEMENT.split(text)):
        raise MotionkitError(f"{origin} has a key of more than {DEPTH} parts.")
    try:
        document = tomllib.loads(text)
    except RecursionError as error:
        raise too_deep(origin) from error
    except ValueError as error:  # TOMLDecodeError; also raised for huge numbers and impossible dates
        raise MotionkitError(f"{origin} is not valid TOML: {error}") from error
    check_values(document, origin)
    return document
