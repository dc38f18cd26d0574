"""The reward-model guide's folders of trajectories: ``.npy`` files that are opened as episodes, or written from them.

A file is ``{"images": {camera: float [T, C, H, W]}, "labels": float [T]}``, pickled, in the folder of successes or of
others. It is read without executing anything in it.
"""

from __future__ import annotations

import io
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from motionkit.config import cache_folder
from motionkit.contracts.console import Console
from motionkit.errors import MotionkitError
from motionkit.runs import OutputFolder, disk_errors, fingerprint, write_bytes_atomic
from motionkit_success.episode_formats import EpisodeFormat, NoOptions
from motionkit_success.episodes.collector import Collector
from motionkit_success.episodes.open import open_episodes
from motionkit_success.episodes.read import Episodes, plain_name

_LIMIT = 2 << 30
_FIX = "give the folders that hold 000000.npy, ..."

_DARK = 1.5  # a value above it is of 0 to 255
_SHOWN = 5
_READING = "2"  # how files are read; what was kept by another way is not used

_FOLDERS = {True: "positive", False: "negative"}
_RECORD, _KIND = "export.json", "motionkit-trajectories"


def open_trajectories(positive: Path, negative: Path, *, cameras: Sequence[str] = ()) -> Episodes:
    """Open the guide's folders; their frames are kept as bytes in the cache, since a file must be read whole."""
    mark = sha256("\0".join((_READING, *cameras)).encode())
    for _, path in list_files(positive, negative):
        status = path.stat()
        mark.update(f"{path.absolute()}\0{status.st_size}\0{status.st_mtime_ns}\n".encode())
    folder = cache_folder() / f"episodes-{mark.hexdigest()[:24]}"
    done = folder / "notes.txt"  # written last
    if not done.is_file():
        trajectories = Trajectories(positive, negative, cameras=cameras)
        with Collector(folder, cameras=trajectories.cameras) as collector:
            collector.clear()
            for number in range(len(trajectories)):
                trajectories.add(number, collector)
        write_bytes_atomic(done, "\n".join(trajectories.notes).encode())
    episodes = open_episodes(folder)
    episodes.notes = (*(line for line in done.read_text().splitlines() if line), *episodes.notes)
    return episodes


class Trajectories:
    """The complete files of two folders. All are read once here, to find faults at once.

    `cameras` empty: those of the first file.
    """

    def __init__(self, positive: Path, negative: Path, *, cameras: Sequence[str] = ()) -> None:
        self._files: list[tuple[bool, Path]] = []
        self.cameras: dict[str, tuple[int, int]] = {}  # ``(height, width)`` in pixels by name
        cut: list[Path] = []
        positives, only_last = 0, 0
        highest: dict[Path, float] = {}
        small: list[Path] = []
        marks: list[str] = []
        self._called: dict[str, str] = {}
        odd = {"positive": 0, "negative": 0}
        for sign, path in list_files(positive, negative):
            trajectory = read_file(path)
            if trajectory is None:
                cut.append(path)
                continue
            self._match(path, trajectory, cameras)
            self._files.append((sign, path))
            marks += [fingerprint(name, values) for name, values in trajectory.images.items()]
            marks.append(fingerprint(trajectory.labels))
            if trajectory.highest is not None:
                highest[path] = trajectory.highest
                if trajectory.highest <= _DARK and trajectory.fractions:
                    small.append(path)
            labels = trajectory.labels >= 0.5
            odd["positive" if sign else "negative"] += bool(labels.any()) is not sign
            positives += bool(labels.any())
            only_last += bool(labels.sum() == 1 and labels[-1])
        for sign, folder in ((True, positive), (False, negative)):
            if all(label is not sign for label, _ in self._files):
                raise MotionkitError(f"no .npy file in {folder} is whole.", fix="copy the files again.")
        self._scale = _scale_of(highest, small)
        self.fingerprint = fingerprint(*marks)  # of the files' content
        # Notes for the user: files that were left out, the range of values, labels
        self.notes = _notes(cut, odd, suspicious=bool(positives) and only_last == positives)
        if highest and self._scale == 1.0:
            most = max(highest.values())
            self.notes.append(
                f"pictures hold values up to {most:g}, not the guide's 0 to 1: they are read as 0 to 255."
            )
        if integers := len(self._files) - len(highest):
            self.notes.append(f"{integers} of {len(self._files)} files hold whole numbers: those are read as 0 to 255.")
        self.notes += [
            f"the camera {name!r} is called {plain} here." for plain, name in self._called.items() if name != plain
        ]

    def __len__(self) -> int:
        return len(self._files)

    def _match(self, path: Path, trajectory: Trajectory, names: Sequence[str]) -> None:
        """Take cameras and sizes from the first file; refuse another that differs."""
        sizes = trajectory.sizes()
        names = [plain_name(name) for name in names]
        if missing := [name for name in (names or self.cameras) if name not in sizes]:
            raise MotionkitError(
                f"{path} has no camera {missing[0]}.", why=f"it has {', '.join(sizes)}.", fix="--data.cameras"
            )
        if not self.cameras:
            self.cameras = {name: sizes[name] for name in names or sizes}
            self._called = {name: trajectory.called[name] for name in self.cameras}
            self._first = path
        for name, size in self.cameras.items():
            if sizes[name] != size:
                raise MotionkitError(
                    f"{path}: {name} is {sizes[name][0]} x {sizes[name][1]}.",
                    why=f"it is {size[0]} x {size[1]} in {self._first}; a classifier is made for images of one size.",
                    fix="give folders of one size, or resize the images.",
                )

    def add(self, number: int, collector: Collector) -> None:
        """Give the episode of a file to a collector, which keeps it if its class is wanted."""
        _, path = self._files[number]
        trajectory = read_file(path)
        if trajectory is None:
            raise MotionkitError(f"{path} has changed since it was first read.", fix="start again.", code=1)
        self._match(path, trajectory, tuple(self.cameras))
        collector.source = str(path.parent)
        labels = trajectory.labels >= 0.5
        frames = {name: trajectory.pictures(name, self._scale) for name in self.cameras}
        for step, label in enumerate(labels):
            collector.add({name: values[step] for name, values in frames.items()}, label, step == len(labels) - 1)


def _scale_of(highest: Mapping[Path, float], small: Sequence[Path]) -> float:
    """Return the factor of float pictures. `small` files hold fractions of 0 to 1."""
    large = [path for path, value in highest.items() if value > _DARK]
    if large and small:
        raise MotionkitError(
            f"{len(small)} files hold float values of 0 to 1 and {len(large)} of 0 to 255.",
            why=f"{small[0]} goes up to {highest[small[0]]:g}, {large[0]} up to {highest[large[0]]:g}: with one range "
            "for all, some would be black, and a classifier would learn which file a frame is from.",
            fix="save the pictures of all files as uint8, whose range is known, or all in one range.",
        )
    return 1.0 if large else 255.0


def _notes(cut: Sequence[Path], odd: dict[str, int], *, suspicious: bool) -> list[str]:
    notes = []
    if cut:
        named = ", ".join(map(str, cut[:_SHOWN])) + (f" and {len(cut) - _SHOWN} more" if len(cut) > _SHOWN else "")
        notes.append(f"{named}: cut off or damaged, left out.")
    for folder, count in odd.items():
        if count:
            notes.append(f"{count} files in the {folder} folder are of the other class by their labels; labels count.")
    if suspicious:
        notes.append(
            "all episodes with a success end with it, and their last frame alone is labelled: if they were collected "
            "with automatic resets, that frame shows the next episode."
        )
    return notes


@dataclass(frozen=True)
class Trajectory:
    """Content of a file."""

    # [T, 3, H, W] by camera: whole numbers are of 0 to 255, others of 0 to 1 or of 0 to 255
    images: Mapping[str, NDArray[Any]]
    labels: NDArray[Any]  # [T]
    called: Mapping[str, str]  # name of each camera in the file

    @property
    def highest(self) -> float | None:
        """The highest value of float pictures, whose type does not fix their range; None without such."""
        return max((float(values.max()) for values in self.images.values() if values.dtype.kind == "f"), default=None)

    @property
    def fractions(self) -> bool:
        """Whether pictures of floats hold values between whole numbers, as those of 0 to 1 do."""
        floats = (values for values in self.images.values() if values.dtype.kind == "f")
        return any(bool((values != np.floor(values)).any()) for values in floats)

    def pictures(self, name: str, scale: float) -> NDArray[np.uint8]:
        """Return ``[T, H, W, 3]`` uint8 of a camera; floats are multiplied by `scale`."""
        values = self.images[name].transpose(0, 2, 3, 1)
        if values.dtype.kind != "f":
            return values.astype(np.uint8)
        pictures: NDArray[np.uint8] = (values.astype(np.float32) * scale + 0.5).astype(np.uint8)
        return pictures

    def sizes(self) -> dict[str, tuple[int, int]]:
        """Return height and width by camera."""
        return {name: (values.shape[2], values.shape[3]) for name, values in self.images.items()}


def list_files(positive: Path, negative: Path) -> list[tuple[bool, Path]]:
    """Return the files of both folders, True for those of the folder of successes."""
    files: list[tuple[bool, Path]] = []
    for folder, sign in ((positive.expanduser(), True), (negative.expanduser(), False)):
        if not folder.is_dir():
            raise MotionkitError(f"{folder} is not a folder.", fix=_FIX)
        paths = sorted(path for path in folder.iterdir() if path.suffix == ".npy" and path.is_file())
        if not paths:
            raise MotionkitError(f"{folder} holds no .npy file.", fix=_FIX)
        files += [(sign, path) for path in paths]
    return files


def read_file(path: Path) -> Trajectory | None:
    """Read a file; None for one that was cut off or damaged on its way."""
    from motionkit.weights import read_array

    size = path.stat().st_size
    try:
        content = read_array(path, limit=min(_LIMIT, max(1 << 20, 64 * size)))
    except MotionkitError as error:
        # A refused file has no cause; one that cannot be decoded has the decoder's error.
        if error.__cause__ is None and size:
            raise
        return None
    images = content.get("images") if isinstance(content, Mapping) else None
    labels = np.asarray(content.get("labels")) if isinstance(content, Mapping) else np.zeros(0)
    fix = "a trajectory holds {'images': {camera: [T, C, H, W]}, 'labels': [T]}."
    if not isinstance(images, Mapping) or not images or labels.ndim != 1 or labels.dtype.kind not in "biuf":
        raise MotionkitError(f"{path} is not a trajectory.", fix=fix)
    for name, values in images.items():
        good = isinstance(name, str) and isinstance(values, np.ndarray) and values.dtype.kind in "uif"
        if not good or values.ndim != 4 or values.shape[1] != 3 or len(values) != len(labels) or not values.size:
            # They are whatever the file holds.
            shape = getattr(values, "shape", type(values).__name__)
            raise MotionkitError(f"{path} is not a trajectory: {name} is {shape}, with {len(labels)} labels.", fix=fix)
        if not np.isfinite(values).all() or values.min() < 0 or values.max() > 255:
            raise MotionkitError(
                f"{path}: {name} holds values outside of a picture's range.", why="0 to 1 or 0 to 255."
            )
    if not np.isfinite(labels).all():
        raise MotionkitError(f"{path}: a label is not finite.")
    called = {plain_name(name): name for name in images}
    if len(called) < len(images):
        raise MotionkitError(
            f"{path}: cameras cannot be told apart.",
            why=f"{', '.join(map(repr, images))} are all called {', '.join(called)} here, where names are of letters, "
            "digits, '_', '.' and '-'.",
            fix="give them names of these characters.",
        )
    return Trajectory({plain: images[name] for plain, name in called.items()}, labels, called)


def export_trajectories(episodes: Episodes, out: Path, *, overwrite: bool = False) -> dict[str, int]:
    """Write episodes as the guide's files: ``positive/000000.npy`` and ``negative/000000.npy``.

    A file is a pickle of arrays and plain tables, as the guide's code reads it. The folder is renamed into place, with
    a record of its content. Returns the number of files by folder.
    """
    place = OutputFolder(out, _RECORD, _KIND, overwrite=overwrite)
    place.claim()
    counts = dict.fromkeys(_FOLDERS.values(), 0)
    with place.beside() as part:
        with disk_errors("write trajectories", out):
            for name in counts:
                (part / name).mkdir()
            for number, record in enumerate(episodes.records):
                name = _FOLDERS[record.positive]
                (part / name / f"{counts[name]:06d}.npy").write_bytes(_file(episodes, number))
                counts[name] += 1
        place.settle(part, {"schema": 1, "trajectories": dict(counts)})
    return counts


class TrajectoryFormat(EpisodeFormat):
    """The guide's files, as a format that `motionkit export` writes."""

    def __init__(self, options: NoOptions) -> None:
        self.options = options

    def write(
        self, episodes: Episodes, out: Path, console: Console, *, fps: float, overwrite: bool
    ) -> Mapping[str, Any]:
        """Write the files; frames have no times in them."""
        counts = export_trajectories(episodes, out, overwrite=overwrite)
        good, bad = out / "positive", out / "negative"
        console.say(f"wrote {counts['positive']} trajectories into {good}, {counts['negative']} into {bad}")
        train = ["motionkit", "reward-train", "--data.positive-dir", str(good), "--data.negative-dir", str(bad)]
        return {"trajectories": counts, "frames": len(episodes), "next": [shlex.join(train)]}


def _file(episodes: Episodes, number: int) -> bytes:
    frames = np.flatnonzero(episodes.episode == number)
    # [T, H, W, 3] uint8 -> [T, C, H, W] float32 in [0, 1].
    images = {
        name: np.ascontiguousarray(value.transpose(0, 3, 1, 2)).astype(np.float32) / 255
        for name, value in episodes.read(frames).items()
    }
    table = np.empty((), dtype=object)
    table[()] = {"images": images, "labels": episodes.labels[frames]}
    buffer = io.BytesIO()
    np.save(buffer, table, allow_pickle=True)
    return buffer.getvalue()
