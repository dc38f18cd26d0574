"""Labels by people, from a CSV file: ``episode,label`` or ``episode,label,frame``."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from motionkit.documents import CsvTable
from motionkit.errors import MotionkitError, nearest
from motionkit_success.episodes.read import EpisodeRecord, Episodes

_WORDS = {"1": True, "0": False, "true": True, "false": False, "success": True, "failure": False}
_SHOWN = 5
_COLUMNS = ("episode", "label", "frame")
_FIX = "the file has the columns episode, label (0 or 1) and, where frames are labelled, frame (the first is 0)."


@dataclass(frozen=True)
class _Row:
    """A row of the file."""

    number: int  # its line, the names being line 1
    label: bool  # whether it is a success
    frame: int | None  # first frame that it holds for; None for the whole episode


def label_episodes(episodes: Episodes, path: Path) -> Episodes:
    """Return the episodes that a file has rows for, with its labels instead of those of the data.

    A row with a frame holds from that frame to the next row of its episode; frames before the first row are failures. A
    row without one is of the whole episode: 0 makes all of its frames failures; 1 keeps its successful frames, or makes
    the last frame one if there are none. An episode is named by its id, or by the number at the end of its id.
    """
    names = _names(episodes.records)
    rows: dict[int, list[_Row]] = {}
    table = CsvTable(path)
    _require_columns(path, table.columns)
    for number, cells in table.rows(*_COLUMNS[:2]):
        place, row = _read(path, number, cells, names, episodes.records)
        rows.setdefault(place, []).append(row)
    if not rows:
        raise MotionkitError(f"{path} has no row.", fix=_FIX)
    records = []
    for place in sorted(rows):
        record = episodes.records[place]
        labels = _labels(path, record, sorted(rows[place], key=lambda row: -1 if row.frame is None else row.frame))
        records.append(record.model_copy(update={"labels": labels, "success_once": "1" in labels}))
    missing = [record.id for place, record in enumerate(episodes.records) if place not in rows]
    note = f"labels are those of {path}, of {len(records)} of {len(episodes.records)} episodes."
    if table.note:
        note += f" {table.note}."
    if missing:
        shown = ", ".join(missing[:_SHOWN]) + (f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else "")
        note += f" Episodes without a row are left out: {shown}."
    return episodes.relabelled(
        sorted(rows), records, note, rule=f"a person said which frames are a success: {path.name}"
    )


def _names(records: Sequence[EpisodeRecord]) -> dict[str, int | None]:
    """Return the index of each episode by its id and by the number at its end; None if several have that name."""
    places: dict[str, int | None] = {}
    for place, record in enumerate(records):
        tail = record.id.rpartition("-")[2]
        for name in {record.id, *([str(int(tail))] if tail.isascii() and tail.isdigit() else [])}:
            places[name] = None if name in places else place
    return places


def _require_columns(path: Path, names: Sequence[str]) -> None:
    if missing := [name for name in _COLUMNS[:2] if name not in names]:
        raise MotionkitError(
            f"{path} has no column {missing[0]}.", why=f"it has {', '.join(names[:8]) or 'none'}.", fix=_FIX
        )
    if "frame" not in names and (odd := [name for name in names if nearest(name, ("frame",))]):
        raise MotionkitError(f"{path} has a column {odd[0]}, and none that is called frame.", fix=_FIX)


def _read(
    path: Path, number: int, cells: dict[str, str], names: dict[str, int | None], records: Sequence[EpisodeRecord]
) -> tuple[int, _Row]:
    name, label, frame = (cells.get(column, "").strip() for column in _COLUMNS)
    place = names.get(name)
    if name not in names:
        near = nearest(name, [record.id for record in records])
        raise MotionkitError(
            f"line {number} of {path} is of the episode {name[:60]!r}, which the data have not.",
            why=f"they have {records[0].id} to {records[-1].id}.",
            fix=f"did you mean {near[0]}?" if near else "name an episode by its id, or by the number at its end.",
        )
    if place is None:
        raise MotionkitError(
            f"line {number} of {path} is of the episode {name!r}, and several have that name.",
            why="they are of several folders or writers.", fix="label one folder at a time.",
        )  # fmt: skip
    if label.lower() not in _WORDS:
        raise MotionkitError(f"line {number} of {path} has the label {label[:40]!r}.", fix=_FIX)
    if not frame:
        return place, _Row(number, _WORDS[label.lower()], None)
    last = records[place].frames - 1
    if not (frame.isascii() and frame.isdigit() and len(frame) < 10 and int(frame) <= last):
        raise MotionkitError(
            f"line {number} of {path} is of frame {frame[:20]!r} of episode {records[place].id}.",
            why=f"its frames are 0 to {last}.",
        )
    return place, _Row(number, _WORDS[label.lower()], int(frame))


def _labels(path: Path, record: EpisodeRecord, rows: Sequence[_Row]) -> str:
    for first, second in itertools.pairwise(rows):
        if first.frame is None or first.frame == second.frame:
            fault = "twice" if first.frame == second.frame else "with a frame and without one"
            raise MotionkitError(
                f"lines {first.number} and {second.number} of {path} are of the same episode {record.id} {fault}.",
                fix="keep one row for each episode, or one for each frame from which a label holds.",
            )
    if rows[0].frame is None:
        if not rows[0].label:
            return "0" * record.frames
        return record.labels if "1" in record.labels else "0" * (record.frames - 1) + "1"
    labels = ["0"] * record.frames
    for row in rows:
        assert row.frame is not None
        labels[row.frame :] = ["1" if row.label else "0"] * (record.frames - row.frame)
    return "".join(labels)
