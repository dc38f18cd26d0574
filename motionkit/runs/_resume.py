"""Finds a run to resume, checks that it may be resumed, and truncates its metrics."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field, ValidationError

from motionkit.documents import read_json
from motionkit.errors import MotionkitError, did_you_mean
from motionkit.runs._folder import own_names
from motionkit.runs._record import RECORD, RunRecord, damaged, first_problem, read_record
from motionkit.runs.atomic import write_chunks
from motionkit.tracking import read_metrics

_PLACE = {"out": None, "name": None, "overwrite": False, "resume": None}


class _Keep(BaseModel):
    keep: int = Field(2, ge=1)


class _Settings(BaseModel):
    """The part of a run's settings that this package reads; the rest belongs to the trainer."""

    run: dict[str, Any] = {}
    checkpoint: _Keep = _Keep()
    track: tuple[str, ...] = ()


def locate(path: str | Path) -> tuple[Path, Path | None, RunRecord, dict[str, Any]]:
    """Find a run from its folder, from one of its checkpoint folders, or from its whole name under ``runs``.

    Returns:
        The run folder, the checkpoint folder if `path` named one, the content of run.json and of config.json.
    """
    given, directory = Path(path), run_folder(path)
    chosen = given if given.parent.name == "checkpoints" and given != directory else None
    record = read_record(directory)
    if record is None and (called := folders_called(str(path), "runs")):
        directory = only(str(path), called)
        record = read_record(directory)
    if record is None or (chosen and not chosen.is_dir()):
        raise no_run(given)
    return directory, chosen, record, read_settings(directory)


def run_folder(path: str | Path) -> Path:
    """Return the run folder of a path: itself, or that of a checkpoint."""
    given = Path(path)
    if given.parent.name == "checkpoints" and given.name.startswith("step-"):
        return given.parent.parent
    return given.parent if given.name == "checkpoints" else given


def folders_called(name: str, root: str | Path) -> list[Path]:
    """Return the folders of the runs under `root` whose whole name this is: the last part, or COMMAND/NAME."""
    word = name.rstrip("/")
    folders = [file.parent for file in Path(root).glob(f"*/*/{RECORD}")] if word else []
    return sorted(folder for folder in folders if word in (folder.name, short_name(folder)))


def short_name(folder: Path) -> str:
    """Return the name of a run with that of its command: ``grpo/first``."""
    return f"{folder.parent.name}/{folder.name}"


def only(name: str, folders: Sequence[Path]) -> Path:
    """Return the only one of the folders that fit a name; refuse several."""
    if len(folders) > 1:
        names = ", ".join(short_name(folder) for folder in folders[:4])
        raise MotionkitError(
            f"{len(folders)} runs are called {name!r}: {names}{', ...' if len(folders) > 4 else ''}.",
            fix=f"name one in full, such as {folders[0]}",
        )
    return folders[0]


def refuse_empty(name: str | Path) -> None:
    """Refuse a word without letters; as a path ``""`` would be the current folder."""
    if not str(name).strip("/"):
        raise MotionkitError(
            f"{str(name)!r} names no run.",
            why="the word is empty: a variable that is not set?",
            fix="motionkit runs list",
        )


def to_change(name: str, root: str | Path = "runs", *, checkpoint: bool = False) -> Path:
    """Return the folder of the run that a command is to change: remove, tag or continue.

    Args:
        name: Its folder, or its whole name under `root`: the last part, or COMMAND/NAME.
        root: Parent of all runs.
        checkpoint: Whether a checkpoint in the run stands for it.

    Raises:
        MotionkitError: The name is empty, no run has it, or two do.
    """
    refuse_empty(name)
    folder, given = run_folder(name), Path(name)
    called = folders_called(name, root)
    if os.path.lexists(folder / RECORD):
        if folder != given and not checkpoint:
            raise MotionkitError(f"{name} is a part of the run {folder}.", fix=f"name the run: {folder}")
        others = [other for other in called if other.resolve() != folder.resolve()]
        return only(name, [folder, *others])
    if called:
        return only(name, called)
    error = no_run(given)
    names = [file.parent.name for file in Path(root).glob(f"*/*/{RECORD}")]
    longer = sorted(other for other in names if other.startswith(given.name))
    hint = f"write the name whole, such as {longer[0]}." if longer else did_you_mean(name, names)
    raise MotionkitError(error.message, why=error.why, fix=f"{hint} {error.fix}".strip())


def no_run(given: Path) -> MotionkitError:
    """Return the error for a path without a run."""
    return MotionkitError(
        f"{given} is not a motionkit run.",
        why="it has no run.json of motionkit." if given.exists() else "it does not exist.",
        fix="motionkit runs list",
    )


def read_settings(directory: Path) -> dict[str, Any]:
    """Return the content of a run's config.json."""
    try:
        settings: dict[str, Any] = read_json(directory / "config.json", dict, surrogates=True)
        _Settings.model_validate(settings)
    except MotionkitError as error:
        raise damaged(directory, error.sentence()) from error
    except ValidationError as error:
        raise damaged(directory, f"config.json: {first_problem(error)}") from error
    return settings


def without_place(snapshot: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings without the entries of this one run (folder, resume): config.json can start other runs."""
    settings = dict(snapshot)
    if isinstance(place := settings.get("run"), Mapping):
        settings["run"] = {key: _PLACE.get(key, value) for key, value in place.items()}
    plain: dict[str, Any] = json.loads(json.dumps(settings, default=str))
    return plain


def resume_line(command: str, directory: Path) -> str:
    """Return the shell command that continues a run, quoted, because folder names are untrusted."""
    return shlex.join(["motionkit", *command.replace(".", " ").split(), "--resume", str(directory)])


def refuse_command(record: RunRecord, command: str | None, directory: Path) -> None:
    """Refuse to continue a run of another command."""
    made = record.command
    if command is not None and made != command:
        raise MotionkitError(
            f"{directory} is a run of motionkit {made}, not of motionkit {command}.",
            why="their settings and checkpoints have nothing in common.",
            fix=resume_line(made, directory),
        )


def same_inputs(record: RunRecord, inputs: Mapping[str, str]) -> set[str]:
    """Return the settings whose files have equal fingerprints, at any place.

    Args:
        record: Content of run.json.
        inputs: Fingerprints of the files now, by dotted setting.
    """
    return {key for key, fingerprint in inputs.items() if record.inputs.get(key) == fingerprint}


def refuse_links(directory: Path, record: RunRecord) -> None:
    """Refuse a run that would be continued outside its folder, through links, pipes or devices in it."""
    for name in ("log.txt", "metrics.jsonl"):
        path = directory / name
        if os.path.lexists(path) and (path.is_symlink() or not path.is_file()):
            raise damaged(directory, f"{name}: it is not a regular file")
    inside = directory.resolve()
    for name in sorted(own_names(record)):
        if not (directory / name).resolve().is_relative_to(inside):
            raise damaged(directory, f"{name}: it is a link to a place outside the run folder")


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
        shape_keys: Dotted names of settings or of whole groups that the checkpoint depends on.
        directory: The run folder, for the message.
        same: Settings that may differ, because both values name the same thing.
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
            why="the checkpoint was made with them, and its tensors, data order or schedules depend on them.",
            fix="leave them out to continue, or start a new run without --resume",
        )


def refuse_other_files(record: RunRecord, inputs: Mapping[str, str], new: Mapping[str, Any], directory: Path) -> None:
    """Refuse to continue with files that have changed since the run began.

    Args:
        record: Content of run.json.
        inputs: Fingerprints of the files now, by dotted setting.
        new: Settings asked for.
        directory: The run folder, for the message.
    """
    values = _leaves(without_place(new))
    changed = [
        f"{key} ({_place(values[key])})" if values.get(key) else key
        for key, mark in sorted(inputs.items())
        if record.inputs.get(key, mark) != mark
    ]
    if changed:
        what = f"the content of {changed[0]} has" if len(changed) == 1 else f"the contents of {', '.join(changed)} have"
        raise MotionkitError(
            f"cannot resume {directory}: {what} changed since the run began.",
            why="the run would continue with other data than it began with.",
            fix="restore the old content, or name its new place, or start a new run without --resume",
        )


def _place(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def _leaves(settings: Mapping[str, Any], prefix: str = "") -> dict[str, object]:
    leaves: dict[str, object] = {}
    for key, value in settings.items():
        if isinstance(value, Mapping) and value:
            leaves.update(_leaves(value, f"{prefix}{key}."))
        else:
            leaves[f"{prefix}{key}"] = value
    return leaves


def cut_metrics(path: Path, step: int) -> float:
    """Drop the lines after `step` and invalid lines; return the largest ``seconds`` of the kept lines."""
    seconds = 0.0

    def kept() -> Iterator[bytes]:
        nonlocal seconds
        for line in read_metrics(path):
            if line["step"] <= step:
                seconds = max(seconds, line.get("seconds") or 0.0)
                yield json.dumps(line, ensure_ascii=False).encode() + b"\n"

    write_chunks(path, kept())
    return seconds
