"""Read, edit and write settings files in JSON, TOML and YAML."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from motionkit.clips.profile._edit_json import dump as dump_json
from motionkit.clips.profile._edit_json import edit_json
from motionkit.clips.profile._edit_toml import dump_toml_file, edit_toml
from motionkit.clips.profile._edit_yaml import dump_yaml, edit_yaml
from motionkit.documents import parse_json, parse_toml, parse_yaml, read_text
from motionkit.errors import MotionkitError


@dataclass(frozen=True)
class Format:
    """Functions that read and write one format of settings files.

    Attributes:
        parse: Parses a text; the second argument is its origin, for messages.
        edit: Returns a text with values set; ValueError if it cannot be edited in place.
        dump: Writes a table as a new text.
        empty: Text of an empty file.
    """

    parse: Callable[[str, str], dict[str, Any]]
    edit: Callable[[str, Mapping[str, object]], str]
    dump: Callable[[Mapping[str, object]], str]
    empty: str = ""


def read_settings(path: Path) -> tuple[str, dict[str, Any]]:
    """Read a settings file; a missing file counts as empty.

    Raises:
        MotionkitError: The ending is unknown, or the file is malformed or no table of keys.
    """
    format_ = format_of(path)
    if not path.exists():
        return "", {}
    text = read_text(path, mark=True)
    return text, format_.parse(text.removeprefix("\ufeff"), str(path))


def format_of(path: Path) -> Format:
    """Return the format of a file's ending.

    Raises:
        MotionkitError: The ending is unknown.
    """
    try:
        return _FORMATS[path.suffix.lower()]
    except KeyError:
        raise MotionkitError(
            f"settings file {path} is neither JSON, TOML nor YAML.", fix="name it .json, .jsonc, .toml or .yaml"
        ) from None


_JSON = Format(partial(parse_json, kind=dict), edit_json, lambda table: dump_json(dict(table), "") + "\n", "{\n}\n")
_YAML = Format(partial(parse_yaml, kind=dict), edit_yaml, dump_yaml)
_FORMATS = {
    ".json": _JSON,
    ".jsonc": _JSON,
    ".toml": Format(parse_toml, edit_toml, dump_toml_file),
    ".yaml": _YAML,
    ".yml": _YAML,
}
