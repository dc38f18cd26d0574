"""Read, edit and write settings files in JSON, TOML and YAML."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from motionkit.clips.profile._edit_json import dump as dump_json
from motionkit.clips.profile._edit_json import edit_json
from motionkit.clips.profile._edit_toml import dump_toml_file, edit_toml
from motionkit.documents import parse_json, parse_toml, parse_yaml, read_text
from motionkit.errors import MotionkitError


@dataclass(frozen=True)
class SettingsFormat:
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


def dump_settings(path: Path, table: Mapping[str, object]) -> str:
    """Return settings as the text of a new file; its ending decides the format.

    Raises:
        MotionkitError: The ending is unknown.
    """
    return format_of(path).dump(table)


def format_of(path: Path) -> SettingsFormat:
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


def edit_yaml(text: str, changes: Mapping[str, object]) -> str:
    """Return the text with keys set at the top level of a block mapping.

    Args:
        text: YAML with one document; empty is fine.
        changes: Values to set; a key that is there is replaced in its place, others are added at the end.

    Raises:
        ValueError: The top is no block mapping.
    """
    node = yaml.compose(text, Loader=yaml.SafeLoader)
    places: dict[str, tuple[int, int]] = {}
    if node is not None:
        if not isinstance(node, yaml.MappingNode) or node.flow_style:
            raise ValueError("the top is no block of keys")
        for key, value in node.value:
            start, stop = key.start_mark.index, value.end_mark.index
            places[str(key.value)] = (start, start + len(_without_comments(text[start:stop])))
    fresh = ""
    edits: list[tuple[int, int, str]] = []
    for key, value in changes.items():
        written = dump_yaml({key: value})
        if key in places:
            edits.append((*places[key], written.rstrip("\n")))
        else:
            fresh += written
    for first, last, words in sorted(edits, reverse=True):
        text = text[:first] + words + text[last:]
    if fresh and text and not text.endswith("\n"):
        text += "\n"
    return text + fresh


def dump_yaml(table: Mapping[str, object]) -> str:
    """Write a mapping in block style, in its own order."""
    written: str = yaml.safe_dump(dict(table), sort_keys=False, allow_unicode=True, width=120)
    return written


def _without_comments(block: str) -> str:
    """Take blank lines and comments off the end: PyYAML lets a block reach to the next key."""
    lines = block.splitlines(keepends=True)
    while len(lines) > 1 and (not lines[-1].strip() or lines[-1].lstrip().startswith("#")):
        lines.pop()
    return "".join(lines).rstrip("\n")


_JSON = SettingsFormat(
    partial(parse_json, kind=dict), edit_json, lambda table: dump_json(dict(table), "") + "\n", "{\n}\n"
)
_YAML = SettingsFormat(partial(parse_yaml, kind=dict), edit_yaml, dump_yaml)
_FORMATS = {
    ".json": _JSON,
    ".jsonc": _JSON,
    ".toml": SettingsFormat(parse_toml, edit_toml, dump_toml_file),
    ".yaml": _YAML,
    ".yml": _YAML,
}
