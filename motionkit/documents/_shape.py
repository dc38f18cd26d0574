"""Checks a parsed document: plain values, text keys, numbers of at most 64 bits, at most 100 levels."""

from __future__ import annotations

from datetime import date, time
from typing import TypeVar

from motionkit.errors import MotionkitError

T = TypeVar("T")

DEPTH = 100
"""Levels of tables and lists; recursive Python code fails at about 300."""

_LARGEST = 2**64
_WORDS = {dict: "a table (key: value)", list: "a list", str: "text", bool: "true or false", int: "a number"}
_WORDS |= {float: "a number", type(None): "nothing"}


def require_kind(document: object, kind: type[T], origin: str) -> T:
    """Return `document` if it is of the type `kind`.

    Raises:
        MotionkitError: It is another type; both are named.
    """
    if isinstance(document, kind):
        return document
    found = _WORDS.get(type(document), type(document).__name__)
    raise MotionkitError(f"{origin} does not hold {_WORDS.get(kind, kind.__name__)} at its top, but {found}.")


def check_values(document: object, origin: str, *, surrogates: bool = False) -> None:
    """Check every value and key.

    Args:
        document: What a parser returned.
        origin: Where it comes from, for messages.
        surrogates: Whether text may hold lone surrogates, which stand for file names that are no UTF-8.

    Raises:
        MotionkitError: A key is not text, a number has more than 64 bits, a text cannot be encoded as UTF-8, a value
            has another type, or there are more than `DEPTH` levels.
    """
    level: list[object] = [document]
    for _ in range(DEPTH):
        below: list[object] = []
        for value in level:
            if isinstance(value, dict):
                for key in value:
                    _check_key(key, origin, surrogates)
                below += value.values()
            elif isinstance(value, list):
                below += value
            else:
                _check_leaf(value, origin, surrogates)
        if not below:
            return
        level = below
    raise too_deep(origin)


def too_deep(origin: str) -> MotionkitError:
    """Return the error for a document that is nested too deep."""
    return MotionkitError(f"{origin} is nested too deep to be read.", why=f"at most {DEPTH} levels are.")


def _check_key(key: object, origin: str, surrogates: bool) -> None:
    if not isinstance(key, str):
        raise MotionkitError(
            f"{origin} has a key that is no text: {str(key)[:40]}.",
            why="YAML reads numbers, dates, and words like on, yes, off and no, as values.",
            fix='put the key in quotes, as in "on": 1.',
        )
    _check_leaf(key, origin, surrogates)


def _check_leaf(value: object, origin: str, surrogates: bool) -> None:
    if isinstance(value, str):
        if not surrogates and not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError as error:
                raise MotionkitError(
                    f"{origin} holds text that is no Unicode: {value[error.start]!a}.",
                    why="half of a surrogate pair stands alone.",
                ) from error
    elif isinstance(value, int):
        if not -_LARGEST < value < _LARGEST:
            raise MotionkitError(f"{origin} holds a whole number of more than 64 bits.")
    elif not isinstance(value, (float, date, time, type(None))):
        raise MotionkitError(f"{origin} holds a value of type {type(value).__name__}, which no document here has.")
