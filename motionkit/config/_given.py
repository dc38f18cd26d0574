"""What was given: files, variables, ``--set`` and flags, as layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from motionkit.config._foreign import Translated
from motionkit.config._group import Group
from motionkit.config._sources import Layer, nested, read_environment, read_file
from motionkit.errors import MotionkitError


@dataclass(frozen=True)
class Given:
    """What the command line gave.

    Attributes:
        flags: Path of a key to its value (text, or a list of texts for a flag that repeats).
        sets: ``key=value`` strings of ``--set``.
        files: Files of ``--config``, lowest first.
    """

    flags: Mapping[tuple[str, ...], Any] = field(default_factory=dict)
    sets: Sequence[str] = ()
    files: Sequence[Path] = ()


def read_layers(model: type[Group], given: Given) -> list[Layer]:
    """Return files, variables, ``--set`` and flags as layers, lowest first; each is read once.

    Raises:
        MotionkitError: A file cannot be read, or ``--set`` is not key=value.
    """
    files = [_read(model, path) for path in given.files]
    sets: dict[tuple[str, ...], str] = {}
    for text in given.sets:
        key, separator, value = text.partition("=")
        if not separator or not key.strip():
            raise MotionkitError(f"--set {text!r} is not key=value.", fix="--set optim.learning_rate=1e-4")
        sets[tuple(key.strip().split("."))] = value
    foreign = _translated(model, sets)
    typed = [Layer("command line", nested(model, values)) for values in (sets, given.flags)]
    return [*files, read_environment(model), *foreign, *typed]


def _translated(model: type[Group], sets: dict[tuple[str, ...], str]) -> list[Layer]:
    """Take another tool's names out of `sets` and return their layer; an empty list where there are none."""
    if not sets or not issubclass(model, Translated):
        return []
    found = model.translate_sets({".".join(path): value for path, value in sets.items()})
    if found is None:
        return []
    for key in found.taken:
        sets.pop(tuple(key.split(".")), None)
    return [found.layer(from_file=False)]


def _read(model: type[Group], path: Path) -> Layer:
    layer = read_file(path)
    foreign = model.translate(layer.table, path) if issubclass(model, Translated) else None
    return layer if foreign is None else foreign.layer()
