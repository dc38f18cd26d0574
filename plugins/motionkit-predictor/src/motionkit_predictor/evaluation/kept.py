"""Predictions that are kept to be looked at, each with the truth."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.metrics import geodesic_degrees
from motionkit.runs import Run, disk_errors, write_arrays_atomic
from motionkit_predictor.data.clips import ClipSet, Windows
from motionkit_predictor.evaluation.long.measure import ALONG, DRAWN, MODEL, LongRuns
from motionkit_predictor.evaluation.long.result import middle
from motionkit_predictor.evaluation.measure import (
    BATCH,
    Horizons,
    Row,
    by_error,
    by_key,
    chosen,
    clip_errors,
    predict_checked,
)
from motionkit_predictor.policy import Predictor
from motionkit_predictor.states import MotionState, follow, state_positions

FILE = "predictions.npz"

_ALONG = ("predicted", "path", "feet")

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class KeptClip:
    """One window of a clip."""

    key: str  # id of the clip
    rank: int  # its place among all clips, 1 for the largest GeoDeg
    start: float  # seconds of the clip before the window begins
    # GeoDeg of the clip in degrees by milliseconds, mean over its windows; None if it ends before
    errors: Mapping[str, float | None]
    window_errors: Mapping[str, float | None]  # the same of this window
    truth: Floats  # [T, J, 3] joints in metres, the known frames first
    predicted: Floats  # the same with the prediction after the known frames
    # [2, T, 2] contacts of truth and prediction, left and right foot; None if they are not known
    feet: Floats | None


@dataclass(frozen=True)
class KeptPath:
    """A run along a drawn path."""

    title: str  # what the path is called
    key: str  # id of the clip that it begins from
    mean: float  # metres from the timed point, mean over what was predicted
    end: float  # metres at its end
    predicted: Floats  # [T, J, 3] joints in metres, the known frames first
    path: Floats  # [T, 2] x and z of the path's timed points; in the known frames those of the root
    feet: Floats  # [T, 2] contacts of the prediction


@dataclass(frozen=True)
class Predictions:
    """Windows of a few clips, the worst first, and runs along drawn paths."""

    clips: tuple[KeptClip, ...]  # the windows
    predictor: str  # row of the table that they are of: ``model``, or a baseline
    ranked: int  # clips that were ranked
    known: int  # known frames
    fps: float  # frames per second
    names: tuple[str, ...]  # joint names
    parents: tuple[int, ...]  # parent of each joint, -1 for the root
    paths: tuple[KeptPath, ...] = ()  # a run along each drawn path; empty if none was made

    def keep(self, run: Run) -> None:
        """Write ``RUN/heldout/predictions.npz``, as output of the run."""
        folder = run.artifact("heldout")
        with disk_errors("write the predictions", folder):
            folder.mkdir(exist_ok=True)
            self.save(folder / FILE)

    def save(self, path: Path) -> None:
        """Write an .npz file: ``truth`` and ``predicted`` ``[sum of T, J, 3]``, ``feet``, and JSON in ``about``.

        Runs along paths, if any, are in ``along_predicted``, ``along_path`` and ``along_feet``.
        """
        about = {
            "clips": [
                {"key": clip.key, "rank": clip.rank, "start": clip.start, "errors": dict(clip.errors),
                 "own": dict(clip.window_errors), "frames": len(clip.truth), "feet": clip.feet is not None}
                for clip in self.clips
            ],
            "paths": [
                {"title": run.title, "key": run.key, "mean": run.mean, "end": run.end, "frames": len(run.predicted)}
                for run in self.paths
            ],
            "predictor": self.predictor, "ranked": self.ranked, "known": self.known, "fps": self.fps,
            "names": self.names, "parents": self.parents,
        }  # fmt: skip
        feet = [np.zeros((2, len(kept.truth), 2)) if kept.feet is None else kept.feet for kept in self.clips]
        along: dict[str, Any] = {
            f"along_{name}": np.concatenate([getattr(kept, name) for kept in self.paths]).astype(np.float32)
            for name in (_ALONG if self.paths else ())
        }
        arrays = {
            "truth": np.concatenate([kept.truth for kept in self.clips]).astype(np.float32),
            "predicted": np.concatenate([kept.predicted for kept in self.clips]).astype(np.float32),
            "feet": np.concatenate(feet, axis=1).astype(np.float32),
            **along,
            "about": np.array(json.dumps(about)),
        }
        write_arrays_atomic(path, arrays)

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a file that `save` wrote."""
        try:
            with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as file:
                floats = [name for name in file.files if name != "about"]
                arrays = {name: file[name].astype(np.float32) for name in floats}
                about = json.loads(str(file["about"]))
            return cls._of(arrays, about)
        except FileNotFoundError as error:
            raise MotionkitError(f"{path} is missing.") from error
        except (OSError, ValueError, KeyError, TypeError, EOFError, RecursionError, zipfile.BadZipFile) as error:
            raise MotionkitError(f"{path} cannot be read as predictions.", why=str(error)) from error

    @classmethod
    def _of(cls, arrays: Mapping[str, Floats], about: Mapping[str, Any]) -> Self:
        names, parents = tuple(map(str, about["names"])), tuple(map(int, about["parents"]))
        counts = [int(kept["frames"]) for kept in about["clips"]]
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
                str(clip["key"]), int(clip["rank"]), float(clip["start"]), _errors(clip["errors"]),
                _errors(clip["own"]), truth[place], predicted[place], feet[place] if clip["feet"] else None,
            )
            for place, clip in enumerate(about["clips"])
        )  # fmt: skip
        return cls(
            clips, str(about["predictor"]), int(about["ranked"]), known, float(about["fps"]), names, parents,
            _paths(arrays, about.get("paths") or (), len(names), known),
        )  # fmt: skip


def _paths(arrays: Mapping[str, Floats], about: Any, joints: int, known: int) -> tuple[KeptPath, ...]:
    """Return the runs along paths; a file of an earlier motionkit has none."""
    if not about:
        return ()
    counts = [int(kept["frames"]) for kept in about]
    shapes = {"predicted": (joints, 3), "path": (2,), "feet": (2,)}
    parts = {}
    for name in _ALONG:
        values = arrays[f"along_{name}"]
        if values.shape != (sum(counts), *shapes[name]) or known >= min(counts):
            raise ValueError("its runs along paths do not fit each other")
        parts[name] = np.split(values, np.cumsum(counts)[:-1])
    return tuple(
        KeptPath(
            str(kept["title"]), str(kept["key"]), float(kept["mean"]), float(kept["end"]),
            *(parts[name][place] for name in _ALONG),
        )
        for place, kept in enumerate(about)
    )  # fmt: skip


def _errors(values: Mapping[str, Any]) -> dict[str, float | None]:
    return {str(key): None if value is None else float(value) for key, value in dict(values).items()}


@torch.no_grad()
def keep_predictions(
    predictor: Predictor,
    name: str,
    row: Row,
    clips: ClipSet,
    windows: Windows,
    horizons: Horizons,
    *,
    command: bool = False,
) -> Predictions:
    """Return predictions of the worst three clips by GeoDeg at the furthest horizon, the middle one and the best.

    Of each clip the window is taken whose GeoDeg is nearest to that of the clip.

    Args:
        predictor: The model, or a baseline.
        name: Name of its row.
        row: Its figures on these windows.
        clips: Skeleton and rate.
        windows: Windows that it was measured on.
        horizons: Frames to measure at.
        command: Give it the path of the truth.
    """
    errors = clip_errors(row)
    order = by_error(errors, horizons)
    kept = []
    for place in chosen(order):
        clip = order[place]
        index = (windows.clip == clip).nonzero()[:, 0]
        by_window = torch.cat(
            [_window_errors(predictor, windows, part, horizons, command) for part in index.split(BATCH)]
        )
        near = int(
            (by_window - errors[clip]).abs().nan_to_num(torch.inf)[:, _furthest(errors[clip], horizons)].argmin()
        )
        window = index[near : near + 1]
        truth, predicted = _both(predictor, windows, window, command)
        joints = [_joints(state, windows.offsets[clip], clips) for state in (truth, predicted)]
        feet = torch.stack([truth.contacts, predicted.contacts]).float().numpy()
        begin = int(windows.starts[window] - windows.starts[index].min())
        kept.append(
            KeptClip(
                windows.keys[clip], place + 1, begin / clips.fps, by_key(errors[clip], horizons),
                by_key(by_window[near], horizons), joints[0], joints[1], feet if windows.contacts_known[clip] else None,
            )
        )  # fmt: skip
    return Predictions(
        tuple(kept), name, len(order), windows.past, clips.fps, tuple(clips.names), tuple(clips.parents)
    )  # fmt: skip


@torch.no_grad()
def keep_paths(model: Predictor, long_runs: LongRuns, clips: ClipSet) -> tuple[KeptPath, ...]:
    """Return the model's run along each drawn path, up to 10 seconds or the first time that was measured.

    Of each path the start is taken whose mean distance is nearest to that of all starts.
    """
    runs, figures = long_runs.runs[ALONG], long_runs.rows[ALONG][MODEL]
    assert runs.path is not None
    shown = middle({"seconds": list(runs.ends)})
    mean = figures[f"path_mean/{shown}"]
    places = []
    for name in dict.fromkeys(runs.names):
        starts = torch.tensor([place for place, other in enumerate(runs.names) if other == name])
        off = mean[starts].nan_to_num(torch.inf)
        places.append(int(starts[(off - off.mean()).abs().argmin()]))
    frames, index = int(runs.ends[shown][0]), runs.index[places]
    path = runs.path[places, :frames].double()
    known = runs.windows.known(index)
    made = predict_checked(model, known, frames, path)
    path_places = follow(known.then(replace(made, steps=path)).steps.double())[0].float().numpy()
    motion = known.then(made)
    kept = []
    for row, place in enumerate(places):
        state, clip = motion.map(lambda values, row=row: values[row]), int(runs.windows.clip[index[row]])
        kept.append(
            KeptPath(
                DRAWN[runs.names[place]].title, runs.windows.keys[clip], float(mean[place]),
                float(figures[f"path_end/{shown}"][place]), _joints(state, runs.windows.offsets[clip], clips),
                path_places[row], state.contacts.float().numpy(),
            )
        )  # fmt: skip
    return tuple(kept)


def _furthest(errors: Tensor, horizons: Horizons) -> int:
    """Return the index of the furthest horizon that a clip reaches."""
    reached = [place for place, value in enumerate(errors.isfinite().tolist()) if value]
    return max(reached, key=horizons.frames.__getitem__)


def _run(predictor: Predictor, windows: Windows, index: Tensor, command: bool) -> tuple[MotionState, MotionState]:
    truth = windows.following(index)
    known = windows.known(index)
    return truth, predict_checked(predictor, known, windows.future, truth.steps if command else None)


def _window_errors(predictor: Predictor, windows: Windows, index: Tensor, horizons: Horizons, command: bool) -> Tensor:
    """Return GeoDeg of windows, ``[N, H]``; NaN after the end of a clip."""
    truth, predicted = _run(predictor, windows, index, command)
    places = [frame - 1 for frame in horizons.frames]
    turned = geodesic_degrees(predicted.rotations[:, places, 1:], truth.rotations[:, places, 1:]).mean(-1)
    inside = windows.valid[index, None] >= torch.tensor(horizons.frames)
    return torch.where(inside, turned, torch.nan)


def _both(predictor: Predictor, windows: Windows, window: Tensor, command: bool) -> tuple[MotionState, MotionState]:
    """Return truth and prediction of one window, ``[T, ...]`` with the known frames, as far as the clip goes."""
    last = windows.past + int(windows.valid[window])
    known = windows.known(window)
    truth, predicted = (known.then(state).part(0, last) for state in _run(predictor, windows, window, command))
    return truth.map(lambda values: values[0]), predicted.map(lambda values: values[0])


def _joints(state: MotionState, offsets: Tensor, clips: ClipSet) -> Floats:
    joints: Floats = state_positions(state, offsets, clips.parents).float().numpy()
    return joints
