"""Opening episodes: folders of episodes, runs of `reward-collect` and datasets of other tools, several as one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from motionkit.errors import MotionkitError
from motionkit_success.episode_formats import format_of
from motionkit_success.episodes.read import (
    ARTIFACT,
    FIX,
    MANIFEST,
    EpisodeRecord,
    Episodes,
    Manifest,
    ShardReader,
    read_folder,
    task_of,
)


def open_episodes(*places: Path) -> Episodes:
    """Open folders of episodes, runs of reward-collect and datasets of other tools, which are decoded once, as one."""
    opened = [_opened(Path(place).expanduser()) for place in places]
    manifest = opened[0][1]
    for folder, other, *_ in opened[1:]:
        if other.cameras != manifest.cameras:
            raise MotionkitError(
                f"{folder} and {opened[0][0]} have different cameras.",
                why=f"{dict(other.cameras)} and {dict(manifest.cameras)}.",
            )
        tasks = task_of(other.environment), task_of(manifest.environment)
        if all(tasks) and tasks[0] != tasks[1]:
            raise MotionkitError(
                f"{folder} and {opened[0][0]} are of two tasks.",
                why=f"{tasks[0]} and {tasks[1]}: a success of one is not a success of the other.",
                fix="give episodes of one task.",
            )
    folders: list[Path] = []
    names: list[str] = []
    shards: list[int] = []
    records: list[EpisodeRecord] = []
    notes: list[str] = []
    for folder, folder_manifest, kept, folder_notes in opened:
        here = {name: len(names) + number for number, name in enumerate(dict.fromkeys(item.shard for item in kept))}
        folders += [folder] * len(here)
        names += list(here)
        shards += [here[record.shard] for record in kept]
        records += kept
        notes += folder_notes
        if folder_manifest.environment != manifest.environment:
            known = folder_manifest.environment and manifest.environment
            kind = "other options of the environment" if known else "an environment that is not known"
            notes.append(f"{folder} is of {kind}, compared with {opened[0][0]}.")
    if not records:
        raise MotionkitError(f"{', '.join(map(str, places))} holds no episode.", why=" ".join(notes), fix=FIX)
    if odd := _columns_part([(folder, folder_manifest) for folder, folder_manifest, *_ in opened], records):
        notes.append(odd)
        manifest = manifest.model_copy(update={"columns": {}})
    return Episodes(manifest, records, shards, ShardReader(folders, names, manifest.cameras), notes)


def is_episodes(place: Path) -> bool:
    """Return whether a place is a folder of episodes, a run of reward-collect, or a dataset of another tool."""
    own = any((folder / MANIFEST).is_file() for folder in (place, place / ARTIFACT))
    return own or format_of(place) is not None


def open_whole(place: Path) -> Episodes:
    """Open the episodes of a run of reward-collect, or of a folder, to export them."""
    episodes = open_episodes(place)
    episodes.require_whole()
    return episodes


def _columns_part(opened: Sequence[tuple[Path, Manifest]], records: Sequence[EpisodeRecord]) -> str:
    """Return why actions and states of several folders do not fit each other, a sentence; empty if they do."""
    (first, manifest), *others = opened
    for folder, other in others:
        parts = other.state_parts, manifest.state_parts
        apart = all(parts) and [*parts[0].items()] != [*parts[1].items()]
        if apart or (other.columns, other.choices) != (manifest.columns, manifest.choices):
            return (
                f"actions and states are not read: {first} and {folder} have different ones, {manifest.widths} and "
                f"{other.widths}."
            )
        if manifest.columns and 0 < other.fps != manifest.fps > 0:
            return (
                f"actions and states are not read: {first} has {manifest.fps:g} frames a second, {folder} "
                f"{other.fps:g}, and what is done in a step differs."
            )
    if manifest.columns and (odd := sum(record.columns.keys() != manifest.columns.keys() for record in records)):
        return f"actions and states are not read: {odd} of {len(records)} episodes have none."
    return ""


def _opened(place: Path) -> tuple[Path, Manifest, list[EpisodeRecord], list[str]]:
    form = format_of(place)
    if form is None:
        folder = _folder(place)
        return folder, *read_folder(folder)
    kept, notes = form.read(place)
    manifest, records, folder_notes = read_folder(kept)
    return kept, manifest, records, [*notes, *folder_notes]


def _folder(place: Path) -> Path:
    for folder in (place, place / ARTIFACT):
        if (folder / MANIFEST).is_file():
            return folder
    fault = "holds no episodes" if place.exists() else "does not exist"
    raise MotionkitError(f"{place} {fault}.", fix=FIX)
