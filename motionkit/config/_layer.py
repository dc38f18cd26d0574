"""A layer: the values that one source of settings gives, in nested tables."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from motionkit.config._slots import slots_of
from motionkit.config._tree import at_or_above, put
from motionkit.errors import MotionkitError

_PARTS = 20
"""Most parts of a dotted key."""


@dataclass(frozen=True, eq=False)  # two layers may be of one file
class Layer:
    """Values from one source."""

    name: str  # Name of the source in origins
    # Nested tables, keys as in the model. The value of a slot is the choice, a table of options, or a table of both,
    # with the choice under the key ``""``.
    table: Mapping[str, Any]
    # Whether it is a settings file or a run's. There a plugin's table also chooses the plugin, while flags and
    # variables only set its options; and no code runs because a file names it.
    from_file: bool = False
    # For a layer that repeats input from elsewhere: Python files and options that run code and were typed there
    # (``env.id=my_tasks:Push-v0``).
    code: frozenset[str] | None = None
    # Turns the path of a value into its origin; the layer's name by default.
    origin: Callable[[tuple[str, ...]], str] | None = None
    by_flag: bool = False  # Whether flags gave the values; an error about one names its flag
    # Of a preset, whose values replace defaults, so that user input wins: how to turn it off, and its dotted keys.
    off: str = ""
    keys: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()  # Oddities that are not errors
    notes: tuple[str, ...] = ()  # Notes for the user on how it was read

    @classmethod
    def of(cls, name: str, values: Mapping[str, Any], **facts: Any) -> Layer:
        """Return a layer of values by dotted key.

        Example:
            >>> Layer.of("preset gpu", {"optim.learning_rate": 0.1}, off="--preset cpu keeps the small sizes").table
            {'optim': {'learning_rate': 0.1}}
        """
        table: dict[str, Any] = {}
        for key, value in values.items():
            put(table, key.split("."), value)
        return cls(name, table, keys=tuple(values), **facts)

    @property
    def typed(self) -> bool:
        """Whether the user typed it: on the command line, or in a variable."""
        return not self.from_file and self.code is None

    def origin_of(self, path: tuple[str, ...]) -> str:
        """Return the origin of the value at `path`."""
        return self.name if self.origin is None else self.origin(path)


@dataclass
class Foreign:
    """Another tool's settings, renamed to those here: what `Settings.translate` returns, and a `Layer` is made of.

    Values are validated later, as those of any file.
    """

    path: Path  # The file
    values: dict[str, Any] = field(default_factory=dict)  # By dotted key here
    sources: dict[str, str] = field(default_factory=dict)  # By dotted key here, the key in the file
    notes: list[str] = field(default_factory=list)  # Notes for the user, a paragraph each
    typed: Collection[str] = ()  # Keys of the other tool that were typed, in place of those of the file

    def put(self, key: str, value: Any, source: str) -> None:
        """Set a value; `source` is its key in the file, or what it was derived from."""
        self.values[key] = value
        self.sources[key] = source

    def layer(self, *, from_file: bool = True) -> Layer:
        """Return the values as a layer, with the key in the file as part of each origin.

        Args:
            from_file: Whether the values come from a file, not from the command line.
        """
        return Layer.of(str(self.path), self.values, from_file=from_file, origin=self._origin, notes=tuple(self.notes))

    def _origin(self, path: tuple[str, ...]) -> str:
        source = at_or_above(self.sources, ".".join(path))  # a table of the file is the source of all values in it
        if source is None:
            return str(self.path)
        return f"{'command line' if source in self.typed else self.path}: {source}"


def flag_layer(model: type[BaseModel], flags: Mapping[tuple[str, ...], Any]) -> Layer:
    """Return the layer of flags, by the paths of their keys; one that is None or an empty list was not given."""
    given = {path: value for path, value in flags.items() if value not in (None, [], ())}
    return Layer("command line", nested(model, given), by_flag=True)


def nested(model: type[BaseModel], values: Mapping[tuple[str, ...], Any]) -> dict[str, Any]:
    """Return the nested table of a `Layer` from values by path; the value at a slot's path is the choice."""
    slots = slots_of(model)
    tables: dict[str, Any] = {}
    for path, value in values.items():
        if len(path) > _PARTS:
            raise MotionkitError(
                f"the key {'.'.join(path)[:40]}... has {len(path)} parts.",
                why=f"keys have at most {_PARTS}, such as optim.learning_rate.",
                fix="check what comes before = in --set, or the name of the variable.",
            )
        put(tables, (*path, "") if len(path) == 1 and path[0] in slots else path, value)
    return tables


def dotted_keys(table: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Yield the dotted keys of nested tables, those of the tables themselves too."""
    for name, value in table.items():
        yield f"{prefix}{name}"
        if isinstance(value, Mapping):
            yield from dotted_keys(value, f"{prefix}{name}.")
