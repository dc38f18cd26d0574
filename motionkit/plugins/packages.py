"""What listings and help say of motionkit's packages before one is imported, from ``packages.json``.

A package has there

- ``commands``: its commands, trainers (``pretrain NAME``) and protocols (``eval NAME``) in the order of listings, each
  with ``summary``, ``panel``, ``example`` and ``before``, the command that follows it in the list;
- ``defaults``: what a command takes if nothing is named;
- ``exports``: its formats of `motionkit export`, each with the options that act with it alone, and ``words`` on them;
  ``"of": "data"`` where they are not of models, and the words of several packages make one sentence;
- ``formats``: the formats of motions that it brings, each with the endings of its files; ``settings``: what these
  formats need to know, and ``variables``: names of environment variables that hold such settings;
- ``examples`` of motionkit's own commands, and ``words``: parts of their help and messages that name something of it;
- ``synonyms``: other tools' words for its commands.

A package that is not installed adds nothing. Other packages need no such file: listings have the summary of their
metadata.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any


@cache
def _all() -> Mapping[str, Mapping[str, Any]]:
    packages: dict[str, dict[str, Any]] = json.loads(
        Path(__file__).with_name("packages.json").read_text(encoding="utf-8")
    )
    return packages


@cache
def names() -> frozenset[str]:
    """Return the names of motionkit's own distributions, installed or not."""
    return frozenset(module.partition(".")[0].replace("_", "-") for module in _all())


@cache
def _part(name: str) -> list[Mapping[str, Any]]:
    """Return a part of every package that is there."""
    return [package[name] for module, package in _all().items() if name in package and module_exists(module)]


def owner_of(command: str) -> str:
    """Return the distribution that has a command, installed or not; empty if none of motionkit's has."""
    modules = (module for module, package in _all().items() if command in package.get("commands", ()))
    return next(modules, "").partition(".")[0].replace("_", "-")


def owner_of_format(name: str) -> str:
    """Return the distribution that has a format of motions, installed or not; empty if none of motionkit's has.

    Args:
        name: The format, or the ending of a file.
    """
    for module, package in _all().items():
        for word, endings in package.get("formats", {}).items():
            if name == word or name.lower().endswith(tuple(endings)):
                return module.replace("_", "-")
    return ""


def owner_of_export(name: str) -> str:
    """Return the distribution that has a format of `motionkit export`, installed or not; empty if none has."""
    modules = (module for module, package in _all().items() if name in package.get("exports", {}).get("formats", ()))
    return next(modules, "").partition(".")[0].replace("_", "-")


def owner_of_setting(name: str) -> str:
    """Return the distribution whose formats have a setting, installed or not; empty if none of motionkit's has."""
    modules = (module for module, package in _all().items() if name in package.get("settings", ()))
    return next(modules, "").replace("_", "-")


def variables() -> tuple[str, ...]:
    """Return the environment variables with settings of formats."""
    return tuple(name for package in _all().values() for name in package.get("variables", ()))


def commands() -> list[str]:
    """Return the commands of all packages, in the order of listings."""
    return [name for part in _part("commands") for name in part]


def about(command: str, fact: str) -> str:
    """Return a fact about a command: its ``summary``, ``panel``, ``example`` or ``before``; empty if there is none."""
    facts: Mapping[str, str] = _first("commands", command, {})
    return facts.get(fact, "")


def default(command: str) -> str:
    """Return what a command takes if nothing is named."""
    named: str = _first("defaults", command, "")
    return named


def example(command: str) -> str:
    """Return an example of a command."""
    of_ours: str = _first("examples", command, "")
    return about(command, "example") or of_ours


def words(about_what: str) -> str:
    """Return what the packages add to a sentence of motionkit's."""
    return "".join(part.get(about_what, "") for part in _part("words"))


def synonyms() -> dict[str, list[str]]:
    """Return other tools' words for the packages' commands, each with the commands that may be meant."""
    found: dict[str, list[str]] = {}
    for part in _part("synonyms"):
        for word, commands_meant in part.items():
            found.setdefault(word, []).extend(commands_meant)
    return found


def formats() -> dict[str, list[str]]:
    """Return the formats of `motionkit export`, each with the options that act with it alone."""
    return {name: options for part in _part("exports") for name, options in part["formats"].items()}


def about_formats() -> str:
    """Return what help says of these formats: those of models, then those of data."""
    of_data = [part["words"] for part in _part("exports") if part.get("of") == "data"]
    of_models = [part["words"] for part in _part("exports") if part.get("of") != "data"]
    return "".join([*of_models, "; ".join(of_data) + ". " if of_data else ""])


def _first(part: str, name: str, otherwise: Any) -> Any:
    return next((found[name] for found in _part(part) if name in found), otherwise)


def module_exists(name: str) -> bool:
    """Whether a module is there, without importing it or its parents."""
    top, *rest = name.split(".")
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        return False
    if spec is None:
        return False
    if not rest or not spec.submodule_search_locations:
        return not rest
    for folder in spec.submodule_search_locations:
        place = Path(folder).joinpath(*rest)
        if (
            place.with_suffix(".py").is_file()
            or (place / "__init__.py").is_file()
            or list(place.parent.glob(f"{place.name}.*.so"))
        ):
            return True
    return False
