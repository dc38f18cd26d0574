"""Finding the run that is to continue, checking that it may, and cutting its metrics back."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from motionkit.documents import read_json, read_jsonl
from motionkit.errors import MotionkitError
from motionkit.runs._atomic import write_text
from motionkit.runs._folder import read_record

_PLACE = {"out": None, "name": None, "overwrite": False, "resume": None}


def locate(path: str | Path) -> tuple[Path, Path | None, dict[str, Any], dict[str, Any]]:
    """Find a run from its folder or from one of its checkpoint folders.

    Returns:
        The run folder, the checkpoint folder if `path` named one, the content of run.json and of config.json.

    Raises:
        MotionkitError: There is no run there.
    """
    given = Path(path)
    chosen = given if given.parent.name == "checkpoints" and given.name.startswith("step-") else None
    directory = given.parent.parent if chosen else given.parent if given.name == "checkpoints" else given
    record = read_record(directory)
    if record is None or (chosen and not chosen.is_dir()):
        raise MotionkitError(
            f"{given} is not a motionkit run.",
            why="it does not exist." if not given.exists() else "it has no readable run.json.",
            fix="motionkit runs list",
        )
    settings = read_json(directory / "config.json", dict, fix="start a new run without --resume")
    return directory, chosen, record, settings


def without_place(snapshot: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings without where and how this one run was started, so that config.json can start others."""
    settings = dict(snapshot)
    if isinstance(place := settings.get("run"), Mapping):
        settings["run"] = {key: _PLACE.get(key, value) for key, value in place.items()}
    plain: dict[str, Any] = json.loads(json.dumps(settings, default=str))
    return plain


def refuse_command(record: Mapping[str, Any], command: str | None, directory: Path) -> None:
    """Refuse to continue a run of another command.

    Raises:
        MotionkitError: Names the command that made the run.
    """
    made = str(record.get("command"))
    if command is not None and made != command:
        raise MotionkitError(
            f"{directory} is a run of motionkit {made}, not of motionkit {command}.",
            why="their settings and checkpoints have nothing in common.",
            fix=f"motionkit {made} --resume {directory}",
        )


def same_inputs(record: Mapping[str, Any], inputs: Mapping[str, str]) -> set[str]:
    """Return the settings that name what the run was made with, wherever it is now: the fingerprints are equal.

    Args:
        record: Content of run.json.
        inputs: Fingerprints of what was found now, by dotted setting.
    """
    known = record.get("inputs")
    known = known if isinstance(known, Mapping) else {}
    return {key for key, fingerprint in inputs.items() if known.get(key) == fingerprint}


def refuse_changes(
    old: Mapping[str, Any],
    new: Mapping[str, Any],
    shape_keys: Sequence[str],
    directory: Path,
    same: Collection[str] = (),
) -> None:
    """Refuse settings that a checkpoint depends on and that differ now.

    Args:
        old: Settings of the run.
        new: Settings asked for.
        shape_keys: Dotted names of settings or of whole groups.
        directory: The run folder, for the message.
        same: Settings that may differ, because both values name the same thing.

    Raises:
        MotionkitError: Names every such setting with both values.
    """
    before, after = _leaves(without_place(old)), _leaves(without_place(new))
    changed = [
        f"{key} was {before.get(key)!r}, is {after.get(key)!r}"
        for key in sorted(before.keys() | after.keys())
        if before.get(key) != after.get(key)
        and key not in same
        and any(key == name or key.startswith(f"{name}.") for name in shape_keys)
    ]
    if changed:
        raise MotionkitError(
            f"cannot resume {directory} with other settings: {'; '.join(changed)}.",
            why="the checkpoint was made with them, and its tensors or data order depend on them.",
            fix="leave them out to continue, or start a new run without --resume",
        )


def _leaves(settings: Mapping[str, Any], prefix: str = "") -> dict[str, object]:
    found: dict[str, object] = {}
    for key, value in settings.items():
        if isinstance(value, Mapping) and value:
            found.update(_leaves(value, f"{prefix}{key}."))
        else:
            found[f"{prefix}{key}"] = value
    return found


def cut_metrics(path: Path, step: int) -> float:
    """Drop the lines after `step` and a half-written last line; return the seconds the kept lines took."""
    kept = [line for line in read_jsonl(path) if line.get("step", 0) <= step]
    write_text(path, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in kept))
    return max((float(line.get("seconds") or 0.0) for line in kept), default=0.0)
