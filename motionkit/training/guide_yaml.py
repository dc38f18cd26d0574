"""Reads the settings files of the reward-model guide and renames their keys. Imports no torch."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from motionkit.config import Foreign, Problem, SettingsError, which_setting


def reason_in(table: Mapping[str, str], key: str) -> str:
    """Return why a dotted key, or its group, is ignored; empty if `table` has no such key."""
    return table.get(_group_in(table, key), "")


def closed(left_out: Mapping[str, str], keys: Collection[str]) -> set[str]:
    """Return the groups of which no key is read."""
    return {group for group in left_out if not any(key.startswith(f"{group}.") for key in keys)}


def leaves(table: Mapping[str, Any], stop: Collection[str] = (), prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield dotted keys and values; a list, an empty group and a group of `stop` are values."""
    for name, value in table.items():
        key = f"{prefix}{name}"
        if isinstance(value, Mapping) and value and key not in stop:
            yield from leaves(value, stop, f"{key}.")
        else:
            yield key, value


def _group_in(table: Mapping[str, str], key: str) -> str:
    parts = key.split(".")
    return next((group for end in range(len(parts), 0, -1) if (group := ".".join(parts[:end])) in table), "")


@dataclass
class Reading:
    """Values of the guide under motionkit's names."""

    found: Foreign  # the values
    read: dict[str, str] = field(default_factory=dict)  # motionkit's names by the guide's keys that were read
    left: dict[str, str] = field(default_factory=dict)  # reasons by keys that were ignored
    problems: list[Problem] = field(default_factory=list)

    def rename(
        self, values: Mapping[str, Any], keys: Mapping[str, str], left_out: Mapping[str, str],
        fitted: Callable[[str, Any], Any] = lambda key, value: value,
    ) -> None:  # fmt: skip
        """Add values under motionkit's names.

        Args:
            values: By dotted key of the guide.
            keys: Motionkit's key by the guide's.
            left_out: Reasons by keys and groups that are ignored.
            fitted: Converts a value, given the guide's key.
        """
        for key, value in values.items():
            name = keys.get(key)
            if name is None and (group := _group_in(left_out, key)):
                self.left[key if group == key else f"the rest of {group}"] = left_out[group]
            elif name is None:
                shown = "" if isinstance(value, (Mapping, list)) else repr(value)
                fix = which_setting(key, keys)
                self.problems.append(Problem(key, "unknown setting", str(self.found.path), shown, fix))
            elif value is None or value == "":
                self.left[key] = "it is null" if value is None else "it is empty"
            else:
                self._put(key, name, fitted(key, value))

    def _put(self, key: str, name: str, value: Any) -> None:
        foreign = self.found
        if name in foreign.values and foreign.values[name] != value:
            message = f"{foreign.sources[name]} sets {name} as well"
            self.problems.append(Problem(key, message, str(foreign.path), repr(value), "keep one of them"))
            return
        foreign.put(name, value, key)
        self.read[key] = name

    def finish(self, head: str) -> Foreign:
        """Return the values with notes on the keys that were read, which `head` begins, and on those left out.

        Raises:
            SettingsError: There were problems.
        """
        if self.problems:
            raise SettingsError(self.problems)
        if self.read:
            self.found.notes.insert(0, f"{head}: {renamed(self.read)}.")
        reasons: dict[str, list[str]] = {}
        for key, reason in self.left.items():
            reasons.setdefault(reason, []).append(key)
        listed = "; ".join(f"{', '.join(keys)}: {reason}" for reason, keys in reasons.items())
        self.found.notes += [f"left out: {listed}."] if listed else []
        return self.found


def renamed(pairs: Mapping[str, str]) -> str:
    """Return keys of a file with their names here, in one line; unchanged ones come last."""
    moved = [f"{old} → {new}" for old, new in pairs.items() if old != new]
    same = [old for old, new in pairs.items() if old == new]
    return ", ".join(moved + ([f"unchanged: {', '.join(same)}"] if same else []))


def reading(path: Path | str) -> Reading:
    """Return a new reading of a file, or of an option's text."""
    return Reading(Foreign(Path(path)))
