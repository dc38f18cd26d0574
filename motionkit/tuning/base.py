"""The settings that a search begins with, and those of a trial."""

from __future__ import annotations

import copy
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from motionkit import plugins
from motionkit.config import Draft, Given, Problem, Resolved, SettingsError, TrainerSettings, leaves, read_layers
from motionkit.config.sources import Layer, nested
from motionkit.errors import MotionkitError, did_you_mean
from motionkit.plugins import Component

# Values in nested tables and lists by dotted keys.


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
    """Refuse keys that are no setting of a trainer."""
    known = [key for key, _ in flat(table)]
    for key in keys:
        try:
            value_at(table, key)
        except KeyError:
            raise MotionkitError(
                f"{key} is not a setting of {trainer}.",
                fix=did_you_mean(key, known) or f"motionkit config show {trainer} lists them.",
            ) from None


@dataclass(frozen=True)
class Base:
    """A trainer and its settings."""

    trainer: str  # Name of the trainer
    component: Component  # Its entry
    table: Mapping[str, Any]  # All settings, nested and JSON-able
    notes: tuple[str, ...] = ()  # What was decided while they were read
    # The Python files among trainer and plugins and the options that make code run, all of which were typed; see
    # `Layer.code`.
    code: frozenset[str] = frozenset()
    # The settings without what a search fixed in them; None if it fixed nothing.
    given: Mapping[str, Any] | None = None

    @property
    def command(self) -> str:
        """The trainer as a command calls it."""
        return plugins.label(self.trainer).replace(".", " ")

    @property
    def model(self) -> type[TrainerSettings]:
        """The trainer's settings."""
        model = self.component.options
        assert issubclass(model, TrainerSettings)
        return model

    def with_values(self, values: Mapping[str, Any], origin: str = "search") -> Resolved[TrainerSettings]:
        """Return the settings with some replaced, validated."""
        try:
            table = with_values(self.table, values)
        except KeyError as error:
            raise MotionkitError(f"{error.args[0]} is not a setting of {self.trainer}.") from error
        layers = [Layer(origin, table, from_file=True, code=self.code), Layer("command line", {})]
        return Draft(self.model, layers).resolve({}, command=self.command)

    def fixed(self, values: Mapping[str, Any]) -> Base:
        """Return the base with some settings fixed, which `changed` leaves out."""
        return replace(self, table=self.with_values(values).snapshot(), given=self.table) if values else self

    def read(self, sets: Sequence[str], *, repeated: str = "") -> tuple[Base, dict[str, Any]]:
        """Read ``key=value`` strings, in the types of the settings.

        Args:
            sets: The strings.
            repeated: The file that they stand in, if they were not typed.

        Returns:
            This base, with the code that was typed in `sets`, and the values by key.
        """
        base_layer = Layer("base", self.table, from_file=True, code=self.code)
        more = read_layers(self.model, Given(sets=sets, repeated=repeated))[-2]
        draft = Draft(self.model, [base_layer, more, Layer("command line", {})])
        with _typed_by("--trial-set"):
            snapshot = draft.resolve({}).snapshot()
        values = {key: value_at(snapshot, key) for key in (text.partition("=")[0].strip() for text in sets)}
        return replace(self, code=self.code | _code_of(draft)), values

    def changed(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return what differs from the trainer's defaults, nested, with `values` set: what a settings file holds.

        What a search fixed in the base is left out: it is about trials.
        """
        given = self if self.given is None else replace(self, table=self.given)
        table = given.with_values(values).snapshot()
        usual = dict(flat(Draft(self.model).resolve({}).snapshot()))
        changes: dict[str, Any] = {}
        for key, value in table.items():
            if key != "run" and isinstance(value, Mapping):
                kept = {name: part for name, part in value.items() if _differs(f"{key}.{name}", part, usual)}
                if kept:
                    changes[key] = kept
            elif key == "run":
                kept = {
                    name: part
                    for name, part in value.items()
                    if name not in ("out", "name", "overwrite", "resume") and _differs(f"run.{name}", part, usual)
                }
                if kept:
                    changes[key] = kept
            elif _differs(key, value, usual):
                changes[key] = value
        return changes


def open_base(
    trainer: str,
    files: Sequence[Path] = (),  # settings files and runs
    sets: Sequence[str] = (),  # ``key=value`` strings
    values: Mapping[str, Any] | None = None,  # values by dotted key; none of them may be code
    *,
    typed: bool = False,  # whether the trainer's name was typed, so that it may be a Python file
    repeated: str = "",  # the file that `sets` stand in, if they were not typed
) -> Base:
    """Resolve the settings of a trainer: files, variables, ``key=value`` and `values`, the later ones winning."""
    component = plugins.get("trainers", trainer, typed=typed)
    if not issubclass(component.options, TrainerSettings):
        raise MotionkitError(f"the settings of trainer {trainer!r} are no TrainerSettings.", fix="choose another one.")
    model = component.options
    single = {leaf.key for leaf in leaves(model) if not leaf.is_many}
    flags: dict[tuple[str, ...], Any] = {}
    for key, value in (values or {}).items():
        alone = key in single and isinstance(value, list) and len(value) == 1
        flags[tuple(key.split("."))] = value[0] if alone else value
    layers = read_layers(model, Given(sets=sets, files=files, repeated=repeated))[:-1]
    more = Layer("command line", nested(model, flags), code=frozenset())
    draft = Draft(model, [*layers, more, Layer("command line", {})])
    with _typed_by("--base-set"):
        resolved = draft.resolve({}, command=plugins.label(trainer).replace(".", " "))
    table = resolved.snapshot()
    table["run"] = {**table["run"], "out": None, "name": None, "overwrite": False, "resume": None}
    code = _code_of(draft) | ({trainer} if plugins.is_file(trainer) else set())
    return Base(trainer, component, table, (*resolved.warnings, *resolved.notes), code)


@contextmanager
def _typed_by(flag: str) -> Iterator[None]:
    """Let the refusal of code name the flag by which a search takes it: ``--base-set reward=./mine.py:obj``."""
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
    """Let a problem name the flag of a search instead of the trainer's own, if code has to be typed."""
    start, advice, words = problem.fix.partition("add to the command: ")
    if not advice:
        return problem
    value = [*shlex.split(words)[1:], "true"][0]
    return replace(problem, fix=f"{start}{advice}{shlex.join((flag, f'{problem.key}={value}'))}")


def _code_of(draft: Draft[Any]) -> frozenset[str]:
    """Return what makes code run in a draft, all of which was typed: it refuses others."""
    names = (pick.name for picks in draft.picks.of.values() for pick in picks)
    return frozenset((*filter(plugins.is_file, names), *draft.code))


def _differs(key: str, value: object, usual: Mapping[str, Any]) -> bool:
    inside = dict(flat(value, key))
    return any(name not in usual or usual[name] != part for name, part in inside.items())
