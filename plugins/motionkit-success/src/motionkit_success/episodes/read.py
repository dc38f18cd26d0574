"""Folders of episodes: their documents, their shards, and `Episodes`, which reads both.

A shard holds raw uint8 frames of one camera, one after the other; the file only grows. Shards are mapped, and
`MappedPages` limits the memory of mapped files.
"""

from __future__ import annotations

import json
import mmap
import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from motionkit.documents import as_model, read_json
from motionkit.errors import MotionkitError
from motionkit.runs import fingerprint
from motionkit_success.episode_formats import folders

ARTIFACT = "episodes"
"""Folder of a run that holds its episodes."""

_ENOUGH = 8 * 2**20
"""Bytes of mapped files at which `MappedPages` releases them."""

_AROUND = 64 * 2**10
"""Bytes of a mapped file that a system reads at once."""

MANIFEST = "manifest.json"
LABEL_RULE = "a frame is a success if the environment said so of the state it shows; an episode is positive if one is"

_OTHERS = "".join(f", or a {name}" for name in folders())
FIX = f"give a run of motionkit reward-collect, the folder that a Collector wrote{_OTHERS}."

_LONGEST = 100

_SHOWN = 3
_PIECE = 32 << 20  # bytes of a camera's frames that are in memory while they are compared with their hash
_AGAIN = "copy the folder again, or collect anew: motionkit reward-collect"

Side = Annotated[int, Field(ge=1, le=8192)]
Width = Annotated[int, Field(ge=1, le=10_000)]
ColumnName = Literal["action", "state"]
"""Columns of numbers: ``state`` of the moment that a frame shows, ``action`` that was taken in it."""

Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$")]

Size = tuple[int, int]

_Hash = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
_STRICT = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)


def task_of(environment: Mapping[str, Any]) -> str:
    """Return the task that an environment's ``spec`` names, such as ``gymnasium my_tasks:Push-v0``; empty for none.

    Frames of two tasks show two kinds of success, even if their cameras have the same names and sizes.
    """
    return " ".join(str(environment[key]) for key in ("name", "id") if environment.get(key))


def plain_name(text: str) -> str:
    """Return a camera's name as it is used in file names: ``wrist.rgb`` for ``wrist/rgb``.

    ASCII letters and digits, ``_``, ``.`` and ``-`` stay, others become a dot.
    """
    return re.sub(r"[^A-Za-z0-9_.-]", ".", text).lstrip("._-")[:_LONGEST] or "camera"


class Manifest(BaseModel):
    """What all episodes of a folder share."""

    model_config = _STRICT | ConfigDict(populate_by_name=True)

    kind: Literal["motionkit-episodes"] = "motionkit-episodes"  # always ``motionkit-episodes``
    schema_: Literal[1] = Field(1, alias="schema")  # version of the format
    cameras: dict[Name, tuple[Side, Side]] = Field(min_length=1, max_length=64)  # ``(height, width)`` in pixels by name
    environment: dict[str, Any] = {}  # what was collected from; empty if it is not known
    label_rule: str = LABEL_RULE  # when a frame is a success
    licence: str = ""  # licence of the pictures, if it is known
    columns: dict[ColumnName, Width] = {}  # width of each column; empty if only frames are kept
    # Numbers of each part of an observation that a state is joined of, in order; empty if it is not known
    state_parts: dict[str, Annotated[int, Field(ge=0, le=10_000)]] = Field({}, max_length=10_000)
    choices: int = Field(0, ge=0, le=1_000_000)  # n, if an action is one of n choices; 0 if it is a vector
    fps: float = Field(0.0, ge=0, le=100_000)  # frames a second; 0 if it is not known
    labelled: bool = True  # whether it is known which frames are a success; else all labels are 0

    @property
    def widths(self) -> str:
        """The columns with their widths, and the parts of a state, in words."""
        inside = f" ({', '.join(f'{name} {count}' for name, count in self.state_parts.items())})"
        words = [f"{name} {width}" + inside * (name == "state" and bool(self.state_parts))
                 for name, width in self.columns.items()]  # fmt: skip
        return ", ".join(words) or "none"


class EpisodeRecord(BaseModel):
    """One episode."""

    model_config = _STRICT

    id: Name  # its name in the folder
    # Name of the files that hold its frames, without camera and ending
    shard: Annotated[str, StringConstraints(pattern=r"^frames-[0-9]{2}-[0-9]{4}$")]
    offset: int = Field(ge=0, le=2**40)  # its first frame there
    # A character per frame: ``1`` if the state it shows is a success
    labels: Annotated[str, StringConstraints(pattern=r"^[01]+$", max_length=10_000_000)]
    success_once: bool  # the environment said so at some step
    seed: int | None = None  # seed of its start
    source: str = ""  # what acted
    sha256: dict[Name, _Hash]  # hash of its frames by camera
    columns: dict[ColumnName, _Hash] = {}  # hash of its numbers by column

    @property
    def frames(self) -> int:
        """Number of frames."""
        return len(self.labels)

    @property
    def positive(self) -> bool:
        """Whether the episode has a success: the environment said so at some step, or a frame is labelled as one."""
        return self.success_once or "1" in self.labels

    @property
    def content(self) -> str:
        """Fingerprint of its frames: the same under another name and in another folder."""
        return fingerprint(*sorted(self.sha256.values()))

    @property
    def mark(self) -> str:
        """First digits of its hash, for messages."""
        return next(iter(self.sha256.values()))[:12]


def shard_path(folder: Path, shard: str, camera: str) -> Path:
    """Return the file of a shard and a camera."""
    return folder / f"{shard}.{camera}.u8"


def column_path(folder: Path, shard: str, column: str) -> Path:
    """Return the file of a shard and a column: rows of little-endian float32."""
    return folder / f"{shard}.{column}.f32"


def frame_bytes(size: Size) -> int:
    """Return the bytes of one RGB frame."""
    return size[0] * size[1] * 3


def whole_frames(folder: Path, shard: str, cameras: Mapping[str, Size]) -> int:
    """Return how many frames of a shard every camera has; 0 if a file is missing."""
    counts = []
    for camera, size in cameras.items():
        path = shard_path(folder, shard, camera)
        counts.append(path.stat().st_size // frame_bytes(size) if path.is_file() else 0)
    return min(counts)


class MappedPages:
    """Releases the pages of mapped files when they are many; the files stay in the system's cache.

    Pages that were read count as the process's memory until they are released: without it a process that reads a large
    file at random finally holds all of it, and may exceed a limit on its memory, such as a container's.

    Args:
        enough: Bytes at which they are released.
    """

    def __init__(self, enough: int = _ENOUGH) -> None:
        self._enough = enough
        self._files: dict[int, np.memmap[Any, Any]] = {}
        self._bytes = 0

    def touched(self, file: np.memmap[Any, Any], rows: int) -> None:
        """Note that rows of a file were read or written."""
        self._files[id(file)] = file
        self._bytes += rows * max(_AROUND, file[:1].nbytes)
        if self._bytes >= self._enough:
            self.let_go()

    def let_go(self) -> None:
        """Release all pages, if the system supports it."""
        for file in self._files.values():
            # numpy has no public name for it.
            mapping = getattr(file, "_mmap", None)
            if isinstance(mapping, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
                # The mapping is shared: data written to the file are kept.
                mapping.madvise(mmap.MADV_DONTNEED)
        self._files.clear()
        self._bytes = 0


class ShardReader:
    """Reads frames of several shards by their place; files are mapped, so that memory does not grow with them."""

    def __init__(self, folders: Sequence[Path], shards: Sequence[str], cameras: Mapping[str, Size]) -> None:
        self._places = list(zip(folders, shards, strict=True))
        self._cameras = dict(cameras)
        self._maps: dict[tuple[int, str], np.memmap[Any, np.dtype[np.uint8]]] = {}
        self._pages = MappedPages()

    def read(self, camera: str, shard: NDArray[np.int64], row: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Return frames ``[M, H, W, 3]`` at row `row` of shard number `shard`, each ``[M]``."""
        height, width = self._cameras[camera]
        frames = np.empty((len(row), height, width, 3), np.uint8)
        # In the order of the file: neighbours are read together.
        order = np.lexsort((row, shard))
        for number in np.unique(shard).tolist():
            places = order[shard[order] == number]
            file = self._map(number, camera)
            frames[places] = file[row[places]]
            self._pages.touched(file, len(places))
        return frames

    def place(self, number: int) -> tuple[Path, str]:
        """Return folder and name of shard `number`."""
        return self._places[number]

    def _map(self, number: int, camera: str) -> np.memmap[Any, np.dtype[np.uint8]]:
        if (number, camera) not in self._maps:
            folder, shard = self._places[number]
            height, width = self._cameras[camera]
            path = shard_path(folder, shard, camera)
            count = path.stat().st_size // frame_bytes((height, width))
            self._maps[number, camera] = np.memmap(path, np.uint8, "r", shape=(count, height, width, 3))
        return self._maps[number, camera]


class Episodes:
    """Frames of episodes, one episode after the other."""

    def __init__(
        self, manifest: Manifest, records: Sequence[EpisodeRecord], shards: Sequence[int], reader: ShardReader,
        notes: Sequence[str] = (),
    ) -> None:  # fmt: skip
        self.manifest, self.records = manifest, tuple(records)
        self.notes = tuple(notes)  # what was left out, and why
        self.cameras: Mapping[str, Size] = manifest.cameras  # ``(height, width)`` in pixels by name
        self.environment, self.label_rule = manifest.environment, manifest.label_rule
        self.labelled = manifest.labelled  # whether it is known which frames are a success
        # Numbers of a row of each column that all episodes have; see `column`
        self.columns: Mapping[ColumnName, int] = manifest.columns
        self._shards, self._reader = np.array(shards, np.int64), reader
        counts = np.array([record.frames for record in records], np.int64)
        self.episode: NDArray[np.int64] = np.repeat(np.arange(len(counts)), counts)  # [F] int64, index into `records`
        starts = np.concatenate([[0], counts.cumsum()[:-1]]) if len(counts) else np.zeros(0, np.int64)
        # [F] int64, frame within its episode; frame 0 shows the state after the first action
        self.step: NDArray[np.int64] = np.arange(counts.sum()) - starts[self.episode]
        text = "".join(record.labels for record in records).encode()
        # [F] float32, 1 for a success
        self.labels: NDArray[np.float32] = (np.frombuffer(text, np.uint8) == ord("1")).astype(np.float32)
        self._offsets = np.array([record.offset for record in records], np.int64)

    def __len__(self) -> int:
        return len(self.labels)

    def read(self, index: NDArray[np.int64]) -> dict[str, NDArray[np.uint8]]:
        """Return frames ``[M, H, W, 3]`` uint8 RGB of each camera; `index` ``[M]`` is in any order."""
        episode = self.episode[index]
        shard, row = self._shards[episode], self._offsets[episode] + self.step[index]
        return {camera: self._reader.read(camera, shard, row) for camera in self.cameras}

    def column(self, name: ColumnName) -> NDArray[np.float32]:
        """Return a column, ``[F, W]``; all of it is read and compared with the hash of when it was written.

        A row of ``state`` is of the moment that the frame shows, one of ``action`` the action taken in that moment; the
        last action of an episode has no meaning.
        """
        width = self.columns[name]
        values = np.empty((len(self), width), np.float32)
        ends = np.cumsum([record.frames for record in self.records]).tolist()
        for record, shard, end in zip(self.records, self._shards.tolist(), ends, strict=True):
            folder, file = self._reader.place(shard)
            path = column_path(folder, file, name)
            try:
                with path.open("rb") as rows:
                    rows.seek(record.offset * 4 * width)
                    data = rows.read(record.frames * 4 * width)
            except OSError as error:
                raise MotionkitError(
                    f"{path} cannot be read.", why=f"{error.strerror or error}.", fix=_AGAIN
                ) from error
            if sha256(data).hexdigest() != record.columns.get(name):
                raise MotionkitError(
                    f"the {name}s of episode {record.id} ({record.mark}) in {path} are not those written.", fix=_AGAIN
                )
            values[end - record.frames : end] = np.frombuffer(data, "<f4").reshape(-1, width)
        if not np.isfinite(values).all():
            raise MotionkitError(f"a number of the column {name} is not finite.", fix=_AGAIN)
        return values

    def chosen(self, numbers: Sequence[int]) -> Episodes:
        """Return some of the episodes, by their numbers in `records`."""
        records = [self.records[number] for number in numbers]
        return Episodes(self.manifest, records, self._shards[list(numbers)].tolist(), self._reader, self.notes)

    def relabelled(self, numbers: Sequence[int], records: Sequence[EpisodeRecord], note: str, *, rule: str) -> Episodes:
        """Return some of the episodes with other labels."""
        manifest = self.manifest.model_copy(update={"label_rule": rule, "labelled": True})
        return Episodes(manifest, records, self._shards[list(numbers)].tolist(), self._reader, (*self.notes, note))

    def distinct(self) -> Episodes:
        """Return the first episode of each content; a note counts the copies.

        Copies could be in the training part and in the test part.
        """
        first: dict[str, int] = {}
        for number, record in enumerate(self.records):
            first.setdefault(record.content, number)
        kept = list(first.values())
        if len(kept) == len(self.records):
            return self
        odd = sum(record.labels != self.records[first[record.content]].labels for record in self.records)
        count = len(self.records) - len(kept)
        note = f"{count} of {len(self.records)} episodes have the frames of another one: one of each is kept."
        note += f" {odd} of them have other labels than the one that is kept." if odd else ""
        episodes = self.chosen(kept)
        episodes.notes = (*self.notes, note)
        return episodes

    def require_whole(self) -> None:
        """Refuse frames that are not those that were written; reads all of them, at about 1 GB/s."""
        if wrong := self.verify():
            more = f" and {len(wrong) - _SHOWN} more" if len(wrong) > _SHOWN else ""
            raise MotionkitError(
                f"the frames of {len(wrong)} of {len(self.records)} episodes have changed since they were written.",
                why=" ".join(wrong[:_SHOWN]) + more,
                fix=_AGAIN,
            )

    @cached_property
    def fingerprint(self) -> str:
        """Hash of labels and frames of all episodes."""
        mark = sha256()
        for record in self.records:
            mark.update(record.labels.encode())
            mark.update("".join(record.sha256[name] for name in sorted(record.sha256)).encode())
        return mark.hexdigest()

    def verify(self) -> list[str]:
        """Read every frame and compare with its hash; returns a sentence for each episode that differs."""
        wrong: list[str] = []
        ends = np.cumsum([record.frames for record in self.records]).tolist()
        piece = max(1, _PIECE // max(map(frame_bytes, self.cameras.values())))
        for record, end in zip(self.records, ends, strict=True):
            hashes = {camera: sha256() for camera in record.sha256}
            for start in range(end - record.frames, end, piece):
                for camera, frames in self.read(np.arange(start, min(start + piece, end))).items():
                    hashes[camera].update(frames.data)
            for camera, mark in record.sha256.items():
                if hashes[camera].hexdigest() != mark:
                    wrong.append(f"episode {record.id} ({record.mark}): its frames of {camera} are not those written.")
        return wrong

    def counts(self) -> dict[str, dict[str, int]]:
        """Return episodes, frames and frames with success of each class: ``{"positive": {...}, "negative": {...}}``."""
        positive = np.array([record.positive for record in self.records], np.bool_)
        counts = {}
        for name, members in (("positive", positive), ("negative", ~positive)):
            frames = members[self.episode] if len(self.records) else np.zeros(0, np.bool_)
            success = int(self.labels[frames].sum())
            counts[name] = {"trajectories": int(members.sum()), "frames": int(frames.sum()), "success_frames": success}
        return counts


def read_manifest(folder: Path) -> Manifest:
    """Read ``manifest.json``."""
    return as_model(folder / MANIFEST, Manifest, read_json(folder / MANIFEST, dict, fix=FIX))


def read_records(path: Path) -> tuple[list[EpisodeRecord], int, list[str]]:
    """Read the lines of an episodes file.

    Returns:
        The episodes; the bytes up to the end of the last complete line (a killed writer may leave a part of one); a
        note for each line that is not readable.
    """
    records, notes, end = [], [], 0
    for number, line in enumerate(path.read_bytes().splitlines(keepends=True), 1):
        if not line.endswith(b"\n"):
            break
        end += len(line)
        try:
            records.append(EpisodeRecord.model_validate(json.loads(line)))
        except (ValueError, RecursionError):
            notes.append(f"line {number} of {path.name} is not readable, its episode is left out.")
    return records, end, notes


def read_folder(folder: Path) -> tuple[Manifest, list[EpisodeRecord], list[str]]:
    """Read the documents of a folder of episodes, with notes on episodes that were left out."""
    manifest = read_manifest(folder)
    parts = [read_records(path) for path in sorted(folder.glob("episodes-[0-9][0-9].jsonl"))]
    notes = list(chain.from_iterable(part[2] for part in parts))
    there: dict[str, int] = {}
    kept = []
    for record in chain.from_iterable(part[0] for part in parts):
        if record.sha256.keys() != manifest.cameras.keys():
            notes.append(f"episode {record.id} ({record.mark}) has other cameras than the folder, it is left out.")
            continue
        if record.shard not in there:
            there[record.shard] = whole_frames(folder, record.shard, manifest.cameras)
        if record.offset + record.frames > there[record.shard]:
            notes.append(f"episode {record.id} ({record.mark}) is cut off in {record.shard}, it is left out.")
            continue
        kept.append(record)
    return manifest, kept, notes
