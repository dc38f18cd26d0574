"""Reading the settings files of the reward-model guide: names there to names here. Imports no torch."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from motionkit.config import Foreign, Problem, SettingsError, renamed
from motionkit.errors import did_you_mean


def reason_in(table: Mapping[str, str], key: str) -> str:
    """Return why a dotted key, or the group it is in, does nothing here; empty when `table` has no such key."""
    return table.get(_group_in(table, key), "")


def closed(left_out: Mapping[str, str], keys: Collection[str]) -> set[str]:
    """Return the groups of which nothing is read."""
    return {group for group in left_out if not any(key.startswith(f"{group}.") for key in keys)}


def leaves(table: Mapping[str, Any], stop: Collection[str] = (), prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield values by dotted key; a list, an empty group and a group of `stop` are values."""
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
    """Values of the guide while they are given their names here."""

    found: Foreign  # the values
    read: dict[str, str] = field(default_factory=dict)  # keys that were read, with their names here
    left: dict[str, str] = field(default_factory=dict)  # keys that were left out, with the reason
    problems: list[Problem] = field(default_factory=list)  # what is wrong

    def rename(
        self, values: Mapping[str, Any], keys: Mapping[str, str], left_out: Mapping[str, str],
        fitted: Callable[[str, Any], Any] = lambda key, value: value,
    ) -> None:  # fmt: skip
        """Take values over by a table of names.

        Args:
            values: By dotted key of the guide.
            keys: Key of the guide, key here.
            left_out: Keys and groups that do nothing here, with the reason.
            fitted: Brings a value into the form that it has here.
        """
        for key, value in values.items():
            here = keys.get(key)
            if here is None and (group := _group_in(left_out, key)):
                self.left[key if group == key else f"the rest of {group}"] = left_out[group]
            elif here is None:
                shown = "" if isinstance(value, (Mapping, list)) else repr(value)
                fix = did_you_mean(key, keys)
                self.problems.append(Problem(key, "unknown setting", str(self.found.path), shown, fix))
            elif value is None or value == "":
                self.left[key] = "it is null" if value is None else "it is empty"
            else:
                self._put(key, here, fitted(key, value))

    def _put(self, key: str, here: str, value: Any) -> None:
        found = self.found
        if here in found.values and found.values[here] != value:
            message = f"{found.sources[here]} sets {here} as well"
            self.problems.append(Problem(key, message, str(found.path), repr(value), "keep one of them"))
            return
        found.put(here, value, key)
        self.read[key] = here

    def finish(self, head: str) -> Foreign:
        """Return the values with notes on what was read and what was left out.

        Args:
            head: Begins the note on what was read; nothing is said of nothing.

        Raises:
            SettingsError: Something is wrong.
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


def reading(path: Path | str) -> Reading:
    """Return a reading of a file, or of what was typed."""
    return Reading(Foreign(Path(path)))
