"""The guide's folders of trajectories, as episodes: looked through once, then read file by file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path

from motionkit.config import cache_folder
from motionkit.datasets.episodes._collector import Collector
from motionkit.datasets.episodes._guide_files import Trajectory, list_files, read_file
from motionkit.datasets.episodes._open import open_episodes
from motionkit.datasets.episodes._read import Episodes
from motionkit.datasets.episodes._records import plain_name
from motionkit.errors import MotionkitError
from motionkit.runs import fingerprint, write_bytes_atomic

_DARK = 1.5  # a value above it is of 0 to 255
_SHOWN = 5
_READING = "2"  # how files are read; what was kept by another way is not used


class Trajectories:
    """The files of two folders that are whole; every one is read once here, so that bad input is known at once.

    Args:
        positive: Folder of episodes with a success.
        negative: Folder of the others.
        cameras: Cameras that are wanted; empty: those of the first file.

    Attributes:
        cameras: ``(height, width)`` in pixels by name.
        notes: What was found odd, a sentence each: files that were left out, the range of values, labels.
        fingerprint: Of the files' content.

    Raises:
        MotionkitError: A folder is missing or empty, a file names code, is no trajectory, or has other cameras or
            sizes than the first; or some files hold values of 0 to 1 and others of 0 to 255.
    """

    def __init__(self, positive: Path, negative: Path, *, cameras: Sequence[str] = ()) -> None:
        self._files: list[tuple[bool, Path]] = []
        self.cameras: dict[str, tuple[int, int]] = {}
        cut: list[Path] = []
        positives, only_last = 0, 0
        highest: dict[Path, float] = {}
        small: list[Path] = []
        marks: list[str] = []
        self._called: dict[str, str] = {}
        odd = {"positive": 0, "negative": 0}
        for sign, path in list_files(positive, negative):
            one = read_file(path)
            if one is None:
                cut.append(path)
                continue
            self._match(path, one, cameras)
            self._files.append((sign, path))
            marks += [fingerprint(name, values) for name, values in one.images.items()] + [fingerprint(one.labels)]
            if one.highest is not None:
                highest[path] = one.highest
                if one.highest <= _DARK and one.fractions:
                    small.append(path)
            labels = one.labels >= 0.5
            odd["positive" if sign else "negative"] += bool(labels.any()) is not sign
            positives += bool(labels.any())
            only_last += bool(labels.sum() == 1 and labels[-1])
        for sign, folder in ((True, positive), (False, negative)):
            if all(own is not sign for own, _ in self._files):
                raise MotionkitError(f"no .npy file in {folder} is whole.", fix="copy the files again.")
        self._scale = _scale_of(highest, small)
        self.fingerprint = fingerprint(*marks)
        self.notes = _notes(cut, odd, suspicious=bool(positives) and only_last == positives)
        if highest and self._scale == 1.0:
            most = max(highest.values())
            self.notes.append(
                f"pictures hold values up to {most:g}, not the guide's 0 to 1: they are read as 0 to 255."
            )
        if whole := len(self._files) - len(highest):
            self.notes.append(f"{whole} of {len(self._files)} files hold whole numbers: those are read as 0 to 255.")
        self.notes += [
            f"the camera {name!r} is called {plain} here." for plain, name in self._called.items() if name != plain
        ]

    def __len__(self) -> int:
        return len(self._files)

    def _match(self, path: Path, one: Trajectory, wanted: Sequence[str]) -> None:
        """Take cameras and sizes from the first file; refuse another that differs."""
        sizes = one.sizes()
        wanted = [plain_name(name) for name in wanted]
        if missing := [name for name in (wanted or self.cameras) if name not in sizes]:
            raise MotionkitError(
                f"{path} has no camera {missing[0]}.", why=f"it has {', '.join(sizes)}.", fix="--data.cameras"
            )
        if not self.cameras:
            self.cameras = {name: sizes[name] for name in wanted or sizes}
            self._called = {name: one.called[name] for name in self.cameras}
            self._first = path
        for name, size in self.cameras.items():
            if sizes[name] != size:
                raise MotionkitError(
                    f"{path}: {name} is {sizes[name][0]} x {sizes[name][1]}.",
                    why=f"it is {size[0]} x {size[1]} in {self._first}; a classifier is made for images of one size.",
                    fix="give folders of one size, or resize the images.",
                )

    def add(self, number: int, collector: Collector) -> None:
        """Give the episode of a file to a collector, which keeps it if its class is wanted.

        Args:
            number: Which one, from 0.
            collector: Of the same cameras.

        Raises:
            MotionkitError: The file has changed meanwhile, or the disk is full.
        """
        _, path = self._files[number]
        one = read_file(path)
        if one is None:
            raise MotionkitError(f"{path} has changed since it was first read.", fix="start again.", code=1)
        self._match(path, one, tuple(self.cameras))
        collector.source = str(path.parent)
        labels = one.labels >= 0.5
        frames = {name: one.pictures(name, self._scale) for name in self.cameras}
        for step, label in enumerate(labels):
            collector.add({name: values[step] for name, values in frames.items()}, label, step == len(labels) - 1)


def open_trajectories(positive: Path, negative: Path, *, cameras: Sequence[str] = ()) -> Episodes:
    """Open the guide's folders; their frames are kept as bytes in the cache, since a file must be read whole.

    Args:
        positive: As for `Trajectories`.
        negative: As for `Trajectories`.
        cameras: As for `Trajectories`.

    Raises:
        MotionkitError: As `Trajectories`.
    """
    mark = sha256("\0".join((_READING, *cameras)).encode())
    for _, path in list_files(positive, negative):
        status = path.stat()
        mark.update(f"{path.absolute()}\0{status.st_size}\0{status.st_mtime_ns}\n".encode())
    folder = cache_folder() / f"episodes-{mark.hexdigest()[:24]}"
    done = folder / "notes.txt"  # written last
    if not done.is_file():
        notes = _convert(Trajectories(positive, negative, cameras=cameras), folder)
        write_bytes_atomic(done, "\n".join(notes).encode())
    found = open_episodes(folder)
    found.notes = (*(line for line in done.read_text().splitlines() if line), *found.notes)
    return found


def import_trajectories(positive: Path, negative: Path, out: Path, *, cameras: Sequence[str] = ()) -> list[str]:
    """Write the guide's folders in motionkit's format; returns what was found odd, a sentence each.

    Args:
        positive: As for `Trajectories`.
        negative: As for `Trajectories`.
        out: The new folder.
        cameras: As for `Trajectories`.

    Raises:
        MotionkitError: As `Trajectories`, or `out` holds something already.
    """
    if out.exists() and any(out.iterdir()):
        raise MotionkitError(f"{out} is not empty.", fix="choose a new folder.")
    return _convert(Trajectories(positive, negative, cameras=cameras), out)


def _convert(trajectories: Trajectories, out: Path) -> list[str]:
    with Collector(out, cameras=trajectories.cameras) as collector:
        collector.rewind({}, {"episodes": 0, "labels": [], "left_out": {"positive": 0, "negative": 0}})
        for number in range(len(trajectories)):
            trajectories.add(number, collector)
    return trajectories.notes


def _scale_of(highest: Mapping[Path, float], small: Sequence[Path]) -> float:
    """Return what float values are multiplied by; a dark file of whole numbers may be of 0 to 255, too.

    Args:
        highest: The highest value of each file.
        small: Files of 0 to 1.

    Raises:
        MotionkitError: Some files are of 0 to 1, others of 0 to 255.
    """
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
