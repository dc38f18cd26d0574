"""Sources of settings: files, ``MOTIONKIT_*`` variables, the command line; each is one `Layer` of tables.

The settings of an older run lack those that were added later; `as_recorded` and `with_later` fill in what was in force
then.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from motionkit.config._other_words import which_setting
from motionkit.config._slots import slots_of
from motionkit.documents import read_json, read_toml, read_yaml
from motionkit.errors import MotionkitError

PREFIX = "MOTIONKIT_"
"""Prefix of the variables that hold settings."""

NOT_SETTINGS = ("MOTIONKIT_PLUGINS", "MOTIONKIT_DEBUG", "MOTIONKIT_CACHE", "MOTIONKIT_KERNELS", "MOTIONKIT_BLENDER")
"""Variables with that prefix that hold no setting."""

_PARTS = 20
"""Most parts of a dotted key."""

_LATER: tuple[tuple[str, str, str, Any], ...] = (
    ("dataset", "shapes", "scenes", "simple"),
    ("dataset", "shapes", "images", 80_000),  # without effect there, like the next three
    ("dataset", "shapes", "captioned", 0.08),
    ("dataset", "shapes", "lapse", 0.1),
    ("dataset", "shapes", "extra", 0.1),
    ("policy", "tiny-sa2va", "resize", False),
    ("loop1", "mask-to-caption", "listen", 0.0),
    ("loop2", "caption-to-mask", "learn", 0.0),
    ("loop2", "caption-to-mask", "absent", 0.0),
)
"""Field of a plugin, name of the plugin, its later option, and the value that keeps the earlier behaviour."""


@dataclass(frozen=True)
class Layer:
    """Values from one source."""

    name: str  # Name of the source in origins
    # Nested tables, keys as in the model. The value of a slot is the choice, a table of options, or a table of both,
    # with the choice under the key ``""``.
    table: Mapping[str, Any]
    # Whether it is a settings file or a run's. There a plugin's table also chooses the plugin, while flags and
    # variables only set its options; and no code runs because a file names it.
    from_file: bool = False
    # For a layer that repeats input from elsewhere: Python files and options that run code and were typed there
    # (``env.id=my_tasks:Push-v0``).
    code: frozenset[str] | None = None
    # Turns the path of a value into its origin; the layer's name by default.
    origin: Callable[[tuple[str, ...]], str] | None = None
    by_flag: bool = False  # Whether flags gave the values; an error about one names its flag
    warnings: tuple[str, ...] = ()  # Oddities that are not errors
    notes: tuple[str, ...] = ()  # Notes for the user on how it was read

    @property
    def typed(self) -> bool:
        """Whether the user typed it: on the command line, or in a variable."""
        return not self.from_file and self.code is None

    def origin_of(self, path: tuple[str, ...]) -> str:
        """Return the origin of the value at `path`."""
        return self.name if self.origin is None else self.origin(path)


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
    if file.name == "config.json" and (file.parent / "run.json").is_file():
        table = as_recorded(table)
    return Layer(str(path), table, from_file=True)


def flag_layer(model: type[BaseModel], flags: Mapping[tuple[str, ...], Any]) -> Layer:
    """Return the layer of flags, by the paths of their keys; one that is None or an empty list was not given."""
    given = {path: value for path, value in flags.items() if value not in (None, [], ())}
    return Layer("command line", nested(model, given), by_flag=True)


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


def as_recorded(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a recorded run, with options filled in that were added later.

    Example:
        >>> as_recorded({"loop1": {"name": "mask-to-caption", "kl": "k3"}})
        {'loop1': {'name': 'mask-to-caption', 'kl': 'k3', 'listen': 0.0}}
    """
    settings = dict(table)
    for field, name, option, value in _LATER:
        plugin = settings.get(field)
        if isinstance(plugin, Mapping) and plugin.get("name") == name and option not in plugin:
            settings[field] = {**plugin, option: value}
    return settings


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


def dotted_keys(table: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Yield the dotted keys of nested tables, those of the tables themselves too."""
    for name, value in table.items():
        yield f"{prefix}{name}"
        if isinstance(value, Mapping):
            yield from dotted_keys(value, f"{prefix}{name}.")


def variable(path: Iterable[str]) -> str:
    """Return the environment variable of a key."""
    return PREFIX + "__".join(path).upper().replace("-", "_")


def nested(model: type[BaseModel], values: Mapping[tuple[str, ...], Any]) -> dict[str, Any]:
    """Return the nested table of a `Layer` from values by path; the value at a slot's path is the choice."""
    chosen = slots_of(model)
    tables: dict[str, Any] = {}
    for path, value in values.items():
        if len(path) > _PARTS:
            raise MotionkitError(
                f"the key {'.'.join(path)[:40]}... has {len(path)} parts.",
                why=f"keys have at most {_PARTS}, such as optim.learning_rate.",
                fix="check what comes before = in --set, or the name of the variable.",
            )
        *parents, last = (*path, "") if len(path) == 1 and path[0] in chosen else path
        table = tables
        for part in parents:
            if not isinstance(table.get(part), dict):
                table[part] = {}
            table = table[part]
        table[last] = value
    return tables


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
