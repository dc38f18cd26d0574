"""What others use of the classifier's trainer beside its command: the episodes of a run. Imports no torch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from motionkit.errors import MotionkitError
from motionkit.success.evaluation.data import Split
from motionkit.success.train_data import RECORD, Source, read_record, reopen, reopen_record


def run_of(place: Path) -> Path | None:
    """Return the run of reward-train that a run folder, its classifier or one of its checkpoints belongs to."""
    for folder in (place, *list(place.absolute().parents)[:3]):
        if (folder / RECORD).is_file():
            return folder
    return None


def open_places(places: Sequence[str]) -> Source:
    """Open runs of reward-collect or folders of episodes."""
    return reopen(tuple(places), trajectories=False)


def held_out(run: Path, fingerprint: str) -> tuple[Source, NDArray[np.int64]]:
    """Return the data of a run, and the frames of the episodes that it was measured on."""
    source, split = data_of(run, fingerprint)
    return source, split.frames(source.episodes, split.test)


def data_of(run: Path, fingerprint: str) -> tuple[Source, Split]:
    """Return the data of a run, and which of its episodes were for what."""
    record = read_record(run)
    source = reopen_record(record)
    if source.episodes.fingerprint != fingerprint:
        raise MotionkitError(
            f"{source.places[0]} has changed since {run} was trained on it.",
            why="which of its episodes were held out then is not known any more.",
            fix=f"put the episodes back; or measure on those that are there now: motionkit eval reward {run} "
            f"{source.places[0]}",
        )
    split = record["split"]
    if record.get("schema") == 1:  # of before episodes were known by their content
        contents = {one.id: one.content for one in source.episodes.records}
        split = {part: [contents[name] for name in split[part] if name in contents] for part in split}
    return source, Split(*(tuple(split[part]) for part in ("train", "val", "test")))
