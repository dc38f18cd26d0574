"""The settings that a search starts from (`Base`), and those of a trial.

Below are values in nested tables and lists by dotted keys: `flat`, `value_at` and `with_values`.
"""

from __future__ import annotations

import copy
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from motionkit import plugins
from motionkit.config import (
    Layer,
    Problem,
    Resolved,
    SettingsError,
    leaves,
    nested,
    read_layers,
    resolve,
    resolve_layers,
    which_setting,
)
from motionkit.contracts.search import Search
from motionkit.errors import MotionkitError
from motionkit.plugins import Component
from motionkit.training.settings import TrainerSettings

if TYPE_CHECKING:
    from motionkit.training.base import Trainer

_PLACE = {"out": None, "name": None, "overwrite": False, "resume": None}
"""Settings of the run folder, which differ between the trials of a search."""


@dataclass(frozen=True)
class Base:
    """A trainer and its settings."""

    trainer: str  # Name of the trainer
    component: Component  # Its entry
    table: Mapping[str, Any]  # All settings, nested and JSON-able
    notes: tuple[str, ...] = ()  # Decisions made while they were read
    # Python files among trainer and plugins, and options that make code run; all of them were typed, see `Layer.code`.
    code: frozenset[str] = frozenset()
    # The settings before a search fixed some of them; None if it fixed nothing.
    given: Mapping[str, Any] | None = None

    @property
    def command(self) -> str:
        """The trainer's name as a command."""
        return plugins.label(self.trainer).replace(".", " ")

    @property
    def model(self) -> type[TrainerSettings]:
        """The trainer's settings model."""
        model = self.component.options
        assert issubclass(model, TrainerSettings)
        return model

    def with_values(self, values: Mapping[str, Any], origin: str = "search") -> Resolved[TrainerSettings]:
        """Return the settings with some replaced, validated."""
        try:
            table = with_values(self.table, values)
        except KeyError as error:
            raise MotionkitError(f"{error.args[0]} is not a setting of {self.trainer}.") from error
        layer = Layer(origin, table, from_file=True, code=self.code)
        return resolve_layers(self.model, [layer], command=self.command)

    def values(self, keys: Iterable[str]) -> dict[str, Any]:
        """Return the settings of some keys; those that the trainer does not have are refused."""
        found = {}
        for key in keys:
            try:
                found[key] = value_at(self.table, key)
            except KeyError:
                raise MotionkitError(
                    f"{key} is not a setting of {self.trainer}.",
                    fix=which_setting(key, [name for name, _ in flat(self.table)])
                    or f"motionkit config show {self.trainer} lists them.",
                ) from None
        return found

    def searched(self) -> tuple[Base, Search]:
        """Return the base with the settings fixed that the trainer's search fixes, and that search, empty if none.

        `changed` leaves the fixed ones out.
        """
        search: Search = self.component.searched(self.with_values({}).settings) or Search({}, value="")
        if not search.base:
            return self, search
        return replace(self, table=self.with_values(search.base).snapshot(), given=self.table), search

    def prepared(self, values: Mapping[str, Any]) -> tuple[Resolved[TrainerSettings], Trainer]:
        """Return the settings with some replaced, and a trainer of them whose inputs are open.

        Raises:
            MotionkitError: The settings or the inputs are refused.
            OSError: An input cannot be read.
        """
        from motionkit.training.execute import build_trainer

        resolved = self.with_values(values)
        trainer = build_trainer(self.command, self.component, resolved.settings)
        with plugins.catching():
            trainer.prepare()
        return resolved, trainer

    def read(self, sets: Sequence[str], *, repeated: str = "") -> tuple[Base, dict[str, Any]]:
        """Read ``key=value`` strings, in the types of the settings.

        Args:
            sets: The strings.
            repeated: The file that holds them, if they were not typed.

        Returns:
            This base with the code that was typed in `sets`, and the values by key.
        """
        base = Layer("base", self.table, from_file=True, code=self.code)
        more = read_layers(self.model, sets=sets, repeated=repeated)[-2]
        with _typed_by("--trial-set"):
            resolved = resolve_layers(self.model, [base, more])
        snapshot = resolved.snapshot()
        values = {key: value_at(snapshot, key) for key in (text.partition("=")[0].strip() for text in sets)}
        return replace(self, code=self.code | resolved.code), values

    def changed(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return what differs from the trainer's defaults once `values` are set, nested as in a settings file.

        Settings that a search fixed in the base are left out: they are for trials only.
        """
        base = self if self.given is None else replace(self, table=self.given)
        table = base.with_values(values).snapshot()
        usual = dict(flat(resolve(self.model).snapshot()))
        changed: dict[str, Any] = {}
        for key, value in table.items():
            if isinstance(value, Mapping):
                kept = {
                    name: part
                    for name, part in value.items()
                    if (key != "run" or name not in _PLACE) and _differs(f"{key}.{name}", part, usual)
                }
                if kept:
                    changed[key] = kept
            elif _differs(key, value, usual):
                changed[key] = value
        return changed


def open_base(
    trainer: str,
    files: Sequence[Path] = (),
    sets: Sequence[str] = (),
    values: Mapping[str, Any] | None = None,
    *,
    typed: bool = False,
    repeated: str = "",
) -> Base:
    """Resolve the settings of a trainer from files, variables, ``key=value`` and `values`; later ones win.

    Args:
        trainer: Name of the trainer.
        files: Settings files and runs.
        sets: ``key=value`` strings.
        values: Values by dotted key; none of them may be code.
        typed: Whether the trainer's name was typed, so that it may be a Python file.
        repeated: The file that holds `sets`, if they were not typed.
    """
    component = plugins.get("trainers", trainer, typed=typed)
    if not issubclass(component.options, TrainerSettings):
        raise MotionkitError(f"the settings of trainer {trainer!r} are not TrainerSettings.", fix="choose another one.")
    model = component.options
    single = {leaf.key for leaf in leaves(model) if not leaf.is_many}
    flags: dict[tuple[str, ...], Any] = {}
    for key, value in (values or {}).items():
        alone = key in single and isinstance(value, list) and len(value) == 1
        flags[tuple(key.split("."))] = value[0] if alone else value
    layers = read_layers(model, sets=sets, files=files, repeated=repeated)[:-1]
    more = Layer("command line", nested(model, flags), code=frozenset())
    with _typed_by("--base-set"):
        resolved = resolve_layers(model, [*layers, more], command=plugins.label(trainer).replace(".", " "))
    table = resolved.snapshot()
    table["run"] |= _PLACE
    code = resolved.code | ({trainer} if plugins.is_file(trainer) else set())
    return Base(trainer, component, table, (*resolved.warnings, *resolved.notes), code)


@contextmanager
def _typed_by(flag: str) -> Iterator[None]:
    """Name the flag of a search when code is refused: ``--base-set reward=./mine.py:obj``."""
    try:
        yield
    except plugins.CodeError as error:
        slot = error.words[0].removeprefix("--").replace("-", "_")
        words = [flag, f"{slot}={','.join(error.words[1::2])}"]
        error.fix = f"if you trust that file, add to the command: {shlex.join(words)}"
        raise
    except SettingsError as error:
        raise SettingsError([_typed_with(flag, problem) for problem in error.problems]) from error


def _typed_with(flag: str, problem: Problem) -> Problem:
    """Return a problem whose fix names the flag of a search instead of the trainer's."""
    start, separator, words = problem.fix.partition("add to the command: ")
    if not separator:
        return problem
    value = [*shlex.split(words)[1:], "true"][0]
    return replace(problem, fix=f"{start}{separator}{shlex.join((flag, f'{problem.key}={value}'))}")


def _differs(key: str, value: object, usual: Mapping[str, Any]) -> bool:
    inside = dict(flat(value, key))
    return any(name not in usual or usual[name] != part for name, part in inside.items())


def flat(table: object, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield key and value of every leaf of nested tables and lists of tables; other lists are values."""
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
    """Return a copy of nested tables with values set; missing tables are created.

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
