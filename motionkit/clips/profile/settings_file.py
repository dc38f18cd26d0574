"""Read, edit and write settings files in JSON, TOML and YAML."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from motionkit.documents import parse_json, parse_toml, parse_yaml, plain_json, read_text
from motionkit.errors import MotionkitError
from motionkit.runs import write_bytes_atomic

if TYPE_CHECKING:
    from tomlkit.container import Container
    from tomlkit.items import Table


# Set top-level keys of a JSON text and leave every other character as it is.


_DECODER = json.JSONDecoder()
_SPACE = re.compile(r"\s*")


def edit_json(text: str, changes: Mapping[str, object]) -> str:
    """Return the text with keys set at the top level; comments, order and spacing of the rest stay.

    Args:
        text: A JSON object, with or without comments and trailing commas.
        changes: Values to set; a key that is there is replaced in its place, others are added at the end.

    Raises:
        ValueError: The text is no JSON object.
    """
    plain = plain_json(text)
    places, start, stop = _places(plain)
    indent = _indent(text, places)
    edits: list[tuple[int, int, str]] = []
    fresh: list[str] = []
    for key, value in changes.items():
        if key in places:
            edits.append((*places[key], dump(value, indent)))
        else:
            fresh.append(f"{indent}{json.dumps(key, ensure_ascii=False)}: {dump(value, indent)}")
    if fresh:
        last = max((end for _, end in places.values()), default=start)
        edits.append((last, stop, _tail(text[last:stop], bool(places)) + ",\n".join(fresh) + "\n"))
    for first, last, words in sorted(edits, reverse=True):
        text = text[:first] + words + text[last:]
    return text


def dump(value: object, indent: str = "  ") -> str:
    """Write a value over several lines, short lists on one; `indent` is that of its own line."""
    return _written(value, indent, "  " if not indent.strip(" ") else indent)


def _written(value: object, outer: str, step: str) -> str:
    line = json.dumps(value, ensure_ascii=False)
    flat = not isinstance(value, (dict, list)) or not any(isinstance(part, (dict, list)) for part in _parts(value))
    if not isinstance(value, (dict, list)) or not value or (flat and len(line) <= 80):
        return line
    inner = outer + step
    if isinstance(value, dict):
        rows = [
            f"{json.dumps(str(key), ensure_ascii=False)}: {_written(part, inner, step)}" for key, part in value.items()
        ]
        return "{\n" + ",\n".join(inner + row for row in rows) + f"\n{outer}}}"
    return "[\n" + ",\n".join(inner + _written(part, inner, step) for part in value) + f"\n{outer}]"


def _parts(value: object) -> list[object]:
    return list(value.values()) if isinstance(value, dict) else list(value) if isinstance(value, list) else []


def _places(plain: str) -> tuple[dict[str, tuple[int, int]], int, int]:
    """Return where each top-level value stands, and the places after ``{`` and of ``}``."""
    place = _skip(plain, 1 if plain.startswith("\ufeff") else 0)
    if plain[place : place + 1] != "{":
        raise ValueError("no object at the top")
    start = place + 1
    places: dict[str, tuple[int, int]] = {}
    place = _skip(plain, start)
    while plain[place : place + 1] != "}":
        key, place = _DECODER.raw_decode(plain, place)
        place = _skip(plain, place)
        if plain[place : place + 1] != ":":
            raise ValueError("a key without a value")
        first = _skip(plain, place + 1)
        _, last = _DECODER.raw_decode(plain, first)
        places[str(key)] = (first, last)
        place = _skip(plain, last)
        if plain[place : place + 1] == ",":
            place = _skip(plain, place + 1)
    return places, start, place


def _skip(plain: str, place: int) -> int:
    found = _SPACE.match(plain, place)
    return found.end() if found else place


def _indent(text: str, places: Mapping[str, tuple[int, int]]) -> str:
    """Return the indent of the first key; two blanks without one."""
    for first, _ in places.values():
        line = text[text.rfind("\n", 0, first) + 1 : first]
        blank = line[: len(line) - len(line.lstrip())]
        if line.lstrip().startswith('"') and blank:
            return blank
    return "  "


def _tail(between: str, after_value: bool) -> str:
    """Return the text before new keys: that between the last value and the brace, with a comma."""
    bare = re.sub(r"//[^\r\n]*|/\*.*?\*/", "", between, flags=re.DOTALL)
    comma = "," if after_value and "," not in bare else ""
    return f"{comma}{between.rstrip()}\n"


# Set top-level keys and tables of a TOML text and leave the rest of it as it is.


_LIMIT = 1 << 15
"""Letters of a text that is edited; tomlkit takes up to 0.3 ms a letter."""


def edit_toml(text: str, changes: Mapping[str, object]) -> str:
    """Return the text with keys set: values before the first table, tables as ``[name]`` at the end.

    Args:
        text: TOML that `motionkit.documents.parse_toml` accepts (it bounds depth and values); empty is fine.
        changes: Values to set; a key that is there is replaced in its place, and in a table ``[name]`` that is there
            each key is; others are added after the last one.

    Raises:
        ValueError: A key to be replaced is written as a list of tables or with dots, TOML has no such value, or the
            text is longer than 32,768 letters.
    """
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    if text and not changes:
        return text
    if len(text) > _LIMIT:
        raise ValueError(f"{len(text)} letters are too many to edit")
    try:
        document = tomlkit.parse(text)
        for key, value in changes.items():
            if isinstance(value, Mapping) and key not in document:
                document.append(key, tomlkit.table())
        _set(document, changes)
        edited = tomlkit.dumps(document)
    except TOMLKitError as error:
        raise ValueError(str(error)) from error
    return edited if edited.endswith("\n") else f"{edited}\n"


def dump_toml_file(table: Mapping[str, object]) -> str:
    """Write a table as a file of its own, its tables as ``[name]`` at the end; keys without a value are left out."""
    # As text: tomlkit takes time with the square of the number of keys that are added.
    text = _lines({key: value for key, value in table.items() if not isinstance(value, Mapping)})
    for key, value in table.items():
        if isinstance(value, Mapping):
            text += f"\n[{_key(key)}]\n{_lines(value)}"
    return text.lstrip("\n") or "\n"


def dump_toml(value: object) -> str:
    """Write a value; lists of tables take a line per table.

    Raises:
        ValueError: TOML has no such value.
    """
    import tomlkit

    if isinstance(value, Mapping):
        inside = _lines(value, ", ").removesuffix(", ")
        return f"{{ {inside} }}" if inside else "{}"
    if isinstance(value, list):
        parts = [dump_toml(part) for part in value]
        if any(isinstance(part, Mapping) for part in value):
            return "[\n" + "".join(f"  {part},\n" for part in parts) + "]"
        return f"[{', '.join(parts)}]"
    return tomlkit.item(value).as_string()


def _lines(table: Mapping[str, object], end: str = "\n") -> str:
    return "".join(f"{_key(key)} = {dump_toml(value)}{end}" for key, value in table.items() if value is not None)


def _key(key: str) -> str:
    import tomlkit

    return tomlkit.key(key).as_string()


def _set(table: Container | Table, changes: Mapping[str, object]) -> None:
    """Set the keys of a table that differ; None leaves a key as it is."""
    import tomlkit
    from tomlkit.container import OutOfOrderTableProxy
    from tomlkit.items import AoT, Table

    plain = table.unwrap()
    for key, value in changes.items():
        if value is None or (key in plain and plain[key] == value):
            continue
        old = table.get(key)
        if isinstance(old, Table) and not old.is_super_table() and isinstance(value, Mapping):
            _set(old, value)
        elif isinstance(old, (AoT, OutOfOrderTableProxy, Table)):
            raise ValueError(f"{key} is written as several tables or with dots")
        else:
            table[key] = tomlkit.value(dump_toml(value))


@dataclass(frozen=True)
class SettingsFormat:
    """Functions that read and write one format of settings files."""

    parse: Callable[[str, str], dict[str, Any]]  # Parses a text; the second argument is its origin, for messages
    # Returns a text with values set; ValueError if it cannot be edited in place.
    edit: Callable[[str, Mapping[str, object]], str]
    dump: Callable[[Mapping[str, object]], str]  # Writes a table as a new text
    empty: str = ""  # Text of an empty file


def read_settings(path: Path) -> tuple[str, dict[str, Any]]:
    """Read a settings file; a missing file counts as empty."""
    format_ = format_of(path)
    if not path.exists():
        return "", {}
    text = read_text(path, mark=True)
    return text, format_.parse(text.removeprefix("\ufeff"), str(path))


def dump_settings(path: Path, table: Mapping[str, object]) -> str:
    """Return settings as the text of a new file; its ending decides the format."""
    return format_of(path).dump(table)


def format_of(path: Path) -> SettingsFormat:
    """Return the format of a file's ending."""
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


_JSON = SettingsFormat(partial(parse_json, kind=dict), edit_json, lambda table: dump(dict(table), "") + "\n", "{\n}\n")
_YAML = SettingsFormat(partial(parse_yaml, kind=dict), edit_yaml, dump_yaml)
_FORMATS = {
    ".json": _JSON,
    ".jsonc": _JSON,
    ".toml": SettingsFormat(parse_toml, edit_toml, dump_toml_file),
    ".yaml": _YAML,
    ".yml": _YAML,
}


# Write suggested settings into a settings file and keep what the user wrote there.


BLOCK = "dataset_profile"
"""Key of the statistics, which are always updated."""


@dataclass
class Merged:
    """Result of `merge_settings`."""

    path: Path  # The file
    created: bool = False  # Whether it was new
    added: list[str] = field(default_factory=list)  # Keys that were added
    same: list[str] = field(default_factory=list)  # Keys that have the suggested value already
    # Keys it has with another value, which stays: (its value, the suggestion).
    kept: dict[str, tuple[Any, Any]] = field(default_factory=dict)
    # Keys whose value was replaced: (the value before, the suggestion).
    replaced: dict[str, tuple[Any, Any]] = field(default_factory=dict)
    backup: Path | None = None  # Copy of the old file, if its comments could not be kept
    text: str = ""  # The new contents

    def document(self) -> dict[str, object]:
        """Return the result as a JSON document."""
        return {
            "path": str(self.path),
            "created": self.created,
            "added": self.added,
            "same": self.same,
            "kept": {key: {"value": have, "suggested": new} for key, (have, new) in self.kept.items()},
            "replaced": {key: {"before": have, "value": new} for key, (have, new) in self.replaced.items()},
            "backup": None if self.backup is None else str(self.backup),
        }


def merge_settings(
    path: Path, settings: Mapping[str, Any], block: Mapping[str, Any], *, overwrite: bool = False
) -> Merged:
    """Write settings into a JSON, JSON with comments, TOML or YAML file.

    Keys that the file lacks are added, keys it has keep their value unless `overwrite`, everything else stays as it
    is, comments and order included. Where a file is written in a way that cannot be edited in place, it is written
    anew and a copy of it is left as ``FILE.bak`` (``FILE.bak2``, ... when that is taken). A missing file is made.

    Args:
        path: The file; its ending decides the format.
        settings: Keys of the top level.
        block: Statistics, for the key `BLOCK`; other keys in it stay. Empty leaves the key alone.
        overwrite: Replace values that differ.

    Returns:
        What was done.

    Example:
        >>> path = Path("settings.toml")
        >>> size = path.write_text("epochs = 30 # enough")
        >>> merged = merge_settings(path, {"epochs": 20, "batch": 4}, {"n_clips": 3})
        >>> merged.added, merged.kept
        (['batch'], {'epochs': (30, 20)})
        >>> path.read_text().splitlines()[0]
        'epochs = 30 # enough'
    """
    text, have = read_settings(path)
    format_ = format_of(path)
    result = Merged(path, created=not path.exists())
    changes: dict[str, Any] = {}
    for key, value in settings.items():
        if key not in have:
            result.added.append(key)
        elif have[key] == value:
            result.same.append(key)
            continue
        elif not overwrite:
            result.kept[key] = (have[key], value)
            continue
        else:
            result.replaced[key] = (have[key], value)
        changes[key] = value
    known = {key: value for key, value in block.items() if value is not None}
    old = have.get(BLOCK)
    merged = {**(old if isinstance(old, dict) else {}), **known}
    if known and merged != old:
        changes[BLOCK] = merged
    wanted = {**have, **changes}
    result.text = _edited(format_, text or format_.empty, changes, wanted, str(path))
    if not result.text:
        result.text = format_.dump(wanted)
        result.backup = _free(path.with_name(f"{path.name}.bak"))
    try:
        if result.backup is not None:
            write_bytes_atomic(result.backup, path.read_bytes(), like=path)
        if result.created or changes:
            write_bytes_atomic(Path(os.path.realpath(path)), result.text.encode())
    except OSError as error:
        raise MotionkitError(f"{path} cannot be written: {error.strerror or error}.", code=1) from error
    return result


def _edited(format_: SettingsFormat, text: str, changes: Mapping[str, Any], wanted: dict[str, Any], origin: str) -> str:
    """Return the text edited in place; empty if its values would not be those of `wanted`."""
    mark = "\ufeff" if text.startswith("\ufeff") else ""
    body = text.removeprefix(mark)
    windows = "\r\n" in body and body.count("\r\n") == body.count("\n")
    try:
        body = format_.edit(body.replace("\r\n", "\n") if windows else body, changes)
        if format_.parse(body, origin) != wanted:
            return ""
    except (ValueError, MotionkitError):
        return ""
    return mark + (body.replace("\n", "\r\n") if windows else body)


def _free(path: Path) -> Path:
    """Return `path`, with a number if it exists: an older copy is kept."""
    number = 2
    free = path
    while free.exists():
        free, number = path.with_name(f"{path.name}{number}"), number + 1
    return free
