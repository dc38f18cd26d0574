"""Walk a settings model: its leaves, their defaults in context, and values as text (`from_text`, `as_text`)."""

from __future__ import annotations

import json
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from motionkit.config._slots import Cli
from motionkit.documents import parse_json
from motionkit.errors import MotionkitError

V = TypeVar("V")

MISSING = PydanticUndefined
"""The default of a required setting."""

_NONSENSE = 4096
"""Upper limits from which help does not show them."""


@dataclass(frozen=True)
class Leaf:
    """One setting."""

    path: tuple[str, ...]  # Its key, part by part
    field: FieldInfo  # Its declaration
    default: Any  # Its default at this place in the model; `MISSING` if it is required
    group: type[BaseModel]  # The group it belongs to

    @property
    def key(self) -> str:
        """Dotted key, as in files and ``--set``."""
        return ".".join(self.path)

    @property
    def cli(self) -> Cli | None:
        """Its flag, if it has one."""
        return next((mark for mark in self.field.metadata if isinstance(mark, Cli)), None)

    @property
    def flag(self) -> str:
        """Its flag, or the dotted one it would have."""
        return (self.cli.flag if self.cli is not None else "") or dotted(self.path)

    @property
    def help(self) -> str:
        """Its description."""
        return self.field.description or ""

    @property
    def is_switch(self) -> bool:
        """Whether it is on or off."""
        return {kind for kind in _members(self.field.annotation) if kind is not type(None)} == {bool}

    @property
    def is_many(self) -> bool:
        """Whether it holds any number of values, so that its flag can be repeated."""
        return is_many(self.field.annotation)

    @property
    def choices(self) -> tuple[str, ...]:
        """The words it accepts, if it accepts only certain words."""
        return choices(self.field.annotation)

    @property
    def type_name(self) -> str:
        """Short name of its type, for help."""
        return type_name(self.field.annotation)

    @property
    def limits(self) -> str:
        """Limits of a number, for help: ``>= 2``. Upper ones of `_NONSENSE` and above are left out."""
        signs = {"ge": ">=", "gt": ">", "le": "<=", "lt": "<"}
        # Each mark of annotated_types has its own limit alone.
        bounds = [(sign, getattr(mark, name, None)) for mark in self.field.metadata for name, sign in signs.items()]
        return ", ".join(f"{sign} {bound}" for sign, bound in bounds if bound is not None and bound < _NONSENSE)

    @property
    def default_text(self) -> str:
        """Its default for help and tables; empty if there is nothing to show."""
        value = self.default
        if value is MISSING:
            return "required"
        if value is None or value == () or value == "":
            return ""
        if isinstance(value, bool):
            return "on" if value else "off"
        return ",".join(str(item) for item in value) if isinstance(value, (tuple, list)) else str(value)


def dotted(path: Iterable[str]) -> str:
    """Return the flag of a key: ``--reward.lambda-skate``."""
    return "--" + ".".join(path).replace("_", "-")


def group_of(field: FieldInfo) -> type[BaseModel] | None:
    """Return the group a field holds, or None if it is a leaf."""
    kind = field.annotation
    return kind if isinstance(kind, type) and issubclass(kind, BaseModel) else None


def field_default(name: str, field: FieldInfo, parent: BaseModel | None) -> Any:
    """Return the default of a field: the parent's default instance wins over the class."""
    if parent is not None:
        return getattr(parent, name)
    return field.get_default(call_default_factory=True, validated_data={})  # `MISSING` if there is none


def leaves(model: type[BaseModel], parent: BaseModel | None = None, path: tuple[str, ...] = ()) -> Iterator[Leaf]:
    """Yield every leaf of `model` in the order of declaration.

    Args:
        model: Settings model.
        parent: Default instance of `model` at its place in an outer model, which wins over the class's defaults.
        path: Key of `model` in the outer model.
    """
    for name, field in model.model_fields.items():
        default = field_default(name, field, parent)
        if (group := group_of(field)) is not None:
            yield from leaves(group, default if isinstance(default, BaseModel) else None, (*path, name))
        else:
            yield Leaf((*path, name), field, default, model)


def default_table(model: type[BaseModel], parent: BaseModel | None = None) -> dict[str, Any]:
    """Return the defaults of `model` as nested tables; required fields are left out."""
    table: dict[str, Any] = {}
    for name, field in model.model_fields.items():
        default = field_default(name, field, parent)
        if (group := group_of(field)) is not None:
            table[name] = default_table(group, default if isinstance(default, BaseModel) else None)
        elif default is not MISSING:
            table[name] = default
    return table


def flat(
    model: type[BaseModel], table: Mapping[str, Any], path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], FieldInfo | None, Any]]:
    """Yield path, declaration and value of each setting in nested tables; an unknown key has no declaration."""
    for name, value in table.items():
        here, declared = (*path, str(name)), model.model_fields.get(str(name))
        group = None if declared is None else group_of(declared)
        if group is not None and isinstance(value, BaseModel) and not isinstance(value, group):
            value = dict(value)  # a group of the settings, which the plugin's extends
        if group is not None and isinstance(value, Mapping):
            yield from flat(group, value, here)
        else:
            yield here, declared, value


def put(tables: dict[str, Any], path: Sequence[str], value: Any) -> None:
    """Set a value in nested tables; tables on the way are made."""
    for part in path[:-1]:
        if not isinstance(tables.get(part), dict):
            tables[part] = {}
        tables = tables[part]
    tables[path[-1]] = value


def at_or_above(table: Mapping[str, V], key: str) -> V | None:
    """Return the value at a dotted key, or at the nearest key above it that there is."""
    parts = key.split(".")
    above = (".".join(parts[:end]) for end in range(len(parts), 0, -1))
    return next((table[key] for key in above if key in table), None)


def from_text(annotation: Any, value: Any) -> Any:
    """Prepare a value that may be text (a flag, a variable, ``--set``) for pydantic, which parses scalars itself.

    Lists are JSON or comma-separated, tables are JSON, and ``none`` means None if None is allowed. The items of a
    repeated flag may be comma-separated too, unless they are words or paths, which may contain commas.
    """
    if isinstance(value, list) and is_many(annotation) and not _wordy(annotation):
        return [part for item in value for part in _split(item)]
    if not isinstance(value, str):
        return value
    text = value.strip()
    members = _members(annotation)
    if type(None) in members and text.lower() in ("none", "null"):
        return None
    containers = [kind for kind in members if (get_origin(kind) or kind) in (tuple, list, set, frozenset, dict)]
    if not containers or str in members:
        return value
    if text[:1] in "[{" and text:
        try:
            return parse_json(text, "the value", object)
        except MotionkitError:
            return value
    if all((get_origin(kind) or kind) is dict for kind in containers):
        return value
    return [part for part in _split(text) if part]


def _split(item: Any) -> list[Any]:
    """Split text at commas; anything else is one part."""
    return [part.strip() for part in item.split(",")] if isinstance(item, str) else [item]


def as_text(value: Any) -> str:
    """Return a value as it is written after a flag or in ``--set``."""
    if value is None or isinstance(value, bool):
        return {None: "none", True: "true", False: "false"}[value]
    if isinstance(value, (list, tuple)):
        return ",".join(map(as_text, value))
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return json.dumps(value, ensure_ascii=False) if isinstance(value, Mapping) else str(value)


def split_commas(value: object) -> object:
    """Accept ``"a,b"`` and ``["a,b", "c"]`` as well as ``("a", "b", "c")``; drop repeats, keep the order."""
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, Iterable):
        return value
    parts: list[object] = []
    for item in value:
        parts += [part.strip() for part in item.split(",") if part.strip()] if isinstance(item, str) else [item]
    return tuple(part for index, part in enumerate(parts) if part not in parts[:index])


def choices(annotation: Any) -> tuple[str, ...]:
    """Return the words a field accepts, if it accepts only certain words."""
    words: list[str] = []
    for kind in _members(annotation):
        if get_origin(kind) is Literal:
            words += [str(word) for word in get_args(kind)]
        elif (get_origin(kind) or kind) in (tuple, list) and get_args(kind):
            return choices(get_args(kind)[0])
        elif kind is not type(None):
            return ()
    return tuple(words)


def type_name(annotation: Any) -> str:
    """Return a short name of a field's type for help: ``INT``, ``FLOAT,FLOAT``, ``PATH``, ``a|b``.

    ``FLOAT,...`` is any number of them, separated by commas. Words and paths have no ``,...``: their flag is repeated.
    """
    words = choices(annotation)
    if words:
        return "|".join(words)
    names = []
    for kind in _members(annotation):
        origin, arguments = get_origin(kind), get_args(kind)
        if kind is type(None):
            continue
        if origin in (tuple, list, set, frozenset):
            inner = [item for item in arguments if item is not Ellipsis]
            more = ",..." if Ellipsis in arguments and not _wordy(kind) else ""
            names.append(",".join(type_name(item) for item in inner) + more)
        elif origin is Literal:
            names.append("|".join(str(word) for word in arguments))
        elif origin is Annotated:  # limits of an item
            names.append(type_name(arguments[0]))
        else:
            plain = {"str": "TEXT", "dict": "JSON"}
            # Special forms of typing have no name.
            name = getattr(origin or kind, "__name__", "VALUE")
            names.append(plain.get(name, name.upper()))
    return "|".join(names) or "VALUE"


def is_many(annotation: Any) -> bool:
    """Whether a field holds any number of values, so that its flag can be repeated."""
    return any(
        get_origin(kind) in (list, set, frozenset) or (get_origin(kind) is tuple and Ellipsis in get_args(kind))
        for kind in _members(annotation)
    )


def _wordy(annotation: Any) -> bool:
    """Whether a field holds any number of words or paths, which may contain commas."""
    items = {item for kind in _members(annotation) for item in get_args(kind)}
    return bool(items & {str, Path}) or bool(choices(annotation))


def _members(annotation: Any) -> tuple[Any, ...]:
    if get_origin(annotation) in (Union, types.UnionType):
        return get_args(annotation)
    return (annotation,)
