"""What was given: files, variables, ``--set`` and flags, as layers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from motionkit.config._foreign import Translated
from motionkit.config._group import Group
from motionkit.config._sources import Layer, nested, read_environment, read_file
from motionkit.documents import parse_yaml
from motionkit.errors import MotionkitError


@dataclass(frozen=True)
class Given:
    """What the command line gave.

    Attributes:
        flags: Path of a key to its value (text, or a list of texts for a flag that repeats).
        sets: ``key=value`` strings of ``--set``.
        files: Files of ``--config``, lowest first.
        repeated: The file that the flags and sets stand in, where they were not typed.
    """

    flags: Mapping[tuple[str, ...], Any] = field(default_factory=dict)
    sets: Sequence[str] = ()
    files: Sequence[Path] = ()
    repeated: str = ""


def read_layers(model: type[Group], given: Given) -> list[Layer]:
    """Return files, variables, ``--set`` and flags as layers, lowest first; each is read once.

    Raises:
        MotionkitError: A file cannot be read, or ``--set`` is not key=value.
    """
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
    layer = read_file(path)
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
