"""JSON as people write it: with ``//`` and ``/* */`` comments and with trailing commas."""

from __future__ import annotations

import json
import re
from pathlib import Path

from motionkit.errors import MotionkitError

_LIMIT = 64 << 20
"""Bytes of a file unless the caller says otherwise."""

# A string, even an unterminated one, is one piece, so that nothing inside it is taken for a comment; the possessive
# repeats keep the search linear in the length of the text whatever it holds.
_PIECE = re.compile(r'"(?:\\.|[^"\\])*+"?|//[^\r\n]*|/\*.*?(?:\*/|\Z)', re.DOTALL)
_COMMA = re.compile(r'"(?:\\.|[^"\\])*+"?|,(?=\s*+[}\]])', re.DOTALL)
_VISIBLE = re.compile(r"[^\s]")


def read_jsonc(path: str | Path, *, limit: int = _LIMIT) -> object:
    """Read a JSON file that may have comments and trailing commas.

    Plain JSON is read as it is; only where that fails are comments looked for.

    Args:
        path: The file, UTF-8 (a byte order mark is fine).
        limit: Bytes beyond which a file is not opened.

    Returns:
        What the document holds; NaN and infinities are read as Python's own parser does.

    Raises:
        MotionkitError: The file is missing, too large, no text, or malformed (the message has line and column).
    """
    path = Path(path)
    try:
        size = path.stat().st_size
        if size > limit:
            raise MotionkitError(
                f"{path} has {size / 1e6:.0f} MB; at most {limit / 1e6:.0f} MB of JSON are read.",
                why="parsed, it would take many times that in memory.",
            )
        text = path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError as error:
        raise MotionkitError(f"{path} does not exist.", fix="check the path.") from error
    except IsADirectoryError as error:
        raise MotionkitError(f"{path} is a folder, a JSON file was expected.") from error
    except UnicodeDecodeError as error:
        raise MotionkitError(f"{path} is not a text file (UTF-8).", why=f"byte {error.start} is none.") from error
    except OSError as error:
        raise MotionkitError(f"{path} cannot be read.", why=error.strerror or str(error)) from error
    return parse_jsonc(text, str(path))


def parse_jsonc(text: str, origin: str) -> object:
    """Parse JSON that may have comments and trailing commas.

    Args:
        text: The document.
        origin: Where it comes from, for messages.

    Raises:
        MotionkitError: Malformed, with line and column of the original text, or nested too deep.
    """
    if not text.strip():
        raise MotionkitError(f"{origin} is empty.", why="a JSON document was expected.")
    try:
        return _parse(text)
    except json.JSONDecodeError:
        pass
    except (ValueError, RecursionError) as error:
        raise _refused(origin, error) from error
    try:
        return _parse(plain_json(text))
    except json.JSONDecodeError as error:
        raise _malformed(text, origin, error) from error
    except (ValueError, RecursionError) as error:
        raise _refused(origin, error) from error


def plain_json(text: str) -> str:
    """Return a document with blanks instead of comments and trailing commas; everything else stays in its place."""
    plain = _PIECE.sub(_blank, text)
    return _COMMA.sub(lambda found: " " if found[0] == "," else found[0], plain)


def _parse(text: str) -> object:
    document: object = json.loads(text)
    return document


def _blank(found: re.Match[str]) -> str:
    """Replace a comment by as many blanks, so that places in the text stay what they were."""
    return found[0] if found[0].startswith('"') else _VISIBLE.sub(" ", found[0])


def _malformed(text: str, origin: str, error: json.JSONDecodeError) -> MotionkitError:
    where = f"{origin} is not valid JSON: {error.msg}, line {error.lineno}, column {error.colno}."
    near = text[error.pos : error.pos + 3]
    if near == "...":
        return MotionkitError(where, why="``...`` stands for values that were left out; it is an example, not a file.")
    comment = text.rfind("/*", 0, error.pos)
    if comment >= 0 and "*/" not in text[comment:]:
        line = text.count("\n", 0, comment) + 1
        return MotionkitError(where, why=f"the comment that starts in line {line} has no end.")
    if error.pos >= len(text.rstrip()):
        return MotionkitError(where, why="the text ends there: the file is cut short.")
    return MotionkitError(where)


def _refused(origin: str, error: Exception) -> MotionkitError:
    if isinstance(error, RecursionError):
        return MotionkitError(f"{origin} is nested too deep to be read.", why="no settings or motion file is.")
    return MotionkitError(f"{origin} cannot be read as JSON.", why=str(error))
