"""How settings are declared: groups (`Group`), flags (`Cli`), files (`Place`), and slots (`slot`, `slots`).

A slot is a field of a settings model that holds plugins, chosen by name, each with its own options.

A trainer's settings declare ``policy: Chosen = slot("policies", "mdm")`` or
``reward: tuple[Chosen, ...] = slots("rewards", ("tmr-dense",))``. In files and in ``config.json`` a slot is a table:
``{"name": "mdm", "checkpoint": ...}`` for one plugin, ``{"tmr-dense": {"weight": 1.0, ...}, ...}`` for several.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, field_validator
from pydantic.fields import FieldInfo

from motionkit import plugins

_HUB_NAME = r"[A-Za-z0-9][\w.-]{0,95}"

HUB_ID = re.compile(rf"{_HUB_NAME}/{_HUB_NAME}(?<!\.pt)")
"""An id of the Hugging Face hub, ORG/NAME; a name that ends in ``.pt`` is a file."""

OLD_HUB_ID = re.compile(rf"{_HUB_NAME}(?<!\.pt)")
"""An id without an owner, as the hub's oldest models have (``bert-base-uncased``)."""


class Group(BaseModel):
    """A named set of settings: unknown keys are errors, numbers are finite, defaults are validated too."""

    model_config = ConfigDict(extra="forbid", validate_default=True, frozen=True, allow_inf_nan=False, defer_build=True)

    def idle(self) -> Mapping[str, str]:
        """Return the options that have no effect, given the others, each with the reason.

        Such an option is refused if it differs from its default, and noted if it was typed with the default. Settings
        may name options of their groups and plugins as well, by dotted key: ``reward.success-classifier.mode``.
        """
        return {}

    def code(self) -> Mapping[str, str]:
        """Return the options whose values start a program or import a module, each with the reason.

        They are accepted only if typed: on the command line or in a ``MOTIONKIT_*`` variable, never from a file. It is
        asked of the settings of every command and plugin, and of the groups in them.
        """
        return {}

    @field_validator("*")
    @classmethod
    def _not_huge(cls, value: Any) -> Any:
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise ValueError("must be a whole number of at most 64 bits")
        return value


@dataclass(frozen=True)
class Cli:
    """Makes a settings field a command-line flag.

    A field of a trainer's settings without this mark is reached by `--set key=value` or a file only. Every field
    of a plugin's options is a flag already (`--reward.alpha`), unless it is marked `hidden`.
    """

    flag: str = ""  # The flag, such as ``--batch-size``; empty for the dotted default
    panel: str = ""  # Help panel; empty for the group's own
    hidden: bool = False  # Keep the field out of the flags (plugin options only)
    values: int = 1  # Words that the flag takes; several for a tuple of that length


@dataclass(frozen=True)
class Place:
    """Marks a setting that names a file or folder, or several, to read."""

    words: tuple[str, ...] = ()  # Values that are not paths, such as ``starter``
    hub: bool = False  # Whether it may be an id of the Hugging Face hub, ORG/NAME
    name: bool = False  # Whether it may be a plain name, as of a text model


Decide = Callable[[str, Set[str], Mapping[str, Sequence[str]]], tuple[str, str]]
"""``decide(name, keys, chosen) -> (name, note)``; see `slot`."""


@dataclass(frozen=True)
class Chosen:
    """A plugin that was chosen, with its options filled in."""

    kind: str  # Plugin kind, such as ``rewards``
    name: str  # As given: ``NAME``, ``DISTRIBUTION:NAME`` or ``./file.py:attribute``
    options: BaseModel  # Its validated options
    weight: float = 1.0  # Weight in a mixture (rewards only)

    @property
    def label(self) -> str:
        """Short name for logs and dotted keys."""
        return plugins.label(self.name)

    @property
    def component(self) -> plugins.Component:
        """Light half of the plugin; it may be a Python file, since untyped ones never become a `Chosen`."""
        return plugins.get(self.kind, self.name, typed=True)

    def get(self, key: str, default: Any) -> Any:
        """Return the option of a dotted key; `default` for a plugin that has none of that name."""
        value: Any = self.options
        for part in key.split("."):
            # Options are models of many plugins: which have a key is not known here.
            value = getattr(value, part, None)
        return default if value is None else value

    def build(self, **runtime: Any) -> Any:
        """Import the plugin's heavy half and call it with the options and `runtime`."""
        return plugins.build(self.kind, self.component, self.options, **runtime)


@dataclass(frozen=True)
class Slot:
    """Marks a field as a slot, for several weighted plugins if `many`; `slot` explains the other attributes."""

    kind: str
    many: bool
    default: tuple[str, ...]
    gives: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    spread: bool = False
    decide: Decide | None = None

    def split(self, raw: Any) -> tuple[list[Any] | None, dict[str, Any]]:
        """Split a layer's value for the slot into the choice (None if it makes none) and the options."""
        table = dict(raw) if isinstance(raw, Mapping) else {"": raw}
        choice = table.pop("", None)
        if not self.many:
            named = table.pop("name", None)
            return [choice or named] if choice or named else None, table
        if isinstance(choice, str):
            return [part.strip() for part in choice.split(",") if part.strip()], table
        return choice if choice is None else list(choice) if isinstance(choice, (list, tuple)) else [choice], table

    def write(self, value: Chosen | tuple[Chosen, ...] | None) -> Any:
        """Return `value` in the JSON-able form of files."""
        if isinstance(value, tuple):
            return {item.name: {"weight": item.weight, **item.options.model_dump(mode="json")} for item in value}
        if value is None or self.spread:
            return value and value.name
        return {"name": value.name, **value.options.model_dump(mode="json")}


def slot(
    kind: str,
    default: str | None,
    *,
    description: str = "",
    gives: str | tuple[str, ...] = (),
    spread: bool = False,
    decide: Decide | None = None,
) -> Any:
    """Declare a field that holds one plugin of `kind`.

    Args:
        kind: Plugin kind.
        default: Name of the default plugin; if None the field may stay empty:
            ``dataset: Chosen | None = slot("datasets", None)``.
        description: Help text, if "Which dataset to use." is not enough.
        gives: What a plugin must give, such as ``"diffusion"``; others are refused and not offered in help.
        spread: The options have no prefix. Each of them is a group that replaces the settings' group of the same name,
            which it extends: an algorithm's ``objective`` is reached as ``objective.clip_range``.
        decide: Replaces a name such as ``auto`` before options are read. It is called with the name, the dotted keys
            that files, variables and the command line set, and the names in the other slots, and returns the name of a
            plugin and a line for the user (which may be empty).
    """
    names = () if default is None else (default,)
    mark = Slot(kind, False, names, gives=_words(gives), spread=spread, decide=decide)
    return _field(mark, default, description)


def slots(kind: str, default: tuple[str, ...], *, reads: str | tuple[str, ...] = (), description: str = "") -> Any:
    """Declare a field that holds one or several plugins of `kind`, each with a weight, that read one of `reads`."""
    return _field(Slot(kind, True, default, reads=_words(reads)), default, description)


def slots_of(model: type[BaseModel]) -> dict[str, Slot]:
    """Return the slots of a settings model by the name of their field."""
    marks = ((name, mark) for name, field in model.model_fields.items() for mark in field.metadata)
    return {name: mark for name, mark in marks if isinstance(mark, Slot)}


def _words(words: str | tuple[str, ...]) -> tuple[str, ...]:
    return (words,) if isinstance(words, str) else words


def _field(mark: Slot, default: Any, description: str = "") -> Any:
    field = Field(default, description=description or None)
    if not isinstance(field, FieldInfo):  # `Field` is typed Any
        raise TypeError("pydantic.Field no longer returns a FieldInfo")
    field.metadata.append(mark)
    return field
