"""Values in nested tables and lists by dotted keys."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

from motionkit.errors import MotionkitError
from motionkit.errors._near import did_you_mean


def flat(table: object, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every value below tables and lists of tables with its key; other lists are values."""
    items: Iterator[tuple[object, Any]]
    if isinstance(table, Mapping) and table:
        items = iter(table.items())
    elif isinstance(table, (list, tuple)) and table and all(isinstance(part, Mapping) for part in table):
        items = enumerate(table)
    else:
        yield prefix, table
        return
    for name, value in items:
        yield from flat(value, f"{prefix}.{name}" if prefix else str(name))


def value_at(table: object, key: str) -> Any:
    """Return the value at a key.

    Raises:
        KeyError: There is none.
    """
    for part in key.split("."):
        try:
            table = table[int(part)] if isinstance(table, (list, tuple)) else table[part]  # type: ignore[index]
        except (TypeError, ValueError, IndexError, KeyError):
            raise KeyError(key) from None
    return table


def with_values(table: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of nested tables with values set; a missing table on the way is made.

    Raises:
        KeyError: A key leads into a value, or beyond the end of a list.
    """
    changed = copy.deepcopy(dict(table))
    for key, value in values.items():
        *groups, last = key.split(".")
        into: Any = changed
        for part in groups:
            if isinstance(into, dict):
                into = into.setdefault(part, {})
            else:
                into = value_at(into, part)
        if isinstance(into, dict):
            into[last] = value
        elif isinstance(into, list) and last.isdecimal() and int(last) < len(into):
            into[int(last)] = value
        else:
            raise KeyError(key)
    return changed


def require_known(keys: Mapping[str, Any], table: Mapping[str, Any], trainer: str) -> None:
    """Refuse keys that are no setting of a trainer.

    Raises:
        MotionkitError: One is not (named, with the nearest).
    """
    known = [key for key, _ in flat(table)]
    for key in keys:
        try:
            value_at(table, key)
        except KeyError:
            raise MotionkitError(
                f"{key} is no setting of {trainer}.",
                fix=did_you_mean(key, known) or f"motionkit config show {trainer} lists them.",
            ) from None
