"""Write suggested settings into a settings file and keep what the user wrote there."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from motionkit.clips.profile._settings_file import SettingsFormat, format_of, read_settings
from motionkit.errors import MotionkitError
from motionkit.runs import write_bytes_atomic

BLOCK = "dataset_profile"
"""Key of the statistics, which are always updated."""


@dataclass
class Merged:
    """Result of `merge_settings`.

    Attributes:
        path: The file.
        created: Whether it was new.
        added: Keys that were added.
        same: Keys that have the suggested value already.
        kept: Keys it has with another value, which stays: (its value, the suggestion).
        replaced: Keys whose value was replaced: (the value before, the suggestion).
        backup: Copy of the old file, if its comments could not be kept.
        text: The new contents.
    """

    path: Path
    created: bool = False
    added: list[str] = field(default_factory=list)
    same: list[str] = field(default_factory=list)
    kept: dict[str, tuple[Any, Any]] = field(default_factory=dict)
    replaced: dict[str, tuple[Any, Any]] = field(default_factory=dict)
    backup: Path | None = None
    text: str = ""

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

    Raises:
        MotionkitError: The ending is unknown, the file is malformed, or it cannot be written.

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
