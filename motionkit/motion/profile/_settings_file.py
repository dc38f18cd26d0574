"""Settings files that people edit, in JSON, TOML and YAML: reading them, and what writes each."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from motionkit.config import parse_jsonc
from motionkit.errors import MotionkitError
from motionkit.motion.profile._edit_json import dump as dump_json
from motionkit.motion.profile._edit_json import edit_json
from motionkit.motion.profile._edit_toml import dump_toml_file, edit_toml
from motionkit.motion.profile._edit_yaml import dump_yaml, edit_yaml

_LIMIT = 16 << 20


@dataclass(frozen=True)
class Format:
    """How a kind of settings file is read and written.

    Attributes:
        parse: Text and its origin to a document.
        edit: Text and values to set to the text with them; ValueError where it cannot be edited in place.
        dump: A table to a text of its own.
        empty: What a new file holds before the first edit.
    """

    parse: Callable[[str, str], object]
    edit: Callable[[str, Mapping[str, object]], str]
    dump: Callable[[Mapping[str, object]], str]
    empty: str = ""


def read_settings(path: Path) -> tuple[str, dict[str, Any]]:
    """Read a settings file; a file that is not there is empty.

    Raises:
        MotionkitError: The ending is unknown, or the file is malformed or no table of keys.
    """
    format_ = format_of(path)
    if not path.exists():
        if not path.parent.is_dir():
            raise MotionkitError(f"there is no folder {path.parent} to write {path.name} into.")
        return "", {}
    try:
        if path.stat().st_size > _LIMIT:
            raise MotionkitError(f"{path} is too large for settings.", why=f"at most {_LIMIT >> 20} MB are read.")
        text = path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise MotionkitError(f"{path} is not a text file (UTF-8).") from error
    except OSError as error:
        raise MotionkitError(f"{path} cannot be read: {error.strerror or error}.") from error
    table = format_.parse(text.removeprefix("\ufeff"), str(path))
    if not isinstance(table, dict):
        raise MotionkitError(f"{path} does not hold a table (key: value) at its top.")
    if odd := [key for key in table if not isinstance(key, str)]:
        raise MotionkitError(
            f"{path} has a key that is no text: {odd[0]!r}.",
            why="YAML reads numbers, and words like on, yes, off and no, as values.",
            fix='put the key in quotes, as in "on": 1.',
        )
    return text, table


def format_of(path: Path) -> Format:
    """Return the format that a file's ending tells.

    Raises:
        MotionkitError: The ending is unknown.
    """
    try:
        return _FORMATS[path.suffix.lower()]
    except KeyError:
        raise MotionkitError(
            f"settings file {path} is neither JSON, TOML nor YAML.", fix="name it .json, .jsonc, .toml or .yaml"
        ) from None


def _parse_yaml(text: str, origin: str) -> object:
    try:
        table = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise MotionkitError(f"{origin} is not valid YAML: {' '.join(str(error).split())}") from error
    return {} if table is None else table


def _parse_toml(text: str, origin: str) -> object:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise MotionkitError(f"{origin} is not valid TOML: {error}") from error


_JSON = Format(parse_jsonc, edit_json, lambda table: dump_json(dict(table), "") + "\n", "{\n}\n")
_YAML = Format(_parse_yaml, edit_yaml, dump_yaml)
_FORMATS = {
    ".json": _JSON,
    ".jsonc": _JSON,
    ".toml": Format(_parse_toml, edit_toml, dump_toml_file),
    ".yaml": _YAML,
    ".yml": _YAML,
}
