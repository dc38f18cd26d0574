"""Opening the episodes: which, where the settings do not say, and what is in them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from motionkit.datasets.episodes import Episodes, label_episodes, open_episodes, open_trajectories
from motionkit.documents import read_json
from motionkit.encoders.success._card import in_words, refuse_sizes
from motionkit.errors import MotionkitError
from motionkit.evaluation.reward._data import Split
from motionkit.runs import find, locate, write_bytes_atomic
from motionkit.trainers.reward_train._settings import RewardDataSettings

RECORD = "data.json"
"""What a run keeps of its data: where they are, their fingerprint, and which episodes are for what."""

_COLLECT, _FOLDER = "reward-collect", "episodes"


@dataclass(frozen=True)
class Source:
    """Episodes with the words that name them.

    Attributes:
        episodes: The episodes.
        places: Folders that they were read from; of the guide's, those of successes and of others.
        trajectories: Whether they are the guide's files.
        labels: File of a person's labels; None for the data's own.
        note: How they were found, where the settings do not say; else empty.
    """

    episodes: Episodes
    places: tuple[str, ...]
    trajectories: bool
    labels: Path | None = None
    note: str = ""


def open_source(settings: RewardDataSettings, resume: Path | None) -> Source:
    """Open what the settings name, or the newest finished run of reward-collect.

    Raises:
        MotionkitError: There is nothing, it cannot be read, or cameras and sizes are others than the settings say.
    """
    if settings.positive_dir is not None and settings.negative_dir is not None:
        places = str(settings.positive_dir), str(settings.negative_dir)
        return _checked(reopen(places, trajectories=True, cameras=settings.cameras), settings)
    if settings.path:
        return _checked(reopen(settings.path, trajectories=False, labels=settings.labels), settings)
    if resume is not None:
        record = read_record(locate(str(resume))[0])
        return _checked(reopen_record(record), settings)
    newest = newest_collection()
    if newest is None:
        raise MotionkitError(
            "there are no episodes to train on.",
            why="--data was not given, and ./runs holds no finished run of reward-collect.",
            fix="motionkit reward-collect, then this command again; or --data FOLDER",
        )
    found = reopen((str(newest),), trajectories=False, labels=settings.labels)
    note = f"data: {newest}, the newest finished run of {_COLLECT}; --data names another"
    return _checked(replace(found, note=note), settings)


def reopen_record(record: Mapping[str, Any]) -> Source:
    """Open what `read_record` gave again.

    Raises:
        MotionkitError: As `reopen`.
    """
    labels = record.get("labels")
    return reopen(
        record["places"], trajectories=record["trajectories"], labels=None if labels is None else Path(str(labels))
    )


def reopen(
    places: Sequence[str], *, trajectories: bool, cameras: Sequence[str] = (), labels: Path | None = None
) -> Source:
    """Open folders again: one episode of each content, its frames compared with the hashes of when they were written.

    Raises:
        MotionkitError: One cannot be read, frames have changed, or nothing says which are a success.
    """
    paths = [Path(place).expanduser() for place in places]
    if trajectories:
        episodes = open_trajectories(paths[0], paths[1], cameras=tuple(cameras))
    else:
        episodes = open_episodes(*paths)
    episodes.require_whole()
    if labels is not None:
        episodes = label_episodes(episodes, labels.expanduser())
    elif not episodes.labelled:
        raise MotionkitError(
            f"{', '.join(map(str, paths))}: nothing says which frames are a success.",
            why="a LeRobot dataset says so in a column success or next.success, and this one has neither.",
            fix="motionkit reward-train --data.labels labels.csv, with the columns episode, label and frame.",
        )
    return Source(episodes.distinct(), tuple(places), trajectories, labels)


def newest_collection(root: str | Path = "runs") -> Path | None:
    """Return the newest run of reward-collect below `root` that has come to its end; None without one."""
    for info in find(_COLLECT, root):
        if info.status == "done" and (info.directory / _FOLDER).is_dir():
            return info.directory
    return None


def cameras_of(episodes: Episodes, settings: RewardDataSettings) -> dict[str, tuple[int, int]]:
    """Return the cameras that the classifier looks through, in the order of the settings or of the data."""
    return {name: episodes.cameras[name] for name in settings.cameras or episodes.cameras}


def counts_of(episodes: Episodes) -> list[str]:
    """Return trajectories, frames and labels of each source, a line each."""
    places: dict[str, list[int]] = {}
    for place, record in enumerate(episodes.records):
        places.setdefault(record.source, []).append(place)
    lines = []
    for source, own in places.items():
        inside = np.zeros(len(episodes.records), dtype=bool)
        inside[own] = True
        frames = inside[episodes.episode]
        many, ones = int(frames.sum()), int((episodes.labels[frames] > 0.5).sum())
        good = sum(episodes.records[place].positive for place in own)
        lines.append(
            f"{source}: {good:,} positive and {len(own) - good:,} negative trajectories, {many:,} frames: "
            f"{ones:,} of label 1 ({ones / max(1, many):.1%}), {many - ones:,} of label 0"
        )
    return lines


def write_record(path: Path, source: Source, split: Split) -> None:
    """Write `RECORD`, with absolute places, so that the run can be measured from anywhere."""
    document = {
        "schema": 2,
        "places": [str(Path(place).expanduser().absolute()) for place in source.places],
        "trajectories": source.trajectories,
        **({} if source.labels is None else {"labels": str(source.labels.expanduser().absolute())}),
        "fingerprint": source.episodes.fingerprint,
        "split": {"train": split.train, "val": split.val, "test": split.test},
    }
    write_bytes_atomic(path, (json.dumps(document, indent=1) + "\n").encode())


def read_record(run: Path) -> dict[str, Any]:
    """Read `RECORD` of a run.

    Raises:
        MotionkitError: It is missing or damaged.
    """
    path = run / RECORD
    found = read_json(path, dict, fix="name the data: --data FOLDER")
    places, split = found.get("places"), found.get("split")
    good = isinstance(places, list) and all(isinstance(place, str) for place in places) and places
    named = isinstance(split, Mapping) and all(isinstance(split.get(part), list) for part in ("train", "val", "test"))
    if not good or not named or not isinstance(found.get("trajectories"), bool):
        raise MotionkitError(f"{path} is damaged.", fix="name the data: --data FOLDER")
    return found


def _checked(source: Source, settings: RewardDataSettings) -> Source:
    """Return the source; refuse cameras that it lacks, and another size than the settings say."""
    has = source.episodes.cameras
    if missing := [name for name in settings.cameras if name not in has]:
        raise MotionkitError(
            f"there is no camera {missing[0]}.", why=f"the data have {in_words(has)}.", fix="--data.cameras NAME"
        )
    refuse_sizes(cameras_of(source.episodes, settings))
    wanted = tuple(settings.image_size[-2:])
    for name, size in cameras_of(source.episodes, settings).items():
        if wanted and tuple(size) != wanted:
            raise MotionkitError(
                f"images of {name} are {size[0]}x{size[1]}, and data.image_size says {wanted[0]}x{wanted[1]}.",
                why="a classifier is made for images of one size.",
                fix="leave data.image_size out, or collect images of that size.",
            )
    return source
