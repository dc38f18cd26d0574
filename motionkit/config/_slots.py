"""Slots: settings fields that hold a plugin, chosen by name, together with that plugin's own options.

A trainer's settings say ``policy: Chosen = slot("policies", "mdm")`` or
``reward: tuple[Chosen, ...] = slots("rewards", ("tmr-dense",))``. A slot accepts a `Chosen`, a name
(``"tmr-dense"``, ``"physics=0.1"``), or a table as it stands in a file, and writes itself back as such a table:
``{"name": "mdm", "checkpoint": ...}`` for one plugin, ``{"tmr-dense": {"weight": 1.0, ...}, ...}`` for several.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, Field
from pydantic.fields import FieldInfo
from pydantic_core import core_schema

from motionkit import plugins
from motionkit.errors import MotionkitError


@dataclass(frozen=True)
class Chosen:
    """A plugin that was chosen, with its options filled in.

    Attributes:
        kind: Plugin kind, such as ``rewards``.
        name: What it was chosen by: ``NAME``, ``DISTRIBUTION:NAME`` or ``./file.py:attribute``.
        options: Its validated options.
        weight: Weight in a mixture (rewards only).
    """

    kind: str
    name: str
    options: BaseModel
    weight: float = 1.0

    @property
    def label(self) -> str:
        """Short name for logs and dotted keys."""
        return plugins.label(self.name)

    def build(self, **runtime: Any) -> Any:
        """Import the plugin's heavy half and call it with the options and `runtime`."""
        return plugins.get(self.kind, self.name).build(self.options, **runtime)


@dataclass(frozen=True)
class Slot:
    """Marks a field as a slot; pydantic asks it for the field's schema.

    Attributes:
        kind: Plugin kind.
        many: Whether several plugins may be chosen, each with a weight.
        default: Names chosen when nobody says otherwise; empty for a slot that may stay empty (None).
        gives: What the command can use, of the words in the kind's row of `plugins.KINDS`; empty for everything.
        reads: What its plugins may read, likewise.
    """

    kind: str
    many: bool
    default: tuple[str, ...]
    gives: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> core_schema.CoreSchema:
        """Validate with `read` and serialise with `write`, in place of what the annotation would give."""
        return core_schema.no_info_plain_validator_function(
            self.read, serialization=core_schema.plain_serializer_function_ser_schema(self.write)
        )

    def read(self, value: Any) -> Chosen | tuple[Chosen, ...] | None:
        """Turn a name, a table or what is already chosen into one `Chosen`, or a tuple of them.

        Raises:
            MotionkitError: A plugin is unknown, is a Python file, cannot be imported, or is chosen twice.
            ValidationError: One of its options is wrong.
        """
        if not self.many:
            return None if value is None and not self.default else self._read_one(value)
        chosen = tuple(self._read_weighted(item) for item in _items(value))
        names = [item.name for item in chosen]
        if repeated := sorted({name for name in names if names.count(name) > 1}):
            raise MotionkitError(
                f"{self.kind}: {repeated[0]!r} is chosen twice.", fix="choose it once, with one weight."
            )
        if not chosen:
            raise MotionkitError(
                f"no {plugins.KINDS[self.kind].singular} is chosen.", fix=f"for example {self.default[0]}"
            )
        return chosen

    def write(self, value: Chosen | tuple[Chosen, ...] | None) -> dict[str, Any] | None:
        """Return the table that `read` turns back into an equal value; JSON-able."""
        if value is None:
            return None
        if isinstance(value, Chosen):
            return {"name": value.name, **value.options.model_dump(mode="json")}
        return {item.name: {"weight": item.weight, **item.options.model_dump(mode="json")} for item in value}

    def _read_one(self, value: Any) -> Chosen:
        if isinstance(value, Chosen):
            return value
        if isinstance(value, str):
            return self._make(value, {}, 1.0)
        if isinstance(value, Mapping):
            table = dict(value)
            return self._make(str(table.pop("name", next(iter(self.default), ""))), table, 1.0)
        raise ValueError(f"a {self.kind} name or a table with a 'name' is expected, not {value!r}")

    def _read_weighted(self, item: Any) -> Chosen:
        if isinstance(item, Chosen):
            return item
        if isinstance(item, str):
            name, weight = split_weight(item)
            return self._make(name, {}, 1.0 if weight is None else weight)
        name, table = item
        rest = dict(table)
        return self._make(name, rest, number(rest.pop("weight", 1.0)))

    def _make(self, name: str, options: Mapping[str, Any], weight: float) -> Chosen:
        if plugins.is_file(name):  # the value may come from a file
            raise MotionkitError(
                f"{name} is code, and {self.kind} are not taken from code here.",
                why="settings that were read from a file must not run anything.",
                fix=f"pass Chosen({self.kind!r}, {name!r}, plugins.get({self.kind!r}, {name!r}).options(...)).",
            )
        plugins.require_fit(self.kind, name, gives=self.gives, reads=self.reads)
        component = plugins.get(self.kind, name)
        return Chosen(self.kind, name, component.options.model_validate(options), weight)


def slot(kind: str, default: str | None, *, description: str = "", gives: str | tuple[str, ...] = ()) -> Any:
    """Declare a field that holds one plugin of `kind`.

    Args:
        kind: Plugin kind.
        default: Chosen when nobody says otherwise; with None the field may stay empty:
            ``dataset: Chosen | None = slot("datasets", None)``.
        description: For help, where "Which dataset to use." says too little.
        gives: What the command can use, such as ``"diffusion"``; another plugin is refused, and help does not offer it.
    """
    mark = Slot(kind, many=False, default=() if default is None else (default,), gives=_words(gives))
    return _field(mark, default, description)


def slots(kind: str, default: tuple[str, ...], *, reads: str | tuple[str, ...] = ()) -> Any:
    """Declare a field that holds one or several plugins of `kind`, each with a weight, that read one of `reads`."""
    return _field(Slot(kind, many=True, default=default, reads=_words(reads)), default)


def _words(words: str | tuple[str, ...]) -> tuple[str, ...]:
    return (words,) if isinstance(words, str) else words


def slot_of(field: FieldInfo) -> Slot | None:
    """Return the slot a field was declared with, or None for an ordinary field."""
    return next((mark for mark in field.metadata if isinstance(mark, Slot)), None)


def split_weight(text: str) -> tuple[str, float | None]:
    """Split ``NAME[=WEIGHT]``.

    Raises:
        MotionkitError: The weight is not a finite number.
    """
    name, separator, weight = text.strip().partition("=")
    if not name:
        raise MotionkitError(f"{text!r} has no plugin name.", fix="write NAME or NAME=WEIGHT.")
    return name, number(weight) if separator else None


def number(value: Any) -> float:
    """Read a weight.

    Raises:
        MotionkitError: It is not a finite number.
    """
    try:
        weight = float(value)
    except (TypeError, ValueError):
        weight = float("nan")
    if weight != weight or abs(weight) == float("inf"):
        raise MotionkitError(f"weight {value!r} is not a finite number.", fix="write NAME=WEIGHT, such as physics=0.1.")
    return weight


def _items(value: Any) -> Iterable[Any]:
    if isinstance(value, str):
        return [part for part in value.split(",") if part.strip()]
    if isinstance(value, Mapping):
        return list(value.items())
    if isinstance(value, Iterable):
        return list(value)
    return [value]


def _field(mark: Slot, default: Any, description: str = "") -> Any:
    field = Field(default, description=description or None)
    if not isinstance(field, FieldInfo):  # `Field` is typed Any
        raise TypeError("pydantic.Field no longer returns a FieldInfo")
    field.metadata.append(mark)
    return field
