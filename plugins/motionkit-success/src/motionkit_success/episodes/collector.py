"""Writing episodes as they end: files only grow, and a listed episode is complete."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from filelock import FileLock, Timeout
from numpy.typing import ArrayLike, NDArray
from pydantic import ValidationError

from motionkit.errors import MotionkitError
from motionkit.runs import write_bytes_atomic
from motionkit_success.episodes.read import (
    MANIFEST,
    ColumnName,
    EpisodeRecord,
    Manifest,
    Size,
    column_path,
    frame_bytes,
    read_manifest,
    read_records,
    shard_path,
)

SHARD_BYTES = 256 * 2**20
"""Size from which a new shard begins."""


@dataclass(frozen=True)
class Quota:
    """How much of each class is kept; None: all."""

    positive: int | None = None  # episodes with a success
    negative: int | None = None  # episodes without
    positive_frames: int | None = None  # frames of episodes with a success
    negative_frames: int | None = None  # frames of episodes without

    def reached(self, positive: bool, trajectories: int, frames: int) -> bool:
        """Return whether a class with so many episodes and frames needs no more."""
        if positive:
            limits = (trajectories, self.positive), (frames, self.positive_frames)
        else:
            limits = (trajectories, self.negative), (frames, self.negative_frames)
        return any(limit is not None and count >= limit for count, limit in limits)


class Collector:
    """Keeps episodes of one environment, or of several copies of one, in a folder.

    Frames are those after each step, with the success of the state that they show. The frame of a reset belongs to no
    step and is never given. An episode is written when it ends.

    Actions and states may be kept too. `add` takes the action of the step and the state after it; in the files the row
    of a frame has the action that was taken in it. So the first action has no row, and the last row is 0.

    Example:
        >>> import tempfile
        >>> with Collector(Path(tempfile.mkdtemp()) / "data", cameras={"camera": (8, 8)}) as collector:
        ...     for step in range(3):
        ...         frames = {"camera": np.zeros((8, 8, 3), np.uint8)}
        ...         collector.add(frames, success=step == 2, done=step == 2)
        ...     collector.counts["positive"]
        {'trajectories': 1, 'frames': 3, 'success_frames': 1}
    """

    def __init__(
        self,
        out: str | Path,  # the folder; made if it is missing. Its episodes stay.
        *,
        cameras: Mapping[str, Size],  # ``(height, width)`` in pixels by name
        environment: Mapping[str, object] | None = None,  # what is collected from; JSON-able
        quota: Quota | None = None,  # how much of each class is kept
        writer: int = 0,  # number of this process among several that write into one folder; each has its files
        licence: str = "",  # licence of the pictures
        # Widths of ``action`` and ``state``, if they are kept. A folder that has episodes without them goes on without.
        columns: Mapping[ColumnName, int] | None = None,
        choices: int = 0,  # n, if an action is one of n choices
        state_parts: Mapping[str, int] | None = None,  # numbers of each part that a state is joined of
        fps: float = 0.0,  # frames a second, if it is known
        labelled: bool = True,  # whether it is known which frames are a success
    ) -> None:
        self.folder, self._quota, self._writer = Path(out), quota or Quota(), writer
        try:
            manifest = Manifest(
                cameras=dict(cameras), environment=dict(environment or {}), licence=licence,
                columns=dict(columns or {}), choices=choices, fps=fps, labelled=labelled,
                state_parts=dict(state_parts or {}),
            )  # fmt: skip
        except ValidationError as error:
            problem = error.errors(include_url=False, include_input=False)[0]
            raise MotionkitError(
                f"episodes of the cameras {', '.join(map(repr, cameras))} cannot be kept.",
                why=f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}.",
                fix="a camera's name is of letters, digits, '_', '.' and '-', its pictures of 1 to 8192 pixels a side; "
                "a column is action or state, of 1 to 10,000 numbers.",
            ) from error
        self._cameras: Mapping[str, Size] = manifest.cameras
        self.columns: Mapping[ColumnName, int] = manifest.columns
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lock = FileLock(self.folder / f".writer-{writer:02d}.lock", timeout=0)
        try:
            self._lock.acquire()
        except Timeout as error:
            raise MotionkitError(
                f"{self.folder} is being written to by another process.",
                fix="wait for it, or give another writer number.",
            ) from error
        try:
            self._claim(manifest)
        except BaseException:
            self._lock.release()
            raise
        self._running: list[_Running] = []
        self.source = ""
        self.left_out = {"positive": 0, "negative": 0}

    def _claim(self, manifest: Manifest) -> None:
        path = self.folder / MANIFEST
        if path.exists():
            there = read_manifest(self.folder)
            if there.cameras != manifest.cameras:
                raise MotionkitError(
                    f"{self.folder} holds episodes of other cameras.",
                    why=f"{dict(there.cameras)}, not {dict(manifest.cameras)}.", fix="choose another folder.",
                )  # fmt: skip
            ours = manifest.columns, manifest.choices, manifest.state_parts or there.state_parts
            if there.columns and (there.columns, there.choices, there.state_parts or ours[2]) != ours:
                raise MotionkitError(
                    f"{self.folder} holds episodes of other columns.",
                    why=f"{there.widths}, not {manifest.widths}.", fix="choose another folder.",
                )  # fmt: skip
            self.columns = there.columns
        else:
            document = manifest.model_dump(mode="json", by_alias=True)
            write_bytes_atomic(path, (json.dumps(document, indent=2) + "\n").encode())
        self._lines = self.folder / f"episodes-{self._writer:02d}.jsonl"
        self._lines.touch()
        self._records, end, _ = read_records(self._lines)
        self._cut(end)

    def _cut(self, lines: int) -> None:
        """Cut off data that no complete line lists: a killed process may have left parts of an episode."""
        with self._lines.open("r+b") as file:
            file.truncate(lines)
        ends: dict[str, int] = {}
        for record in self._records:
            ends[record.shard] = max(ends.get(record.shard, 0), record.offset + record.frames)
        self._shard = len(ends) - 1 if ends else 0
        self._rows = ends.get(self._name, 0)
        for path in self.folder.glob(f"frames-{self._writer:02d}-*.u8"):
            shard, _, camera = path.name.removesuffix(".u8").partition(".")
            if camera in self._cameras:
                listed = ends.get(shard, 0) * frame_bytes(self._cameras[camera])
                if path.stat().st_size > listed:
                    os.truncate(path, listed)
        for column, width in self.columns.items():
            for path in self.folder.glob(f"frames-{self._writer:02d}-*.{column}.f32"):
                listed = ends.get(path.name.partition(".")[0], 0) * 4 * width
                if path.stat().st_size > listed:
                    os.truncate(path, listed)
        self.counts = {"positive": _none(), "negative": _none()}
        for record in self._records:
            self._count(record)

    @property
    def _name(self) -> str:
        return f"frames-{self._writer:02d}-{self._shard:04d}"

    def _count(self, record: EpisodeRecord) -> None:
        counts = self.counts["positive" if record.positive else "negative"]
        counts["trajectories"] += 1
        counts["frames"] += record.frames
        counts["success_frames"] += record.labels.count("1")

    def wanted(self, positive: bool) -> bool:
        """Return whether an episode of a class would be kept."""
        counts = self.counts["positive" if positive else "negative"]
        return not self._quota.reached(positive, counts["trajectories"], counts["frames"])

    @property
    def full(self) -> bool:
        """Whether neither class needs more."""
        return not self.wanted(True) and not self.wanted(False)

    def add(
        self,
        frames: Mapping[str, ArrayLike],
        success: ArrayLike,
        done: ArrayLike,
        *,
        seeds: Sequence[int | None] | None = None,
        action: ArrayLike | None = None,
        state: ArrayLike | None = None,
        success_once: bool = False,
    ) -> None:
        """Add a step.

        Args:
            frames: ``[H, W, 3]`` uint8 RGB by camera of one environment, or ``[N, H, W, 3]`` of N copies; after the
                step, before a reset.
            success: Whether that state is a success, one flag or ``[N]``.
            done: Whether the episode ends with it, one flag or ``[N]``.
            seeds: Seed of each copy's episode, for the record.
            action: Action of the step, ``[A]`` or ``[N, A]``, a choice is one number; ignored if the folder keeps none.
            state: State vector after the step, ``[S]`` or ``[N, S]``; ignored if the folder keeps none.
            success_once: An episode that ends with the step succeeds, even if no frame shows it.
        """
        pictures = self._checked(frames)
        count = len(next(iter(pictures.values())))
        flags, ends = np.atleast_1d(np.asarray(success, np.bool_)), np.atleast_1d(np.asarray(done, np.bool_))
        if len(flags) != count or len(ends) != count:
            raise MotionkitError(f"{count} frames came with {len(flags)} success and {len(ends)} done flags.", code=1)
        rows = self._rows_of({"action": action, "state": state}, count)
        if not self._running:
            self._running = [self._nothing() for _ in range(count)]
        if len(self._running) != count:
            raise MotionkitError(f"{count} frames came after {len(self._running)}; N must stay.", code=1)
        for number, running in enumerate(self._running):
            for name, pictures_of_camera in running.frames.items():
                pictures_of_camera.append(pictures[name][number].copy())
            for column, values in running.rows.items():
                values.append(rows[column][number].copy())
            running.labels.append(bool(flags[number]))
            if ends[number]:
                self._end(running, None if seeds is None else seeds[number], once=success_once)
                self._running[number] = self._nothing()

    def _nothing(self) -> _Running:
        return _Running({name: [] for name in self._cameras}, [], {name: [] for name in self.columns})

    def _rows_of(self, given: Mapping[ColumnName, ArrayLike | None], count: int) -> dict[str, NDArray[np.float32]]:
        checked: dict[str, NDArray[np.float32]] = {}
        for name, width in self.columns.items():
            value = given[name]
            if value is None:
                raise MotionkitError(f"the {name} of a step is missing; the folder keeps it.", code=1)
            rows = np.asarray(value, np.float32)
            if rows.size != count * width or (rows.ndim == 2 and rows.shape != (count, width)):
                raise MotionkitError(
                    f"the {name} of a step is {list(rows.shape)}.", why=f"[{count}, {width}] is kept.", code=1
                )
            if not np.isfinite(rows).all():
                raise MotionkitError(f"a number of the {name} of a step is not finite.", code=1)
            checked[name] = rows.reshape(count, width)
        return checked

    def _checked(self, frames: Mapping[str, ArrayLike]) -> dict[str, NDArray[np.uint8]]:
        pictures: dict[str, NDArray[np.uint8]] = {}
        for name, (height, width) in self._cameras.items():
            if name not in frames:
                raise MotionkitError(f"frames of the camera {name} are missing; there are {', '.join(frames)}.", code=1)
            picture = np.asarray(frames[name])
            picture = picture[None] if picture.ndim == 3 else picture
            if picture.dtype != np.uint8 or picture.shape[1:] != (height, width, 3):
                raise MotionkitError(
                    f"frames of {name} are {picture.dtype} {list(picture.shape[1:])}.",
                    why=f"uint8 [{height}, {width}, 3] is kept.", code=1,
                )  # fmt: skip
            pictures[name] = picture
        return pictures

    def _end(self, running: _Running, seed: int | None, *, once: bool) -> None:
        positive = once or any(running.labels)
        if not self.wanted(positive):
            self.left_out["positive" if positive else "negative"] += 1
            return
        content = {name: np.stack(pictures).tobytes() for name, pictures in running.frames.items()}
        numbers = {name: _column_bytes(name, rows) for name, rows in running.rows.items()}
        if self._rows and self._rows * max(map(frame_bytes, self._cameras.values())) >= SHARD_BYTES:
            self._shard, self._rows = self._shard + 1, 0
        record = EpisodeRecord(
            id=f"{self._writer:02d}-{len(self._records):06d}",
            shard=self._name,
            offset=self._rows,
            labels="".join("1" if label else "0" for label in running.labels),
            success_once=positive,
            seed=seed,
            source=self.source,
            sha256={name: sha256(data).hexdigest() for name, data in content.items()},
            columns={name: sha256(data).hexdigest() for name, data in numbers.items()},
        )
        try:
            # First the frames, then the line that lists them: listed episodes are complete, whenever the process dies.
            for name, data in content.items():
                _append(shard_path(self.folder, self._name, name), data)
            for column, data in numbers.items():
                _append(column_path(self.folder, self._name, column), data)
            _append(self._lines, (json.dumps(record.model_dump(mode="json")) + "\n").encode())
        except OSError as error:
            raise MotionkitError(
                f"{self.folder} cannot be written to.", why=f"{error.strerror or error}.",
                fix="make room; the episodes that are listed are whole, and the same command goes on.", code=1,
            ) from error  # fmt: skip
        self._records.append(record)
        self._rows += record.frames
        self._count(record)

    def state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Return the state for `rewind`: the number of written episodes, and the running ones."""
        arrays: dict[str, NDArray[Any]] = {}
        for number, running in enumerate(self._running):
            if running.labels:
                arrays |= {f"{number}.{name}": np.stack(rows) for name, rows in running.frames.items()}
                arrays |= {f"{number}:{name}": np.stack(rows) for name, rows in running.rows.items()}
        labels = [list(running.labels) for running in self._running]
        return arrays, {"episodes": len(self._records), "labels": labels, "left_out": dict(self.left_out)}

    def clear(self) -> None:
        """Drop all episodes that this writer has written."""
        self.rewind({}, {"episodes": 0, "labels": [], "left_out": {"positive": 0, "negative": 0}})

    def rewind(self, arrays: Mapping[str, NDArray[Any]], values: Mapping[str, Any]) -> None:
        """Go back to a `state`: episodes written after it are dropped."""
        count = int(values["episodes"])
        if count > len(self._records):
            raise MotionkitError(
                f"{self.folder} has {len(self._records)} whole episodes, the checkpoint was made with {count}.",
                why="files were lost or changed since.", fix="start a new run; this folder can still be read.",
            )  # fmt: skip
        self._records = self._records[:count]
        lines = self._lines.read_bytes().splitlines(keepends=True)[:count]
        self._cut(sum(map(len, lines)))
        self.left_out = {name: int(number) for name, number in values["left_out"].items()}
        self._running = [
            _Running(
                {name: list(arrays[f"{number}.{name}"]) if labels else [] for name in self._cameras},
                [bool(label) for label in labels],
                {name: list(arrays[f"{number}:{name}"]) if labels else [] for name in self.columns},
            )
            for number, labels in enumerate(values["labels"])
        ]

    def close(self) -> None:
        """Release the lock; episodes that have not ended are dropped."""
        self._running = []
        self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@dataclass
class _Running:
    """An episode that has not ended."""

    frames: dict[str, list[NDArray[np.uint8]]]
    labels: list[bool]
    rows: dict[ColumnName, list[NDArray[np.float32]]]


def _column_bytes(name: ColumnName, rows: Sequence[NDArray[np.float32]]) -> bytes:
    """Return the rows of an episode; an action moves to the frame before, in which it was taken."""
    values = np.stack(rows).astype("<f4")
    if name == "action":
        values = np.concatenate([values[1:], np.zeros_like(values[:1])])
    return values.tobytes()


def _none() -> dict[str, int]:
    return {"trajectories": 0, "frames": 0, "success_frames": 0}


def _append(path: Path, data: bytes) -> None:
    """Append and fsync."""
    with path.open("ab") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
