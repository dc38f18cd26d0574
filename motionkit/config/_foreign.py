"""Settings files of other tools, which `Translated` settings rename to theirs (`Foreign`), and of older runs.

They may hold references ``${a.b}`` as in OmegaConf's files (`interpolate`), but no resolvers.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from motionkit.config._layer import Layer, put
from motionkit.config._problems import Problem, SettingsError
from motionkit.config._slots import Group

_REFERENCE = re.compile(r"\$\{([^${}]*)\}")
_NAME = re.compile(r"[\w-]+(\.[\w-]+)*")
_MOST = 4096
"""Most characters of a text with its references replaced; each may double it."""


@dataclass
class Foreign:
    """Another tool's settings, renamed to those here.

    `Translated.translate` returns one. Values are validated later, as those of any file.
    """

    path: Path  # The file
    values: dict[str, Any] = field(default_factory=dict)  # By dotted key here
    sources: dict[str, str] = field(default_factory=dict)  # By dotted key here, the key in the file
    notes: list[str] = field(default_factory=list)  # Notes for the user, a paragraph each
    typed: Collection[str] = ()  # Keys of the other tool that were typed, in place of those of the file

    def put(self, key: str, value: Any, source: str) -> None:
        """Set a value; `source` is its key in the file, or what it was derived from."""
        self.values[key] = value
        self.sources[key] = source

    def layer(self, *, from_file: bool = True) -> Layer:
        """Return the values as a layer, with the key in the file as part of each origin.

        Args:
            from_file: Whether the values come from a file, not from the command line.
        """
        table: dict[str, Any] = {}
        for key, value in self.values.items():
            put(table, key.split("."), value)
        return Layer(str(self.path), table, from_file=from_file, origin=self._origin, notes=tuple(self.notes))

    def _origin(self, path: tuple[str, ...]) -> str:
        for end in range(len(path), 0, -1):  # a table of the file is the source of all values in it
            if (source := self.sources.get(".".join(path[:end]))) is not None:
                return f"{'command line' if source in self.typed else self.path}: {source}"
        return str(self.path)


class Translated(Group):
    """A group that can translate settings of other tools and of older runs."""

    @classmethod
    def recorded(cls, table: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the settings of a run, ``config.json``, with the meaning they had when they were recorded.

        A setting that was added later is filled in if its default differs from what the run did.
        """
        return table

    @classmethod
    def translate(cls, table: Mapping[str, Any], path: Path) -> Foreign | None:
        """Translate a settings file of another tool.

        Returns:
            Its values by their names here; None for a file of motionkit.
        """
        return None

    @classmethod
    def is_foreign(cls, key: str) -> bool:
        """Whether a dotted key is another tool's, so that ``--set`` accepts it.

        If a file of that tool is given, such values replace those of the file before it is translated.
        """
        return False

    @classmethod
    def translate_sets(cls, sets: Mapping[str, Any]) -> Foreign:
        """Translate dotted keys of another tool that were typed without a file of that tool.

        Args:
            sets: Values by dotted key, all of them `is_foreign`.
        """
        raise NotImplementedError


def renamed(pairs: Mapping[str, str]) -> str:
    """Return keys of a file with their names here, in one line; unchanged ones come last."""
    moved = [f"{old} → {new}" for old, new in pairs.items() if old != new]
    same = [old for old, new in pairs.items() if old == new]
    return ", ".join(moved + ([f"unchanged: {', '.join(same)}"] if same else []))


def interpolate(table: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """Return a file's table with every ``${a.b}`` replaced by the value at that key.

    A string that is just a reference becomes the value itself, of any type; inside a longer string it becomes text.

    Example:
        >>> interpolate({"out": "results", "save": "${out}/run"}, Path("train.yaml"))
        {'out': 'results', 'save': 'results/run'}
    """
    reader = _Reader(table, path)
    filled = {key: reader.value(value, (key,)) for key, value in table.items()}
    if reader.problems:
        raise SettingsError(list({(item.key, item.message): item for item in reader.problems}.values()))
    return filled


class _Reader:
    def __init__(self, table: Mapping[str, Any], path: Path) -> None:
        self._table, self._path = table, path
        self._open: list[str] = []
        self.problems: list[Problem] = []

    def value(self, value: Any, place: tuple[str, ...]) -> Any:
        if isinstance(value, Mapping):
            return {key: self._member(key, inside, place) for key, inside in value.items()}
        if isinstance(value, list):
            return [self.value(inside, (*place, str(number))) for number, inside in enumerate(value)]
        if not isinstance(value, str):
            return value
        if value == "???":
            return self._refuse(place, "has no value: ??? marks one that has to be given", value, "give it a value")
        if reference := _REFERENCE.fullmatch(value):
            return self._refer(reference[1], place, value)
        text = _REFERENCE.sub(lambda match: str(self._refer(match[1], place, value)), value)
        if len(text) > _MOST:
            return self._refuse(place, "is too long with its references put in", value[:40], "write the value out")
        if text == value and "${" in value:
            return self._refuse(place, "holds a reference that cannot be read", value, "only ${a.b} is read")
        return text

    def _member(self, key: str, value: Any, place: tuple[str, ...]) -> Any:
        if key == "_target_":
            return self._refuse((*place, key), "names code to call, which a settings file cannot", str(value),
                                "leave it out")  # fmt: skip
        return self.value(value, (*place, key))

    def _refer(self, name: str, place: tuple[str, ...], value: str) -> Any:
        if ":" in name:
            resolver = name.partition(":")[0]
            return self._refuse(place, f"uses the resolver {resolver}, which is not run", value, "write the value out")
        if not _NAME.fullmatch(name):
            return self._refuse(place, "holds a reference that cannot be read", value, "only ${a.b} is read")
        if name in self._open:
            circle = " -> ".join([*self._open, name])
            return self._refuse(place, f"refers to itself: {circle}", value, "write the value out")
        target: Any = self._table
        for part in name.split("."):
            if not isinstance(target, Mapping) or part not in target:
                return self._refuse(place, f"refers to {name}, which is not in the file", value, "write the value out")
            target = target[part]
        self._open.append(name)
        try:
            return self.value(target, tuple(name.split(".")))
        finally:
            self._open.pop()

    def _refuse(self, place: tuple[str, ...], message: str, value: str, fix: str) -> None:
        self.problems.append(Problem(".".join(place), message, str(self._path), repr(value), fix))
