"""LeRobot datasets, as episodes: looked through, then decoded once into the cache."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from motionkit.config import cache_folder
from motionkit.documents import as_model, read_json
from motionkit.errors import MotionkitError, first_line
from motionkit.runs import write_bytes_atomic
from motionkit_lerobot.film import FilmReader
from motionkit_lerobot.layout import (
    ACTION,
    DATA,
    NEXT_REWARD,
    NEXT_SUCCESS,
    OWN,
    PICTURES,
    STATE,
    SUCCESS,
    VIDEO,
    Info,
    read_info,
    require_parquet,
)
from motionkit_lerobot.parquet import column_sizes
from motionkit_success.episodes.collector import Collector
from motionkit_success.episodes.read import Manifest, Size, plain_name

_READING = "2"  # version of the conversion; the cache of another version is not used
_ROWS, _BYTES = 10_000_000, 4 << 30
"""Rows of a dataset, and bytes of the columns of a file that are read."""

_AGAIN = "download or record the dataset again."


@dataclass(frozen=True)
class _Place:
    """Place of an episode's pictures."""

    path: Path  # the video
    first: int  # its first picture there


@dataclass(frozen=True)
class _Plan:
    """Content of a dataset without its pictures."""

    cameras: dict[str, Size]  # ``(height, width)`` by name
    keys: dict[str, str]  # the dataset's name of each camera
    lengths: list[int]  # rows of each episode
    places: list[dict[str, _Place]]  # where the pictures of each episode lie, by camera
    columns: dict[str, NDArray[np.float32]]  # ``action`` and ``state`` of all rows, [F, W]
    labels: NDArray[np.bool_] | None  # [F] success of the moment that a row shows; None if it is not recorded
    once: list[bool]  # whether each episode succeeds at some time
    notes: list[str]  # for the user


def cached_lerobot(folder: Path) -> tuple[Path, list[str]]:
    """Convert a LeRobot dataset to a folder of episodes, and return it with notes.

    It is made once and kept in the cache: frames of a video cannot be read at random.
    """
    mark = sha256("\0".join((_READING, str(folder.absolute()))).encode())
    for part in ("meta", "data", "videos"):
        for path in sorted((folder / part).glob("**/*")):
            if path.is_file():
                status = path.stat()
                mark.update(f"{path.relative_to(folder)}\0{status.st_size}\0{status.st_mtime_ns}\n".encode())
    kept = cache_folder() / f"episodes-{mark.hexdigest()[:24]}"
    done = kept / "notes.txt"  # written last
    if not done.is_file():
        write_bytes_atomic(done, "\n".join(_convert(folder, kept)).encode())
    return kept, [line for line in done.read_text(encoding="utf-8").splitlines() if line]


def _convert(folder: Path, out: Path) -> list[str]:
    info = read_info(folder)
    plan, manifest = _plan(folder, info), _exported_manifest(folder)
    widths: dict[Any, int] = {name: values.shape[1] for name, values in plan.columns.items()}
    names = ("environment", "choices", "licence", "state_parts")
    ours: dict[str, Any] = {} if manifest is None else {name: getattr(manifest, name) for name in names}
    with Collector(
        out, cameras=plan.cameras, columns=widths, fps=info.fps, labelled=plan.labels is not None, **ours,
    ) as collector:  # fmt: skip
        collector.clear()
        collector.source = str(folder)
        start = 0
        for number, pictures in enumerate(_pictures(plan, info.fps)):
            length = plan.lengths[number]
            _add(collector, plan, pictures, range(start, start + length), plan.once[number])
            start += length
    return plan.notes


def _add(collector: Collector, plan: _Plan, pictures: Mapping[str, NDArray[np.uint8]], rows: range, once: bool) -> None:
    for step, row in enumerate(rows):
        numbers: dict[str, Any] = {name: values[row] for name, values in plan.columns.items()}
        if "action" in numbers:  # a collector is given the action that led to a frame
            numbers["action"] = plan.columns["action"][row - 1] if step else np.zeros_like(numbers["action"])
        label = plan.labels is not None and bool(plan.labels[row])
        frames = {name: values[step] for name, values in pictures.items()}
        collector.add(frames, label, row == rows[-1], success_once=once, **numbers)


def _exported_manifest(folder: Path) -> Manifest | None:
    """Return the manifest that `export_lerobot` wrote; None for other datasets."""
    path = folder / OWN
    return as_model(path, Manifest, read_json(path, dict, fix=_AGAIN), fix=_AGAIN) if path.is_file() else None


def _plan(folder: Path, info: Info) -> _Plan:
    keys, notes = _cameras(folder, info)
    names = [
        f"videos/{key}/{part}" for key in keys.values() for part in ("chunk_index", "file_index", "from_timestamp")
    ]
    episodes = _rows_of(folder, "meta/episodes", ("episode_index", "length", *names), (), ())
    order = np.argsort(episodes["episode_index"], kind="stable")
    lengths = episodes["length"][order].astype(np.int64)
    if not len(order) or (episodes["episode_index"][order] != np.arange(len(order))).any() or (lengths < 1).any():
        raise MotionkitError(
            f"the episodes of {folder} are not 0 to {max(0, len(order) - 1)}, each of one row or more.", fix=_AGAIN
        )
    columns, labels, once = _data(folder, info, lengths, notes)
    places = []
    for number in order.tolist():
        videos = {}
        for camera, key in keys.items():
            chunk, file, begins = (
                float(episodes[f"videos/{key}/{part}"][number])
                for part in ("chunk_index", "file_index", "from_timestamp")
            )
            if not (0 <= chunk < 1e6 and 0 <= file < 1e6 and 0 <= begins < 1e8):
                raise MotionkitError(f"the place of episode {number} in {key} is not valid.", fix=_AGAIN)
            path = folder / VIDEO.format(video_key=key, chunk_index=int(chunk), file_index=int(file))
            if not path.is_file():
                raise MotionkitError(
                    f"{path} is missing.", why=f"the pictures of episode {number} lie in it.",
                    fix="download the dataset with its videos; git clone leaves them out without git lfs.",
                )  # fmt: skip
            videos[camera] = _Place(path, round(begins * info.fps))
        places.append(videos)
    sizes = {camera: info.features[key].size for camera, key in keys.items()}
    return _Plan(sizes, keys, lengths.tolist(), places, columns, labels, once, notes)


def _cameras(folder: Path, info: Info) -> tuple[dict[str, str], list[str]]:
    """Return the dataset's name of each camera that is read, and notes."""
    notes = []
    keys: dict[str, str] = {}
    for key, feature in info.features.items():
        if feature.dtype not in ("video", "image") or feature.depth:
            continue
        if feature.dtype == "image":
            raise MotionkitError(
                f"the pictures {key} of {folder} lie in its parquet files.", why="videos are read.",
                fix="record or convert it with videos: use_videos=True of lerobot.",
            )  # fmt: skip
        name = plain_name(key.removeprefix(PICTURES).removeprefix("observation."))
        if len(feature.shape) != 3 or name in keys:
            why = f"its shape is {list(feature.shape)}." if len(feature.shape) != 3 else f"two are called {name} here."
            raise MotionkitError(f"the video {key} of {folder} cannot be read.", why=why)
        keys[name] = key
        if name != key.removeprefix(PICTURES):
            notes.append(f"the camera {key} is called {name} here.")
    if not keys:
        raise MotionkitError(
            f"{folder} has no video of colours.", why="episodes are what cameras saw.", fix="record it with a camera."
        )
    return keys, notes


def _data(
    folder: Path, info: Info, lengths: NDArray[np.int64], notes: list[str]
) -> tuple[dict[str, NDArray[np.float32]], NDArray[np.bool_] | None, list[bool]]:
    """Return action and state, the label of each row, and whether an episode succeeds at some time."""
    wide = [name for name in (ACTION, STATE) if name in info.features]
    flags = [name for name in (SUCCESS, NEXT_SUCCESS, NEXT_REWARD) if name in info.features][:1]
    notes += [
        f"{name} is not read: the state is {STATE}."
        for name, feature in info.features.items()
        if name.startswith("observation.") and name != STATE and feature.dtype not in ("video", "image")
    ]
    rows = _rows_of(folder, "data", ("episode_index", "frame_index"), wide, flags)
    order = np.lexsort((rows["frame_index"], rows["episode_index"]))
    counted = np.bincount(np.clip(rows["episode_index"], 0, len(lengths)).astype(np.int64), minlength=len(lengths))
    if odd := [number for number, length in enumerate(lengths.tolist()) if counted[number] != length]:
        raise MotionkitError(
            f"episode {odd[0]} of {folder} has {counted[odd[0]]} rows in {Path(DATA).parts[0]} and {lengths[odd[0]]} "
            "by meta/episodes.",
            why=f"so it is of {len(odd)} of {len(lengths)} episodes: rows were lost or added." if len(odd) > 1 else "",
            fix=_AGAIN,
        )  # fmt: skip
    steps = np.arange(lengths.sum()) - np.repeat(lengths.cumsum() - lengths, lengths)
    if len(order) != len(steps) or (rows["frame_index"][order] != steps).any():
        raise MotionkitError(f"the rows of an episode of {folder} are not frame 0, 1, 2, ...", fix=_AGAIN)
    columns = {}
    for name, ours in ((ACTION, "action"), (STATE, "state")):
        if name in wide:
            values = rows[name][order].astype(np.float32)
            if not np.isfinite(values).all():
                raise MotionkitError(f"a number of the column {name} of {folder} is not finite.", fix=_AGAIN)
            columns[ours] = values
    if flags == [NEXT_REWARD] and set(np.unique(rows[NEXT_REWARD]).tolist()) != {0, 1}:
        notes.append(f"{NEXT_REWARD} is not of 0 and 1, both: it is no label.")
        flags = []
    if not flags:
        notes.append("the dataset does not say which frames are a success.")
        return columns, None, [False] * len(lengths)
    if flags == [NEXT_REWARD]:
        notes.append(f"{NEXT_REWARD}, which is 0 or 1, is read as {NEXT_SUCCESS}.")
    success = rows[flags[0]][order] > 0.5
    ends = lengths.cumsum()
    once = [
        bool(success[end - length : end].any()) for length, end in zip(lengths.tolist(), ends.tolist(), strict=True)
    ]
    labels = success
    if flags[0] != SUCCESS:  # the result of an action is in the next row
        labels = np.concatenate([[False], success[:-1]])
        labels[ends - lengths] = False
        shown = [
            bool(labels[end - length : end].any()) for length, end in zip(lengths.tolist(), ends.tolist(), strict=True)
        ]
        if late := sum(last and not visible for last, visible in zip(once, shown, strict=True)):
            notes.append(
                f"{late} episodes succeed with their last action alone: no frame shows it, so that none of theirs is "
                "labelled a success. --data.labels of reward-train can say more."
            )
    return columns, labels, once


def _rows_of(
    folder: Path, part: str, plain: Sequence[str], wide: Sequence[str], flags: Sequence[str]
) -> dict[str, NDArray[Any]]:
    """Return columns of all parquet files of a part: ``[F]`` of `plain` and `flags`, ``[F, W]`` of `wide`."""
    parquet = require_parquet()
    paths = sorted(path for path in (folder / part).glob("chunk-*/file-*.parquet") if path.is_file())
    if not paths:
        raise MotionkitError(f"{folder / part} holds no chunk-000/file-000.parquet.", fix=_AGAIN)
    columns = [*plain, *wide, *flags]
    parts_of: dict[str, list[NDArray[Any]]] = {name: [] for name in columns}
    rows = 0
    for path in paths:
        try:
            with parquet.ParquetFile(path) as file:
                rows += file.metadata.num_rows
                names = set(file.schema_arrow.names)
                large = _large(path, columns)
                table = None
                if rows <= _ROWS and not large and not (missing := [name for name in columns if name not in names]):
                    table = file.read(columns=columns)
                    table.validate(full=True)
        # A damaged file can raise nearly any exception.
        except Exception as error:
            raise MotionkitError(f"{path} cannot be read.", why=first_line(error)[:200], fix=_AGAIN) from error
        if rows > _ROWS or large:
            raise MotionkitError(f"{path} is larger than what is read.", why=f"at most {_ROWS:,} rows of a dataset.")
        if table is None:
            raise MotionkitError(f"{path} has no column {missing[0]}.", fix=_AGAIN)
        for name in columns:
            parts_of[name].append(_numbers(path, name, table.column(name), wide=name in wide))
    for name in wide:
        if len({values.shape[1] for values in parts_of[name]}) > 1:
            raise MotionkitError(
                f"the rows of {name} have different lengths in the files of {folder / part}.", fix=_AGAIN
            )
    return {name: np.concatenate(parts) for name, parts in parts_of.items()}


def _large(path: Path, columns: Sequence[str]) -> bool:
    """Return whether the wanted columns need more than `_BYTES`."""
    total = 0
    for column, values, plain in column_sizes(path):
        if any(column == name or column.startswith(f"{name}.") for name in columns):
            total += max(plain, 8 * values)
    return total > _BYTES


def _numbers(path: Path, name: str, column: Any, *, wide: bool) -> NDArray[Any]:
    """Return ``[F]``, or ``[F, W]`` of rows that are lists of W numbers."""
    import pyarrow as pa
    import pyarrow.types as is_a

    kind = column.type
    lists = is_a.is_list(kind) or is_a.is_large_list(kind) or is_a.is_fixed_size_list(kind)
    inner = kind.value_type if lists else kind
    if not (is_a.is_integer(inner) or is_a.is_floating(inner) or is_a.is_boolean(inner)) or column.null_count:
        raise MotionkitError(
            f"the column {name} of {path} holds {str(kind)[:60]}" + (", and gaps." if column.null_count else "."),
            why="numbers are read.", fix=_AGAIN,
        )  # fmt: skip
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    array = pa.concat_arrays(array.chunks) if isinstance(array, pa.ChunkedArray) else array
    values = array.flatten() if lists else array
    if values.null_count:
        raise MotionkitError(f"the column {name} of {path} has gaps.", fix=_AGAIN)
    flat: NDArray[Any] = values.to_numpy(zero_copy_only=False)
    if not lists:
        return flat[:, None] if wide else flat
    counts = np.full(len(array), kind.list_size) if is_a.is_fixed_size_list(kind) else np.diff(array.offsets.to_numpy())
    if len(counts) and ((counts != counts[0]).any() or not counts[0]):
        row = int(np.flatnonzero(counts != counts[0])[0]) if (counts != counts[0]).any() else 0
        raise MotionkitError(
            f"row {row} of the column {name} of {path} has {counts[row]} numbers.",
            why=f"row 0 has {counts[0]}; all must have as many.", fix=_AGAIN,
        )  # fmt: skip
    table: NDArray[Any] = flat.reshape(len(array), -1)
    if wide:
        return table
    if table.shape[1] != 1:
        raise MotionkitError(f"the column {name} of {path} has {table.shape[1]} numbers in a row, not one.", fix=_AGAIN)
    return table[:, 0]


def _pictures(plan: _Plan, fps: float) -> Iterator[dict[str, NDArray[np.uint8]]]:
    """Yield the pictures of each episode by camera; a video is read from its start to its end."""
    open_now: dict[str, tuple[Path, FilmReader]] = {}
    try:
        for number, (length, places) in enumerate(zip(plan.lengths, plan.places, strict=True)):
            pictures = {}
            for camera, place in places.items():
                path, reader = open_now.get(camera, (None, None))
                if reader is None or path != place.path or reader.place > place.first:
                    if reader is not None:
                        reader.close()
                    reader = FilmReader(place.path, plan.cameras[camera], fps)
                    open_now[camera] = (place.path, reader)
                pictures[camera] = reader.read(place.first, length)
                if len(pictures[camera]) < length:
                    raise MotionkitError(
                        f"{place.path} ends before episode {number}.",
                        why=f"{len(pictures[camera])} of its {length} frames are there.", fix=_AGAIN,
                    )  # fmt: skip
            yield pictures
    finally:
        for _, reader in open_now.values():
            reader.close()
