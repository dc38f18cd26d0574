"""Read and write settings files in JSON, TOML and YAML, and merge suggested settings into a user's file."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from motionkit.documents import parse_json, parse_toml, parse_yaml, read_text
from motionkit.errors import MotionkitError
from motionkit.runs import write_bytes_atomic

BLOCK = "dataset_profile"
"""Key of the statistics, which are always updated."""


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


def dump_toml_file(table: Mapping[str, object]) -> str:
    """Write a table as a file, its tables as ``[name]`` at the end; keys without a value are left out."""
    # As text: tomlkit's time is quadratic in the number of added keys.
    text = _lines({key: value for key, value in table.items() if not isinstance(value, Mapping)})
    for key, value in table.items():
        if isinstance(value, Mapping):
            text += f"\n[{_key(key)}]\n{_lines(value)}"
    return text.lstrip("\n") or "\n"


def dump_toml(value: object) -> str:
    """Write a value, lists of tables with a line per table.

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


@dataclass(frozen=True)
class SettingsFormat:
    """Functions that read and write one format of settings files."""

    parse: Callable[[str, str], dict[str, Any]]  # Parses a text; the second argument is its origin, for messages
    dump: Callable[[Mapping[str, object]], str]  # Writes a table as a text


def read_settings(path: Path) -> tuple[str, dict[str, Any]]:
    """Read a settings file; a missing file counts as empty."""
    format_ = format_of(path)
    if not path.exists():
        return "", {}
    text = read_text(path, mark=True)
    return text, format_.parse(text.removeprefix("\ufeff"), str(path))


def dump_settings(path: Path, table: Mapping[str, object]) -> str:
    """Return settings as the text of a new file; its suffix decides the format."""
    return format_of(path).dump(table)


def format_of(path: Path) -> SettingsFormat:
    """Return the format of a file's suffix."""
    try:
        return _FORMATS[path.suffix.lower()]
    except KeyError:
        raise MotionkitError(
            f"settings file {path} is neither JSON, TOML nor YAML.", fix="name it .json, .jsonc, .toml or .yaml"
        ) from None


def dump_yaml(table: Mapping[str, object]) -> str:
    """Write a mapping in block style, in its order."""
    written: str = yaml.safe_dump(dict(table), sort_keys=False, allow_unicode=True, width=120)
    return written


_JSON = SettingsFormat(partial(parse_json, kind=dict), lambda table: dump(dict(table), "") + "\n")
_YAML = SettingsFormat(partial(parse_yaml, kind=dict), dump_yaml)
_FORMATS = {
    ".json": _JSON,
    ".jsonc": _JSON,
    ".toml": SettingsFormat(parse_toml, dump_toml_file),
    ".yaml": _YAML,
    ".yml": _YAML,
}


@dataclass
class Merged:
    """Result of `merge_settings`."""

    path: Path  # The file
    created: bool = False  # Whether it was new
    added: list[str] = field(default_factory=list)  # Keys that were added
    same: list[str] = field(default_factory=list)  # Keys that already have the suggested value
    # Keys with another value, which stays: (its value, the suggestion).
    kept: dict[str, tuple[Any, Any]] = field(default_factory=dict)
    # Keys whose value was replaced: (the value before, the suggestion).
    replaced: dict[str, tuple[Any, Any]] = field(default_factory=dict)
    backup: Path | None = None  # Copy of the old file, if more than white space is lost, usually comments
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

    Missing keys are added, others keep their value unless `overwrite`; the order stays. The file is rewritten: if that
    loses more than white space, such as comments, a copy of it is kept as ``FILE.bak`` (``FILE.bak2``, ... if that
    exists). A missing file is made.

    Args:
        path: The file; its suffix decides the format.
        settings: Keys of the top level.
        block: Statistics, for the key `BLOCK`; other keys in it stay. Empty leaves the key alone.
        overwrite: Replace values that differ.

    Example:
        >>> path = Path("settings.toml")
        >>> size = path.write_text("epochs = 30 # enough")
        >>> merged = merge_settings(path, {"epochs": 20, "batch": 4}, {"n_clips": 3})
        >>> merged.added, merged.kept
        (['batch'], {'epochs': (30, 20)})
        >>> path.read_text().splitlines()[0], merged.backup.read_text()
        ('epochs = 30', 'epochs = 30 # enough')
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
    statistics = {key: value for key, value in block.items() if value is not None}
    old = have.get(BLOCK)
    merged = {**(old if isinstance(old, dict) else {}), **statistics}
    if statistics and merged != old:
        changes[BLOCK] = merged
    result.text = format_.dump({**have, **changes}) if changes or result.created else text
    if changes and not result.created:
        if _bare(format_.dump(have)) != _bare(text.removeprefix("\ufeff")):
            result.backup = _free(path.with_name(f"{path.name}.bak"))
        if "\r\n" in text:
            result.text = result.text.replace("\n", "\r\n")
        if text.startswith("\ufeff"):
            result.text = f"\ufeff{result.text}"
    try:
        if result.backup is not None:
            write_bytes_atomic(result.backup, path.read_bytes(), like=path)
        if result.created or changes:
            write_bytes_atomic(Path(os.path.realpath(path)), result.text.encode())
    except OSError as error:
        raise MotionkitError(f"{path} cannot be written: {error.strerror or error}.", code=1) from error
    return result


def _bare(text: str) -> str:
    return "".join(text.split())


def _free(path: Path) -> Path:
    """Return `path`, with a number if it exists: an older copy is kept."""
    number = 2
    free = path
    while free.exists():
        free, number = path.with_name(f"{path.name}{number}"), number + 1
    return free
