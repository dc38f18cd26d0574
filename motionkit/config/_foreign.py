"""Settings files that were written for another tool: what they mean here."""

from __future__ import annotations

from collections.abc import Collection, Mapping
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
        typed: Keys of the other tool that were typed, in place of those of the file.
    """

    path: Path
    values: dict[str, Any] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    typed: Collection[str] = ()

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
                return f"{'command line' if source in self.typed else self.path}: {source}"
        return str(self.path)


class Translated(Group):
    """A group that may know the settings of other tools, and those of runs that are older than it."""

    @classmethod
    def recorded(cls, table: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the settings of a run, ``config.json``, as they were meant when they were recorded.

        A setting that came later has a default that may not be what the run did; such a one is put in here.

        Args:
            table: Nested tables.
        """
        return table

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
    def is_foreign(cls, key: str) -> bool:
        """Whether a dotted key is another tool's, so that ``--set`` takes it.

        With a file of that tool such values replace those of the file, before it is translated.
        """
        return False

    @classmethod
    def translate_sets(cls, sets: Mapping[str, Any]) -> Foreign:
        """Return what another tool's dotted names mean that were typed and that no file goes with.

        Args:
            sets: Values by dotted key, all of them `is_foreign`.

        Raises:
            MotionkitError: One of them is unknown, or cannot be kept.
        """
        raise NotImplementedError


def renamed(pairs: Mapping[str, str]) -> str:
    """Return keys of a file with their names here, in one line; those that stay as they are come last."""
    moved = [f"{old} → {new}" for old, new in pairs.items() if old != new]
    same = [old for old, new in pairs.items() if old == new]
    return ", ".join(moved + ([f"unchanged: {', '.join(same)}"] if same else []))
