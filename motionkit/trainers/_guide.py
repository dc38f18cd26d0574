"""Reads settings files and dotted names of the reward-model guide by a table of its keys. Imports no torch."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from motionkit.config import Foreign, Problem, SettingsError, interpolate, renamed, suggest
from motionkit.documents import parse_yaml
from motionkit.errors import MotionkitError

HYDRA = "Hydra's own, and Hydra is not used here"
CLUSTER = "one process trains, without Ray"
_TYPED = "command line"


@dataclass
class Reading:
    """A file, or the dotted names of a command line, while it is read.

    Attributes:
        found: What was read, by its names here.
        given: The guide's keys with their values.
        from_file: Whether it is a file.
        read: Key of the guide, key here.
        left: Key of the guide, why it does nothing.
    """

    found: Foreign
    given: Mapping[str, Any]
    from_file: bool
    read: dict[str, str] = field(default_factory=dict)
    left: dict[str, str] = field(default_factory=dict)


def _as_it_is(key: str, value: Any, found: Foreign) -> Any:
    return value


def _nothing(reading: Reading) -> Sequence[Problem]:
    return ()


@dataclass(frozen=True)
class GuideNames:
    """The keys of one of the guide's files.

    Attributes:
        keys: Key of the guide, key here.
        left_out: Keys, or whole groups, that do nothing here, each with the reason.
        roots: First parts of the keys.
        fit: Brings a value into the form that it has here, ``fit(key, value, found)``; a ``ValueError`` refuses it.
        settle: Called when all keys were read; returns what is wrong with them together.
    """

    keys: Mapping[str, str]
    left_out: Mapping[str, str]
    roots: tuple[str, ...]
    fit: Callable[[str, Any, Foreign], Any] = _as_it_is
    settle: Callable[[Reading], Sequence[Problem]] = _nothing

    def reason(self, key: str) -> str:
        """Return why a dotted key does nothing here; empty when it is no such key."""
        if key in self.keys:
            return ""
        parts = key.split(".")
        return next((why for end in range(len(parts), 0, -1) if (why := self.left_out.get(".".join(parts[:end])))), "")

    def translate(self, table: Mapping[str, Any], path: Path, own: Collection[str]) -> Foreign | None:
        """Return what a file of the guide means here; see `motionkit.config.Settings.translate`.

        Groups of motionkit's own may stand beside the guide's, where no group of the guide has their name; they win.
        What only Hydra reads is left out unread, resolvers and all.

        Args:
            table: What the file holds.
            path: The file.
            own: Names of the groups and settings here.

        Raises:
            SettingsError: A key is unknown or given twice under two names, or a reference cannot be kept.
        """
        clear = any(key in self.roots and key not in own for key in table)
        if not clear and not any(key in self.keys for key, _ in self._leaves(table)):
            return None
        used = {key: value for key, value in table.items() if not self.left_out.get(key)}
        values = {**table, **interpolate(used, path)}
        theirs = {key: value for key, value in values.items() if key in self.roots or key not in own}
        reading = self._read(dict(self._leaves(theirs)), path, from_file=True)
        found = reading.found
        for key in values.keys() - theirs.keys():
            for name, value in self._leaves({key: values[key]}):
                found.put(name, value, name)
        found.notes[:0] = [
            f"{path} is a config of the reward-model guide; read as: {renamed(reading.read)}. Paths count from the "
            "working folder."
        ]
        found.notes += _left(reading.left)
        return found

    def translate_sets(self, sets: Mapping[str, str], own: Collection[str]) -> Foreign | None:
        """Return what the guide's dotted names on the command line mean; see `Settings.translate_sets`."""
        theirs = {key: text for key, text in sets.items() if self._is_theirs(key, own)}
        if not theirs:
            return None
        reading = self._read({key: parsed(key, text) for key, text in theirs.items()}, Path(_TYPED), from_file=False)
        found = reading.found
        found.taken = set(theirs)
        if reading.read:
            found.notes.insert(0, f"names of the reward-model guide, read as: {renamed(reading.read)}.")
        found.notes += _left(reading.left)
        return found

    def _is_theirs(self, key: str, own: Collection[str]) -> bool:
        root, _, rest = key.partition(".")
        if root not in self.roots:
            return False
        if root not in own or key in self.keys or self.reason(key):
            return True
        group = f"{root}.{rest.partition('.')[0]}."  # a group of the guide below a name that is a group here as well
        return "." in rest and any(known.startswith(group) for known in self.keys)

    def _read(self, values: Mapping[str, Any], path: Path, *, from_file: bool) -> Reading:
        reading, problems = Reading(Foreign(path), values, from_file), []
        found = reading.found
        for key, value in values.items():
            if reason := self.reason(key):
                reading.left[key] = reason
            elif key not in self.keys:
                shown = "" if isinstance(value, (Mapping, list)) else repr(value)
                problems.append(Problem(key, "unknown setting", str(path), shown, suggest(key, self.keys)))
            elif value is None or value == "":
                reading.left[key] = "it is empty" if value == "" else "it is null"
            else:
                here = self.keys[key]
                try:
                    value = self.fit(key, value, found)
                except ValueError as error:
                    problems.append(Problem(key, str(error), str(path), repr(value)))
                    continue
                if here in found.values and found.values[here] != value:
                    message = f"{found.sources[here]} sets {here} as well"
                    problems.append(Problem(key, message, str(path), repr(value), "keep one of them"))
                else:
                    found.put(here, value, key)
                    reading.read[key] = here
        problems += self.settle(reading)
        if problems:
            raise SettingsError(problems)
        return reading

    def _leaves(self, table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
        """Yield values by dotted key; a list, an empty group and one that is left out as a whole are values."""
        for name, value in table.items():
            key = f"{prefix}{name}"
            whole = self.reason(key) and not any(known.startswith(f"{key}.") for known in self.keys)
            if isinstance(value, Mapping) and value and not whole:
                yield from self._leaves(value, f"{key}.")
            else:
                yield key, value


def parsed(key: str, text: str) -> Any:
    """Return a typed value as YAML reads it, as Hydra does."""
    try:
        return parse_yaml(text, f"--set {key}", object)
    except MotionkitError:
        return text


def _left(left: Mapping[str, str]) -> list[str]:
    reasons: dict[str, list[str]] = {}
    for key, reason in left.items():
        reasons.setdefault(reason, []).append(key)
    listed = "; ".join(f"{', '.join(keys)}: {reason}" for reason, keys in reasons.items())
    return [f"left out: {listed}."] if listed else []
