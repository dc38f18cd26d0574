"""The settings that a search begins with, and those of a trial."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from motionkit import plugins
from motionkit.config import Draft, Given, Resolved, TrainerSettings, leaves, read_layers
from motionkit.config._sources import Layer
from motionkit.errors import MotionkitError
from motionkit.plugins import Component
from motionkit.tuning._keys import flat, value_at, with_values


@dataclass(frozen=True)
class Base:
    """A trainer and its settings.

    Attributes:
        trainer: Name of the trainer.
        component: Its entry.
        table: All settings, nested and JSON-able.
        notes: What was decided while they were read.
    """

    trainer: str
    component: Component
    table: Mapping[str, Any]
    notes: tuple[str, ...] = ()

    @property
    def model(self) -> type[TrainerSettings]:
        """The trainer's settings."""
        model = self.component.options
        assert issubclass(model, TrainerSettings)
        return model

    def with_values(self, values: Mapping[str, Any], origin: str = "search") -> Resolved[TrainerSettings]:
        """Return the settings with some replaced, validated.

        Raises:
            MotionkitError: They do not fit together.
        """
        try:
            table = with_values(self.table, values)
        except KeyError as error:
            raise MotionkitError(f"{error.args[0]} is no setting of {self.trainer}.") from error
        layers = [Layer(origin, table, from_file=True), Layer("command line", {})]
        return Draft(self.model, layers).resolve({}, command=self.trainer.replace(".", " "))

    def fixed(self, values: Mapping[str, Any]) -> Base:
        """Return the base with some settings replaced."""
        return replace(self, table=self.with_values(values).snapshot()) if values else self

    def typed(self, sets: Sequence[str]) -> dict[str, Any]:
        """Return ``key=value`` strings as values by key, in the types of the settings.

        Raises:
            MotionkitError: One is not of that form, or does not fit.
        """
        layers = [Layer("base", self.table, from_file=True), read_layers(self.model, Given(sets=sets))[-2]]
        found = Draft(self.model, [*layers, Layer("command line", {})]).resolve({}).snapshot()
        return {key: value_at(found, key) for key in (text.partition("=")[0].strip() for text in sets)}

    def changed(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return what differs from the trainer's defaults, nested, with `values` set: what a settings file holds."""
        table = self.with_values(values).snapshot()
        usual = dict(flat(Draft(self.model).resolve({}).snapshot()))
        found: dict[str, Any] = {}
        for key, value in table.items():
            if key != "run" and isinstance(value, Mapping):
                kept = {name: part for name, part in value.items() if _differs(f"{key}.{name}", part, usual)}
                if kept:
                    found[key] = kept
            elif key == "run":
                kept = {
                    name: part
                    for name, part in value.items()
                    if name not in ("out", "name", "overwrite", "resume") and _differs(f"run.{name}", part, usual)
                }
                if kept:
                    found[key] = kept
            elif _differs(key, value, usual):
                found[key] = value
        return found


def open_base(
    trainer: str, files: Sequence[Path] = (), sets: Sequence[str] = (), values: Mapping[str, Any] | None = None
) -> Base:
    """Resolve the settings of a trainer: files, variables, ``key=value`` and `values`, the later ones winning.

    Raises:
        MotionkitError: There is no such trainer, or its settings are wrong.
    """
    component = plugins.get("trainers", trainer)
    if not issubclass(component.options, TrainerSettings):
        raise MotionkitError(f"the settings of trainer {trainer!r} are no TrainerSettings.", fix="choose another one.")
    model = component.options
    single = {leaf.key for leaf in leaves(model) if not leaf.is_many}
    flags: dict[tuple[str, ...], Any] = {}
    for key, value in (values or {}).items():
        alone = key in single and isinstance(value, list) and len(value) == 1
        flags[tuple(key.split("."))] = value[0] if alone else value
    given = Given(flags, sets, files)
    resolved = Draft(model, read_layers(model, given)).resolve(given.flags, command=trainer.replace(".", " "))
    table = resolved.snapshot()
    table["run"] = {**table["run"], "out": None, "name": None, "overwrite": False, "resume": None}
    return Base(trainer, component, table, (*resolved.warnings, *resolved.notes))


def _differs(key: str, value: object, usual: Mapping[str, Any]) -> bool:
    inside = dict(flat(value, key))
    return any(name not in usual or usual[name] != part for name, part in inside.items())
