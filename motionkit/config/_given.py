"""What was given: files, variables, ``--set`` and flags, as layers."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from motionkit import plugins
from motionkit.config._problems import Problem, SettingsError
from motionkit.config._slots import Group, slots_of
from motionkit.config._tree import MISSING, Leaf, dotted, leaves
from motionkit.config.sources import Layer, nested, read_environment, read_file
from motionkit.documents import parse_yaml
from motionkit.errors import MotionkitError

# Settings files that were written for another tool: what they mean here.


@dataclass
class Foreign:
    """Another tool's settings, while they are given the names that they have here.

    `Translated.translate` returns one. Values are validated later, as those of any file.
    """

    path: Path  # The file
    values: dict[str, Any] = field(default_factory=dict)  # By dotted key here
    sources: dict[str, str] = field(default_factory=dict)  # By dotted key here, the key in the file
    notes: list[str] = field(default_factory=list)  # What the user should know, a paragraph each
    typed: Collection[str] = ()  # Keys of the other tool that were typed, in place of those of the file

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
        """
        return table

    @classmethod
    def translate(cls, table: Mapping[str, Any], path: Path) -> Foreign | None:
        """Return what a settings file means that was written for another tool.

        Returns:
            Its values by their names here; None for a file of motionkit's own.
        """
        return None

    @classmethod
    def is_foreign(cls, key: str) -> bool:
        """Whether a dotted key is another tool's, so that ``--set`` takes it.

        With a file of that tool such values replace those of the file, before it is translated.
        """
        return False

    @classmethod
    def translate_sets(
        cls,
        sets: Mapping[str, Any],  # values by dotted key, all of them `is_foreign`
    ) -> Foreign:
        """Return what another tool's dotted names mean that were typed and that no file goes with."""
        raise NotImplementedError


def renamed(pairs: Mapping[str, str]) -> str:
    """Return keys of a file with their names here, in one line; those that stay as they are come last."""
    moved = [f"{old} → {new}" for old, new in pairs.items() if old != new]
    same = [old for old, new in pairs.items() if old == new]
    return ", ".join(moved + ([f"unchanged: {', '.join(same)}"] if same else []))


@dataclass(frozen=True)
class Given:
    """What the command line gave."""

    # Path of a key to its value (text, or a list of texts for a flag that repeats).
    flags: Mapping[tuple[str, ...], Any] = field(default_factory=dict)
    sets: Sequence[str] = ()  # ``key=value`` strings of ``--set``
    files: Sequence[Path] = ()  # Files of ``--config``, lowest first
    repeated: str = ""  # The file that the flags and sets stand in, where they were not typed


def read_layers(model: type[Group], given: Given) -> list[Layer]:
    """Return files, variables, ``--set`` and flags as layers, lowest first; each is read once."""
    sets: dict[tuple[str, ...], str] = {}
    for text in given.sets:
        key, separator, value = text.partition("=")
        if not separator or not key.strip():
            raise MotionkitError(f"--set {text!r} is not key=value.", fix="--set optim.learning_rate=1e-4")
        sets[tuple(key.strip().split("."))] = value
    theirs = _take_foreign(model, sets)
    used = False
    files = []
    for path in given.files:
        layer, changed = _read(model, path, theirs)
        files.append(layer)
        used |= changed
    foreign = []
    if theirs and not used and issubclass(model, Translated):
        foreign = [model.translate_sets(theirs).layer(from_file=False)]
    typed = [*foreign, *(Layer("command line", nested(model, values)) for values in (sets, given.flags))]
    if given.repeated:
        typed = [replace(layer, name=given.repeated, code=frozenset()) for layer in typed]
    return [*files, read_environment(model), *typed]


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
    """Return a file's layer, and whether `theirs`, typed names of another tool, went into it."""
    layer = _rooted(model, read_file(path))
    if not issubclass(model, Translated):
        return layer, False
    if _is_run(path):
        layer = replace(layer, table=model.recorded(layer.table))
    used = bool(theirs) and any(map(model.is_foreign, _keys(layer.table)))
    foreign = model.translate(_merged(layer.table, theirs) if used else layer.table, path)
    if foreign is None:
        return layer, False
    foreign.typed = theirs
    return foreign.layer(), used


def _rooted(model: type[Group], layer: Layer) -> Layer:
    """Return a file's layer with its ``root`` put in where it says ``${root}``; such a file names one folder once."""
    root = layer.table.get("root")
    if not isinstance(root, str) or "root" in model.model_fields:
        return layer
    table = interpolate({**layer.table, "root": str(Path(root).expanduser())}, Path(layer.name))
    return replace(layer, table={key: value for key, value in table.items() if key != "root"})


def _is_run(path: Path) -> bool:
    """Whether a path is a run folder, or the settings in one."""
    folder = path if path.is_dir() else path.parent
    return (folder == path or path.name == "config.json") and (folder / "run.json").is_file()


def _keys(table: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for name, value in table.items():
        yield f"{prefix}{name}"
        if isinstance(value, Mapping):
            yield from _keys(value, f"{prefix}{name}.")


def _merged(table: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a table with values put in by dotted key."""
    found: dict[str, Any] = deepcopy(dict(table))
    for key, value in values.items():
        *groups, last = key.split(".")
        into = found
        for group in groups:
            if not isinstance(into.get(group), dict):
                into[group] = {}
            into = into[group]
        into[last] = value
    return found


# The references ``${a.b}`` of OmegaConf's files, and no more of it.

_REFERENCE = re.compile(r"\$\{([^${}]*)\}")
_NAME = re.compile(r"[\w-]+(\.[\w-]+)*")
_MOST = 4096
"""Letters of a text with its references put in; each may double it."""


def interpolate(table: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """Return a file's table with every ``${a.b}`` replaced by the value at that key.

    A text that is one reference becomes the value itself, of any type; within a text the value is written out.

    Example:
        >>> interpolate({"out": "results", "save": "${out}/run"}, Path("train.yaml"))
        {'out': 'results', 'save': 'results/run'}
    """
    reader = _Reader(table, path)
    found = {key: reader.value(value, (key,)) for key, value in table.items()}
    if reader.problems:
        raise SettingsError(list({(one.key, one.message): one for one in reader.problems}.values()))
    return found


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
        whole = _REFERENCE.fullmatch(value)
        if whole:
            return self._refer(whole[1], place, value)
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
        found: Any = self._table
        for part in name.split("."):
            if not isinstance(found, Mapping) or part not in found:
                return self._refuse(place, f"refers to {name}, which is not in the file", value, "write the value out")
            found = found[part]
        self._open.append(name)
        try:
            return self.value(found, tuple(name.split(".")))
        finally:
            self._open.pop()

    def _refuse(self, place: tuple[str, ...], message: str, value: str, fix: str) -> None:
        self.problems.append(Problem(".".join(place), message, str(self._path), repr(value), fix))


# Settings as the words of a command line: what a person types to use them again.


def words_for(model: type[BaseModel], settings: Mapping[str, Any], fields: Sequence[str]) -> list[str]:
    """Return the words that give a command some of the settings of a run.

    Args:
        model: Settings of the command.
        settings: Settings as `Resolved.snapshot` returns them, of this command or of another.
        fields: Names of slots that hold one plugin, and of other groups and settings; those that `model` lacks are
            passed over.

    Returns:
        Flags with values, of what differs from the command's defaults.

    Example:
        >>> from motionkit.plugins import get
        >>> model = get("trainers", "grpo").options
        >>> words_for(model, {"dataset": {"name": "humanml", "root": "my data", "fps": 20.0}, "seed": 3}, ("dataset",))
        ['--dataset', 'humanml', '--dataset.root', 'my data']
    """
    slots = slots_of(model)
    known = list(leaves(model))
    found: list[str] = []
    for key in fields:
        if key in slots:
            found += slot_words(key, settings.get(key), slots[key].kind, default="".join(slots[key].default))
            continue
        for leaf in known:
            if leaf.path[0] == key:
                found += _words(leaf, _at(settings, leaf.path), leaf.flag if leaf.cli is not None else "")
    return found


def slot_words(field: str, table: object, kind: str, *, default: str = "") -> list[str]:
    """Return the words that choose a plugin with its options, of what differs from the defaults.

    Args:
        field: Name of the slot, such as ``dataset``.
        table: ``{"name": ..., options}``, as config.json of a run has it; what has another form gives no words.
        kind: Plugin kind.
        default: Name of the plugin that the command takes by itself.
    """
    if not isinstance(table, Mapping) or not isinstance(name := table.get("name"), str):
        return []
    found = [] if name == default else [dotted((field,)), name]
    with suppress(MotionkitError):  # a plugin may be gone; a file of code is not run to learn its options
        if not plugins.is_file(name):
            for leaf in leaves(plugins.get(kind, name).options):
                hidden = leaf.cli is not None and leaf.cli.hidden
                flag = "" if hidden else dotted((field, *leaf.path))
                found += _words(leaf, _at(table, leaf.path), flag, key=".".join((field, *leaf.path)))
            return found
    for option, value in table.items():
        if option != "name" and isinstance(value, (str, int, float)) and not isinstance(value, bool):
            found += [dotted((field, option)), str(value)]
    return found


def _words(leaf: Leaf, value: Any, flag: str, *, key: str = "") -> Iterator[str]:
    """Yield the words that give one setting its value; none where it is the default."""
    default = None if leaf.default is MISSING else to_jsonable_python(leaf.default, fallback=str)
    if value is MISSING or to_jsonable_python(value, fallback=str) == default:
        return
    if not flag or value is None:
        yield from ("--set", f"{key or leaf.key}={_text(value)}")
    elif leaf.is_switch:
        positive = "--" + flag.removeprefix("--no-") if flag.startswith("--no-") else flag
        yield positive if value else f"--no-{positive.removeprefix('--')}"
    elif isinstance(value, (list, tuple)) and leaf.cli is not None and leaf.cli.values > 1:
        yield flag
        yield from map(_text, value)
    elif leaf.is_many and isinstance(value, (list, tuple)):
        for one in value:
            yield flag
            yield _text(one)
    else:
        yield flag
        yield _text(value)


def _at(table: Mapping[str, Any], path: Sequence[str]) -> Any:
    value: Any = table
    for part in path:
        if not isinstance(value, Mapping) or part not in value:
            return MISSING
        value = value[part]
    return value


def _text(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "none", True: "true", False: "false"}[value]
    if isinstance(value, (list, tuple)):
        return ",".join(map(_text, value))
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return json.dumps(value, ensure_ascii=False) if isinstance(value, Mapping) else str(value)
