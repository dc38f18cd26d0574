"""Where settings come from: files and ``MOTIONKIT_*`` variables, read through pydantic-settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import create_model
from pydantic_settings import BaseSettings, EnvSettingsSource, SettingsConfigDict

from motionkit.config._group import Group
from motionkit.config._problems import suggest
from motionkit.config._slots import slot_of
from motionkit.documents import read_json, read_toml, read_yaml
from motionkit.errors import MotionkitError

PREFIX = "MOTIONKIT_"
NOT_SETTINGS = ("MOTIONKIT_PLUGINS", "MOTIONKIT_DEBUG", "MOTIONKIT_CACHE", "MOTIONKIT_KERNELS")


@dataclass(frozen=True)
class Layer:
    """Values from one place.

    Attributes:
        name: What to call the place when an origin is printed.
        table: Nested tables, keys as in the model.
        from_file: Whether it is a settings file or a run's. There a plugin's table chooses the plugin, while flags and
            variables only set its options; and no code runs because a file names it.
        origin: Turns the path of a value into its origin; the layer's name by default.
    """

    name: str
    table: Mapping[str, Any]
    from_file: bool = False
    origin: Callable[[tuple[str, ...]], str] | None = None

    def origin_of(self, path: tuple[str, ...]) -> str:
        """Return where the value at `path` came from."""
        return self.name if self.origin is None else self.origin(path)


def read_file(path: Path) -> Layer:
    """Read a TOML, JSON (comments are fine) or YAML file; a run folder stands for its ``config.json``.

    Raises:
        MotionkitError: It is missing, has another suffix, cannot be read (see `motionkit.documents`), or is not a
            table.
    """
    file = path / "config.json" if path.is_dir() and (path / "config.json").is_file() else path
    if not file.is_file():
        raise MotionkitError(f"settings file {path} does not exist.", fix="check the path given to --config.")
    try:
        table = _parse(file)
    except MotionkitError as error:
        error.fix = error.fix or "mend the file given to --config."
        raise
    return Layer(str(path), table, from_file=True)


def read_environment(model: type[Group]) -> tuple[Layer, list[str]]:
    """Read the ``MOTIONKIT_*`` variables that name settings of `model`.

    Returns:
        The layer, and one warning for each variable that names no setting of this model.
    """
    source = EnvSettingsSource(_shadow(model))
    slots = [name for name, field in model.model_fields.items() if slot_of(field) is not None]
    table = {name: value for name, value in source().items() if name not in slots}
    for name in slots:
        if found := _slot_variables(name, source.env_vars):
            table[name] = found
    warnings = _unknown(model, source.env_vars)
    return Layer("environment", table, origin=lambda path: f"environment {variable(path)}"), warnings


def variable(path: tuple[str, ...]) -> str:
    """Return the environment variable of a key."""
    return PREFIX + "__".join(path).upper().replace("-", "_")


@lru_cache(maxsize=32)
def _shadow(model: type[Group]) -> type[BaseSettings]:
    # The sources of pydantic-settings want a BaseSettings class; ours stay plain models, usable without an environment.
    class Base(BaseSettings):
        model_config = SettingsConfigDict(
            env_prefix=PREFIX, env_nested_delimiter="__", enable_decoding=False, extra="allow"
        )

    fields: dict[str, Any] = {
        name: (dict[str, Any] if slot_of(field) is not None else field.annotation, None)
        for name, field in model.model_fields.items()
    }
    return create_model(f"{model.__name__}Sources", __base__=Base, **fields)


def _parse(file: Path) -> dict[str, Any]:
    suffix = file.suffix.lower()
    if suffix == ".toml":
        return read_toml(file)
    if suffix in (".json", ".jsonc"):
        return read_json(file, dict)
    if suffix in (".yaml", ".yml"):
        return read_yaml(file, dict)
    raise MotionkitError(
        f"settings file {file} is neither TOML, JSON nor YAML.", fix="name it .toml, .json, .yaml or .yml"
    )


def _slot_variables(name: str, variables: Mapping[str, str | None]) -> Any:
    # Read by hand: a slot's options belong to a plugin that may not be known yet, and must stay text until it is.
    start = f"{PREFIX}{name}".lower()
    found: dict[str, Any] = {}
    for key, value in variables.items():
        if key.startswith(f"{start}__") and value is not None:
            *parents, last = key[len(start) + 2 :].split("__")
            table = found
            for part in parents:
                table = table.setdefault(part, {})
            table[last] = value
    bare = variables.get(start)
    return found if bare is None else {"": bare, **found}


def _unknown(model: type[Group], variables: Mapping[str, str | None]) -> list[str]:
    known = {variable((name,)) for name in model.model_fields} | set(NOT_SETTINGS)
    warnings = []
    for key in variables:
        name = key.upper()
        if name.startswith(PREFIX) and name not in known and name.partition("__")[0] not in known:
            hint = suggest(name, known)
            warnings.append(f"{name} is not a setting of this command and has no effect{f'; {hint}' if hint else ''}")
    return warnings
