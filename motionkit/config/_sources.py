"""Sources of settings: files, ``MOTIONKIT_*`` variables, ``--set`` and flags; `read_layers` reads each as a `Layer`.

The settings of an older run lack those that were added later; `as_recorded` fills in what was in force then.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from motionkit import plugins
from motionkit.config._layer import Layer, dotted_keys, flag_layer, nested
from motionkit.config._problems import which_setting
from motionkit.config._references import interpolate
from motionkit.config._resolve import Resolved, S, Settings, resolve_layers
from motionkit.config._slots import slots_of
from motionkit.config._tree import put
from motionkit.documents import parse_yaml, read_json, read_toml, read_yaml
from motionkit.errors import MotionkitError
from motionkit.plugins import packages

PREFIX = "MOTIONKIT_"
"""Prefix of the variables that hold settings."""

NOT_SETTINGS = (
    "MOTIONKIT_PLUGINS", "MOTIONKIT_DEBUG", "MOTIONKIT_CACHE", "MOTIONKIT_KERNELS", *packages.variables(),
)  # fmt: skip
"""Variables with that prefix that hold no setting."""


def resolve(
    model: type[S],
    flags: Mapping[tuple[str, ...], Any] | None = None,
    sets: Sequence[str] = (),
    files: Sequence[Path] = (),
    *,
    command: str = "",
) -> Resolved[S]:
    """Read files, variables, ``key=value`` and flags, and resolve them (`read_layers`, `resolve_layers`).

    Example:
        >>> from motionkit.config import Settings, resolve
        >>> class Train(Settings):
        ...     num_steps: int = 100
        >>> resolved = resolve(Train, sets=["num_steps=20"])
        >>> resolved.settings.num_steps, resolved.origins["num_steps"]
        (20, 'command line')
    """
    return resolve_layers(model, read_layers(model, flags, sets, files), command=command)


def read_layers(
    model: type[Settings],
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
    theirs: dict[str, Any] = {}  # Of another tool
    for text in sets:
        key, separator, value = text.partition("=")
        if not separator or not key.strip():
            raise MotionkitError(f"--set {text!r} is not key=value.", fix="--set optim.learning_rate=1e-4")
        if model.is_foreign(key.strip()):
            theirs[key.strip()] = _typed(key.strip(), value)
        else:
            values[tuple(key.strip().split("."))] = value
    read = [_read(model, path, theirs) for path in files]
    typed = [Layer("command line", nested(model, values)), flag_layer(model, flags or {})]
    if theirs and not any(used for _, used in read):
        typed.insert(0, model.translate_sets(theirs).layer(from_file=False))
    if repeated:
        typed = [replace(layer, name=repeated, code=frozenset()) for layer in typed]
    return [*(layer for layer, _ in read), read_environment(model), *typed]


def _typed(key: str, text: str) -> Any:
    try:
        return parse_yaml(text, f"--set {key}", object)
    except MotionkitError:
        return text


def _read(model: type[Settings], path: Path, theirs: Mapping[str, Any]) -> tuple[Layer, bool]:
    """Return a file's layer, and whether `theirs`, typed keys of another tool, were merged into it."""
    layer = read_file(path)
    root = layer.table.get("root")
    if isinstance(root, str) and "root" not in model.model_fields:
        table = interpolate({**layer.table, "root": str(Path(root).expanduser())}, Path(layer.name))
        layer = replace(layer, table={key: value for key, value in table.items() if key != "root"})
    folder = path if path.is_dir() else path.parent
    if (folder == path or path.name == "config.json") and (folder / "run.json").is_file():
        layer = replace(layer, table=as_recorded(model, layer.table))
    table, used = dict(layer.table), bool(theirs) and any(map(model.is_foreign, dotted_keys(layer.table)))
    if used:
        table = deepcopy(table)
        for key, value in theirs.items():
            put(table, key.split("."), value)
    foreign = model.translate(table, path)
    if foreign is None:
        return layer, False
    foreign.typed = theirs
    return foreign.layer(), used


def read_file(path: Path) -> Layer:
    """Read a TOML, JSON (comments are fine) or YAML file; a run folder stands for its ``config.json``."""
    file = path / "config.json" if path.is_dir() and (path / "config.json").is_file() else path
    if not file.is_file():
        raise MotionkitError(f"settings file {path} does not exist.", fix="check the path given to --config.")
    try:
        table = _parse(file)
    except MotionkitError as error:
        error.fix = error.fix or "mend the file given to --config."
        raise
    return Layer(str(path), table, from_file=True)


def read_environment(model: type[BaseModel]) -> Layer:
    """Read the ``MOTIONKIT_*`` variables; one that is not a setting of `model` gives a warning.

    Names may have any case; values stay text.
    """
    given: dict[tuple[str, ...], str] = {}
    warnings = []
    known = {variable((name,)) for name in model.model_fields} | set(NOT_SETTINGS)
    for name, text in _variables().items():
        path = tuple(name.removeprefix(PREFIX).lower().split("__"))
        if path[0] in model.model_fields:
            given[path] = text
        else:
            hint = which_setting(name.removeprefix(PREFIX), [other.removeprefix(PREFIX) for other in known])
            hint = hint.replace("did you mean ", f"did you mean {PREFIX}")
            warnings.append(f"{name} is not a setting of this command and has no effect{f'; {hint}' if hint else ''}")
    table = nested(model, given)
    return Layer("environment", table, origin=lambda path: f"environment {variable(path)}", warnings=tuple(warnings))


def _variables() -> dict[str, str]:
    """Return the variables with our prefix, by their name in capitals."""
    if not any(name.upper().startswith(PREFIX) and name.upper() not in NOT_SETTINGS for name in os.environ):
        return {}  # pydantic-settings takes 0.1 s to import
    from pydantic_settings import BaseSettings, EnvSettingsSource

    source = EnvSettingsSource(BaseSettings, case_sensitive=False, env_prefix=PREFIX, env_nested_delimiter="__")
    variables = {name.upper(): text for name, text in source.env_vars.items() if text is not None}
    return {name: text for name, text in variables.items() if name.startswith(PREFIX) and name not in NOT_SETTINGS}


def as_recorded(model: type[Settings], table: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the settings of a recorded run with the meaning they had then.

    What was added later is filled in: options of plugins (`motionkit.plugins.Component.later`), then settings of the
    command (`Settings.recorded`).
    """
    settings = dict(table)
    for name, slot in slots_of(model).items():
        value = settings.get(name)
        if isinstance(value, Mapping) and slot.many:
            settings[name] = {
                word: plugins.recorded(slot.kind, word, options) if isinstance(options, Mapping) else options
                for word, options in value.items()
            }
        elif isinstance(value, Mapping):
            settings[name] = plugins.recorded(slot.kind, value.get("name"), value)
    return model.recorded(settings)


def with_later(table: Mapping[str, Any], later: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the settings of a recorded run, with settings of its groups filled in that were added later.

    Args:
        table: Nested tables; values that are present stay.
        later: By group, each later setting with the value that keeps the earlier behaviour.

    Example:
        >>> with_later({"loss": {"root": 0.02}}, {"loss": {"place": 0.0}, "clone": {"steps": 0}})
        {'loss': {'place': 0.0, 'root': 0.02}, 'clone': {'steps': 0}}
    """
    return {**table, **{group: {**values, **(table.get(group) or {})} for group, values in later.items()}}


def variable(path: Iterable[str]) -> str:
    """Return the environment variable of a key."""
    return PREFIX + "__".join(path).upper().replace("-", "_")


def cache_folder() -> Path:
    """Return the folder for data that can be recreated.

    It is ``$MOTIONKIT_CACHE``, else ``$XDG_CACHE_HOME/motionkit``, else ``~/.cache/motionkit``.
    """
    if folder := os.environ.get("MOTIONKIT_CACHE"):
        return Path(folder)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "motionkit"


def _parse(file: Path) -> dict[str, Any]:
    suffix = file.suffix.lower()
    if suffix == ".toml":
        return read_toml(file)
    if suffix in (".json", ".jsonc"):
        return read_json(file, dict, unique=True)
    if suffix in (".yaml", ".yml"):
        return read_yaml(file, dict)
    raise MotionkitError(
        f"settings file {file} is neither TOML, JSON nor YAML.", fix="name it .toml, .json, .yaml or .yml"
    )
