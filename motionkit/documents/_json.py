"""Reads JSON, also with ``//`` and ``/* */`` comments and trailing commas."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from motionkit.documents._text import LIMIT, check_values, read_text, require_kind, too_deep
from motionkit.errors import MotionkitError

if TYPE_CHECKING:
    from pydantic import BaseModel


T = TypeVar("T")

_MANY = 5_000_000
"""Tables and lists in one document; an empty one, two letters long, takes 64 bytes of memory."""

_LINE = 1 << 20

# A string, even an unterminated one, is matched as a whole, so that "//" inside it is no comment; the possessive
# repeats keep the search linear in the length of any text.
_PIECE = re.compile(r'"(?:\\.|[^"\\])*+"?|//[^\r\n]*|/\*.*?(?:\*/|\Z)', re.DOTALL)
_COMMA = re.compile(r'"(?:\\.|[^"\\])*+"?|,(?=\s*+[}\]])', re.DOTALL)
_VISIBLE = re.compile(r"[^\s]")


def read_json(
    path: str | Path,
    kind: type[T],
    *,
    limit: int = LIMIT,
    surrogates: bool = False,
    bulk: bool = False,
    fix: str = "",
) -> T:
    """Read a JSON file that may have comments and trailing commas.

    Args:
        path: The file, UTF-8 (a byte order mark is fine).
        kind: Type that the document must have: ``dict``, ``list``, or ``object`` for any.
        limit: Bytes beyond which a file is not read.
        surrogates: See `parse_json`.
        bulk: See `parse_json`.
        fix: What to do about a file that cannot be read, for the error.

    Example:
        >>> Path("run.json").write_text('{"steps": 3}')
        12
        >>> read_json(Path("run.json"), dict)
        {'steps': 3}
    """
    try:
        return parse_json(read_text(path, limit=limit), str(path), kind, surrogates=surrogates, bulk=bulk)
    except MotionkitError as error:
        error.fix = error.fix or fix
        raise


def parse_json(text: str, origin: str, kind: type[T], *, surrogates: bool = False, bulk: bool = False) -> T:
    """Parse JSON that may have comments and trailing commas.

    Comments are removed only when the text is not plain JSON.

    Args:
        text: The document.
        origin: Where it comes from, for messages.
        kind: Type that the document must have: ``dict``, ``list``, or ``object`` for any.
        surrogates: Whether text may hold lone surrogates, which stand for file names that are no UTF-8.
        bulk: For files of millions of numbers, whose caller checks every value: depth, sizes of whole numbers and texts
            are not checked here.

    Returns:
        What the document holds; NaN and infinities are read as Python's own parser does.
    """
    if not text.strip():
        raise MotionkitError(f"{origin} is empty.", why="a JSON document was expected.")
    if text.count("{") + text.count("[") > _MANY:
        raise MotionkitError(f"{origin} has more than {_MANY} tables and lists.")
    try:
        document = _parse(text, origin)
    except json.JSONDecodeError:
        try:
            document = _parse(plain_json(text), origin)
        except json.JSONDecodeError as error:
            raise _malformed(text, origin, error) from error
    if not bulk:
        check_values(document, origin, surrogates=surrogates)
    return require_kind(document, kind, origin)


def read_jsonl(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects of a file with one per line; none when the file is missing.

    Lines that are damaged or longer than a megabyte are skipped, also an incomplete last line of a killed process.
    """
    if not path.is_file():
        return
    with path.open(encoding="utf-8", errors="replace") as file:
        while text := file.readline(_LINE):
            try:
                line: dict[str, Any] = parse_json(text, str(path), dict)
            except MotionkitError:
                continue
            if text.endswith("\n"):
                yield line


def plain_json(text: str) -> str:
    """Return a document with comments and trailing commas replaced by blanks; positions do not change."""
    plain = _PIECE.sub(_blank, text)
    return _COMMA.sub(lambda found: " " if found[0] == "," else found[0], plain)


def _parse(text: str, origin: str) -> object:
    try:
        document: object = json.loads(text)
    except json.JSONDecodeError:
        raise
    except RecursionError as error:
        raise too_deep(origin) from error
    except ValueError as error:  # raised for a number of thousands of digits
        raise MotionkitError(f"{origin} cannot be read as JSON.", why=str(error)) from error
    return document


def _blank(found: re.Match[str]) -> str:
    """Replace a comment by as many blanks, so that line and column of errors stay right."""
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


# A JSON document of a known kind, as a pydantic model.


Model = TypeVar("Model", bound="BaseModel")


def read_model(path: Path, model: type[Model], kind: str, otherwise: str) -> Model:
    """Read a document whose ``kind`` says what it describes.

    Args:
        path: The file.
        model: What it must fit.
        kind: The ``kind`` that it must have.
        otherwise: What to say behind the kind that it has instead, such as ``" policy, not mpl"``.
    """
    from pydantic import ValidationError

    content = read_json(path, dict, fix="copy the folder again.")
    if content.get("kind") != kind:
        raise MotionkitError(f"{path} describes a {str(content.get('kind'))[:40]!r}{otherwise}.")
    try:
        return model.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise MotionkitError(f"{path} is damaged.", why=f"{place or 'it'}: {first['msg']}.") from error
