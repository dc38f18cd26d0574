"""References ``${a.b}`` in settings files, as in OmegaConf's (`interpolate`), but no resolvers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from motionkit.config._problems import Problem, SettingsError

_REFERENCE = re.compile(r"\$\{([^${}]*)\}")
_NAME = re.compile(r"[\w-]+(\.[\w-]+)*")
_MOST = 4096
"""Most characters of a text with its references replaced; each may double it."""


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
