"""The result merged into the user's own settings file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from motionkit.tuning._keys import flat, with_values
from motionkit.tuning._result import Result


def write_config(path: Path, result: Result) -> tuple[list[tuple[str, Any, Any]], list[str]]:
    """Write the best settings into a settings file, which keeps its comments and everything else.

    Only what the search changed is written. A file that is missing is made, with all that differs from the defaults.
    Where the best settings are no better than the base, nothing is written.

    Returns:
        Key, value before (None where there was none) and value now; and what the user should know.

    Raises:
        MotionkitError: The file is malformed or cannot be written.
    """
    from motionkit.clips.profile._merge import merge_settings
    from motionkit.clips.profile._settings_file import read_settings

    if not result.worth_it:
        return [], [f"{path} was left as it is: the base settings are the best."]
    if not path.exists():
        table = result.base.changed(result.best.params)
        merge_settings(path, table, {}, overwrite=True)
        return [(key, None, value) for key, value in flat(table)], [f"wrote {path}"]
    _, have = read_settings(path)
    wanted = merged(have, result)
    written = merge_settings(path, wanted, {}, overwrite=True)
    old, new = dict(flat(have)), dict(flat({**have, **wanted}))
    changes = [(key, old.get(key), value) for key, value in new.items() if old.get(key) != value]
    notes = [f"merged into {path}: {len(changes)} settings"]
    if written.backup is not None:
        notes.append(f"its comments could not be kept; the old file is {written.backup}")
    return changes, notes


def merged(have: Mapping[str, Any], result: Result) -> dict[str, Any]:
    """Return the top-level keys of a file that the best settings change, whole."""
    params = {key: new for key, _, new in result.changes}
    start = dict(have)
    for key in params:
        top = key.partition(".")[0]
        if any(part.isdecimal() for part in key.split(".")) and not isinstance(start.get(top), list):
            start[top] = result.plan.base[top]  # a list cannot be written in part
    whole = with_values(start, params)
    return {top: whole[top] for top in dict.fromkeys(key.partition(".")[0] for key in params)}


def diff_lines(changes: list[tuple[str, Any, Any]]) -> list[str]:
    """Return changes as lines, ``-`` before and ``+`` after."""
    lines = []
    for key, before, after in changes:
        if before is not None:
            lines.append(f"- {key} = {_shown(before)}")
        lines.append(f"+ {key} = {_shown(after)}")
    return lines


def _shown(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
