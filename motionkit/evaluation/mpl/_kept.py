"""Predictions that are kept to be looked at, each beside what really followed."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from motionkit.errors import MotionkitError
from motionkit.runs import Run, disk_errors, write_bytes_atomic

FILE = "predictions.npz"

_ALONG = ("predicted", "path", "feet")

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class KeptClip:
    """One window of a clip.

    Attributes:
        key: Id of the clip.
        rank: Its place among all clips, 1 for the largest GeoDeg.
        start: Seconds of the clip before the window begins.
        errors: GeoDeg of the clip in degrees by milliseconds, mean over its windows; None where it ends before.
        own: The same of this window.
        truth: ``[T, J, 3]`` joints in metres, the known frames first.
        predicted: The same with the prediction after the known frames.
        feet: ``[2, T, 2]`` contacts of truth and prediction, left and right foot; None where they are not known.
    """

    key: str
    rank: int
    start: float
    errors: Mapping[str, float | None]
    own: Mapping[str, float | None]
    truth: Floats
    predicted: Floats
    feet: Floats | None


@dataclass(frozen=True)
class KeptPath:
    """A run along a drawn path.

    Attributes:
        title: What the path is called.
        key: Id of the clip that it begins from.
        mean: Metres from the timed point, mean over what was predicted.
        end: Metres at its end.
        predicted: ``[T, J, 3]`` joints in metres, the known frames first.
        path: ``[T, 2]`` x and z that the root was asked to be at; over the known frames it is where it was.
        feet: ``[T, 2]`` contacts of the prediction.
    """

    title: str
    key: str
    mean: float
    end: float
    predicted: Floats
    path: Floats
    feet: Floats


@dataclass(frozen=True)
class Predictions:
    """Windows of a few clips, the worst first, and runs along drawn paths.

    Attributes:
        clips: The windows.
        predictor: Row of the table that they are of: ``model``, or a baseline.
        ranked: Clips that were ranked.
        known: Known frames.
        fps: Frames per second.
        names: Joint names.
        parents: Parent of each joint, -1 for the root.
        paths: A run along each drawn path; empty where none was made.
    """

    clips: tuple[KeptClip, ...]
    predictor: str
    ranked: int
    known: int
    fps: float
    names: tuple[str, ...]
    parents: tuple[int, ...]
    paths: tuple[KeptPath, ...] = ()

    def keep(self, run: Run) -> None:
        """Write ``RUN/heldout/predictions.npz``, as output of the run.

        Raises:
            MotionkitError: It cannot be written.
        """
        folder = run.artifact("heldout")
        with disk_errors("write the predictions", folder):
            folder.mkdir(exist_ok=True)
            self.save(folder / FILE)

    def save(self, path: Path) -> None:
        """Write an .npz file: ``truth`` and ``predicted`` ``[sum of T, J, 3]``, ``feet``, and JSON in ``about``.

        Runs along paths are in ``along_predicted``, ``along_path`` and ``along_feet``, where there are any.

        Raises:
            OSError: It cannot be written.
        """
        about = {
            "clips": [
                {"key": one.key, "rank": one.rank, "start": one.start, "errors": dict(one.errors),
                 "own": dict(one.own), "frames": len(one.truth), "feet": one.feet is not None}
                for one in self.clips
            ],
            "paths": [
                {"title": one.title, "key": one.key, "mean": one.mean, "end": one.end, "frames": len(one.predicted)}
                for one in self.paths
            ],
            "predictor": self.predictor, "ranked": self.ranked, "known": self.known, "fps": self.fps,
            "names": self.names, "parents": self.parents,
        }  # fmt: skip
        feet = [np.zeros((2, len(one.truth), 2)) if one.feet is None else one.feet for one in self.clips]
        along: dict[str, Any] = {
            f"along_{name}": np.concatenate([getattr(one, name) for one in self.paths]).astype(np.float32)
            for name in (_ALONG if self.paths else ())
        }
        buffer = io.BytesIO()
        np.savez_compressed(
            buffer,
            truth=np.concatenate([one.truth for one in self.clips]).astype(np.float32),
            predicted=np.concatenate([one.predicted for one in self.clips]).astype(np.float32),
            feet=np.concatenate(feet, axis=1).astype(np.float32),
            **along,
            about=np.array(json.dumps(about)),
        )
        write_bytes_atomic(path, buffer.getvalue())

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a file that `save` wrote.

        Raises:
            MotionkitError: It is missing, damaged or something else.
        """
        try:
            with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as file:
                floats = [name for name in file.files if name != "about"]
                arrays = {name: file[name].astype(np.float32) for name in floats}
                about = json.loads(str(file["about"]))
            return cls._of(arrays, about)
        except FileNotFoundError as error:
            raise MotionkitError(f"{path} is missing.") from error
        except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
            raise MotionkitError(f"{path} cannot be read as predictions.", why=str(error)) from error

    @classmethod
    def _of(cls, arrays: Mapping[str, Floats], about: Mapping[str, Any]) -> Self:
        names, parents = tuple(map(str, about["names"])), tuple(map(int, about["parents"]))
        counts = [int(one["frames"]) for one in about["clips"]]
        total, known = sum(counts), int(about["known"])
        shape = (total, len(names), 3)
        fits = arrays["truth"].shape == arrays["predicted"].shape == shape and arrays["feet"].shape == (2, total, 2)
        if not fits or len(parents) != len(names) or not counts or not 0 < known < min(counts):
            raise ValueError("its parts do not fit each other")
        ends = np.cumsum(counts)[:-1]
        truth, predicted = np.split(arrays["truth"], ends), np.split(arrays["predicted"], ends)
        feet = np.split(arrays["feet"], ends, axis=1)
        clips = tuple(
            KeptClip(
                str(one["key"]), int(one["rank"]), float(one["start"]), _errors(one["errors"]), _errors(one["own"]),
                truth[place], predicted[place], feet[place] if one["feet"] else None,
            )
            for place, one in enumerate(about["clips"])
        )  # fmt: skip
        return cls(
            clips, str(about["predictor"]), int(about["ranked"]), known, float(about["fps"]), names, parents,
            _paths(arrays, about.get("paths") or (), len(names), known),
        )  # fmt: skip


def _paths(arrays: Mapping[str, Floats], about: Any, joints: int, known: int) -> tuple[KeptPath, ...]:
    """Return the runs along paths; a file of an earlier motionkit has none."""
    if not about:
        return ()
    counts = [int(one["frames"]) for one in about]
    shapes = {"predicted": (joints, 3), "path": (2,), "feet": (2,)}
    parts = {}
    for name in _ALONG:
        values = arrays[f"along_{name}"]
        if values.shape != (sum(counts), *shapes[name]) or known >= min(counts):
            raise ValueError("its runs along paths do not fit each other")
        parts[name] = np.split(values, np.cumsum(counts)[:-1])
    return tuple(
        KeptPath(
            str(one["title"]), str(one["key"]), float(one["mean"]), float(one["end"]),
            *(parts[name][place] for name in _ALONG),
        )
        for place, one in enumerate(about)
    )  # fmt: skip


def _errors(values: Mapping[str, Any]) -> dict[str, float | None]:
    return {str(key): None if value is None else float(value) for key, value in dict(values).items()}
