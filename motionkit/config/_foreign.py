"""Settings files that were written for another tool: what they mean here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from motionkit.config._group import Group
from motionkit.config._sources import Layer


@dataclass
class Foreign:
    """Another tool's settings, while they are given the names that they have here.

    `Translated.translate` returns one. Values are validated later, as those of any file.

    Attributes:
        path: The file.
        values: By dotted key here.
        sources: By dotted key here, the key in the file.
        notes: What the user should know, a paragraph each.
        taken: Keys that were read or left out on purpose, where others stay as they are; see
            `Translated.translate_sets`.
    """

    path: Path
    values: dict[str, Any] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    taken: set[str] = field(default_factory=set)

    def put(self, key: str, value: Any, source: str) -> None:
        """Set a value; `source` is its key in the file, or what it follows from."""
        self.values[key] = value
        self.sources[key] = source

    def layer(self, *, from_file: bool = True) -> Layer:
        """Return the values as a layer, with the key in the file as part of each origin.

        Args:
            from_file: Whether it stands for a file, not for the command line.
        """
        table: dict[str, Any] = {}
        for key, value in self.values.items():
            *groups, last = key.split(".")
            into = table
            for group in groups:
                into = into.setdefault(group, {})
            into[last] = value
        return Layer(str(self.path), table, from_file=from_file, origin=self._origin, notes=tuple(self.notes))

    def _origin(self, path: tuple[str, ...]) -> str:
        for end in range(len(path), 0, -1):  # a table of the file is one source for all that it holds
            if (source := self.sources.get(".".join(path[:end]))) is not None:
                return f"{self.path}: {source}"
        return str(self.path)


class Translated(Group):
    """A group that may know the settings of other tools."""

    @classmethod
    def translate(cls, table: Mapping[str, Any], path: Path) -> Foreign | None:
        """Return what a settings file means that was written for another tool.

        Args:
            table: What the file holds.
            path: The file.

        Returns:
            Its values by their names here; None for a file of motionkit's own.

        Raises:
            MotionkitError: The file has a setting that cannot be kept, or one that is unknown.
        """
        return None

    @classmethod
    def translate_sets(cls, sets: Mapping[str, str]) -> Foreign | None:
        """Return what those of the ``--set key=value`` mean that are another tool's dotted names.

        Args:
            sets: Text by dotted key, as typed.

        Returns:
            Their values by their names here, with the keys that are done with in `Foreign.taken`; None for none.

        Raises:
            MotionkitError: One of them is unknown, or cannot be kept.
        """
        return None


def renamed(pairs: Mapping[str, str]) -> str:
    """Return keys of a file with their names here, in one line; those that stay as they are come last."""
    moved = [f"{old} → {new}" for old, new in pairs.items() if old != new]
    same = [old for old, new in pairs.items() if old == new]
    return ", ".join(moved + ([f"unchanged: {', '.join(same)}"] if same else []))
