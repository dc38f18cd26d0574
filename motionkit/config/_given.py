"""User input as layers: files, variables, ``--set`` and flags.

`read_layers` reads what a command line gives. A settings file may be another tool's, which `Translated`
settings rename to theirs (`Foreign`), and may hold references ``${a.b}`` as in OmegaConf's files (`interpolate`), but
no resolvers.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from motionkit.config._problems import Problem, SettingsError
from motionkit.config._slots import Group
from motionkit.config.sources import Layer, dotted_keys, flag_layer, nested, read_environment, read_file
from motionkit.documents import parse_yaml
from motionkit.errors import MotionkitError

_REFERENCE = re.compile(r"\$\{([^${}]*)\}")
_NAME = re.compile(r"[\w-]+(\.[\w-]+)*")
_MOST = 4096
"""Most characters of a text with its references replaced; each may double it."""


def read_layers(
    model: type[Group],
    flags: Mapping[tuple[str, ...], Any] | None = None,
    sets: Sequence[str] = (),
    files: Sequence[Path] = (),
    *,
    repeated: str = "",
) -> list[Layer]:
    """Return files, variables, ``--set`` and flags as layers, lowest first.

    Args:
        model: Settings model.
        flags: Path of a key to the value of its flag: text, or a list of texts for a flag that repeats.
        sets: ``key=value`` strings of ``--set``.
        files: Files of ``--config``, lowest first.
        repeated: The file that holds the flags and sets, if they were not typed.
    """
    values: dict[tuple[str, ...], str] = {}
    for text in sets:
        key, separator, value = text.partition("=")
        if not separator or not key.strip():
            raise MotionkitError(f"--set {text!r} is not key=value.", fix="--set optim.learning_rate=1e-4")
        values[tuple(key.strip().split("."))] = value
    theirs = _take_foreign(model, values)
    used = False
    layers = []
    for path in files:
        layer, changed = _read(model, path, theirs)
        layers.append(layer)
        used |= changed
    foreign = []
    if theirs and not used and issubclass(model, Translated):
        foreign = [model.translate_sets(theirs).layer(from_file=False)]
    typed = [*foreign, Layer("command line", nested(model, values)), flag_layer(model, flags or {})]
    if repeated:
        typed = [replace(layer, name=repeated, code=frozenset()) for layer in typed]
    return [*layers, read_environment(model), *typed]


def _take_foreign(model: type[Group], sets: dict[tuple[str, ...], str]) -> dict[str, Any]:
    """Take another tool's names out of `sets` and return their values, read as YAML."""
    if not issubclass(model, Translated):
        return {}
    return {
        ".".join(path): _typed(".".join(path), sets.pop(path))
        for path in list(sets)
        if model.is_foreign(".".join(path))
    }


def _typed(key: str, text: str) -> Any:
    try:
        return parse_yaml(text, f"--set {key}", object)
    except MotionkitError:
        return text


def _read(model: type[Group], path: Path, theirs: Mapping[str, Any]) -> tuple[Layer, bool]:
    """Return a file's layer, and whether `theirs`, typed keys of another tool, were merged into it."""
    layer = _rooted(model, read_file(path))
    if not issubclass(model, Translated):
        return layer, False
    if _is_run(path):
        layer = replace(layer, table=model.recorded(layer.table))
    used = bool(theirs) and any(map(model.is_foreign, dotted_keys(layer.table)))
    foreign = model.translate(_merged(layer.table, theirs) if used else layer.table, path)
    if foreign is None:
        return layer, False
    foreign.typed = theirs
    return foreign.layer(), used


def _rooted(model: type[Group], layer: Layer) -> Layer:
    """Return a file's layer with every ``${root}`` replaced by its top-level ``root``."""
    root = layer.table.get("root")
    if not isinstance(root, str) or "root" in model.model_fields:
        return layer
    table = interpolate({**layer.table, "root": str(Path(root).expanduser())}, Path(layer.name))
    return replace(layer, table={key: value for key, value in table.items() if key != "root"})


def _is_run(path: Path) -> bool:
    """Whether a path is a run folder, or the settings in one."""
    folder = path if path.is_dir() else path.parent
    return (folder == path or path.name == "config.json") and (folder / "run.json").is_file()


def _merged(table: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of nested tables with values set by dotted key."""
    merged: dict[str, Any] = deepcopy(dict(table))
    for key, value in values.items():
        *groups, last = key.split(".")
        into = merged
        for group in groups:
            if not isinstance(into.get(group), dict):
                into[group] = {}
            into = into[group]
        into[last] = value
    return merged


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
        table = _merged({}, self.values)
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
