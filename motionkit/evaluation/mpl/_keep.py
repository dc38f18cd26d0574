"""Choosing clips to look at, and predicting them once more."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from motionkit.datasets.motions._clips import ClipSet
from motionkit.datasets.motions._windows import Windows
from motionkit.evaluation.mpl._by_clip import by_error, by_key, chosen, clip_errors
from motionkit.evaluation.mpl._horizons import Horizons
from motionkit.evaluation.mpl._kept import Floats, KeptClip, KeptPath, Predictions
from motionkit.evaluation.mpl._measure import BATCH, Row, predict_checked
from motionkit.evaluation.mpl.long._measure import ALONG, MODEL, LongRuns
from motionkit.evaluation.mpl.long._paths import DRAWN
from motionkit.evaluation.mpl.long._result import middle
from motionkit.metrics import geodesic_degrees
from motionkit.motion.prediction._state import MotionState, follow, state_positions
from motionkit.policies.base import Predictor


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
        predictor: What predicts.
        name: What its row is called.
        row: What was found of it.
        clips: Skeleton and rate.
        windows: Where it was measured.
        horizons: How far ahead.
        command: Give it the path of the truth.
    """
    errors = clip_errors(row)
    order = by_error(errors, horizons)
    found = []
    for place in chosen(order):
        clip = order[place]
        index = (windows.clip == clip).nonzero()[:, 0]
        own = torch.cat([_window_errors(predictor, windows, part, horizons, command) for part in index.split(BATCH)])
        near = int((own - errors[clip]).abs().nan_to_num(torch.inf)[:, _furthest(errors[clip], horizons)].argmin())
        window = index[near : near + 1]
        truth, predicted = _both(predictor, windows, window, command)
        joints = [_joints(state, windows.offsets[clip], clips) for state in (truth, predicted)]
        feet = torch.stack([truth.contacts, predicted.contacts]).float().numpy()
        begin = int(windows.starts[window] - windows.starts[index].min())
        found.append(
            KeptClip(
                windows.keys[clip], place + 1, begin / clips.fps, by_key(errors[clip], horizons),
                by_key(own[near], horizons), joints[0], joints[1], feet if windows.contacts_known[clip] else None,
            )
        )  # fmt: skip
    return Predictions(
        tuple(found), name, len(order), windows.past, clips.fps, tuple(clips.names), tuple(clips.parents)
    )  # fmt: skip


@torch.no_grad()
def keep_paths(model: Predictor, found: LongRuns, clips: ClipSet) -> tuple[KeptPath, ...]:
    """Return the model's run along each drawn path, up to 10 seconds or the first time that was measured.

    Of each path the start is taken whose mean distance is nearest to that of all starts.

    Args:
        model: What predicts.
        found: The long runs of it.
        clips: Skeleton and rate.
    """
    runs, figures = found.runs[ALONG], found.rows[ALONG][MODEL]
    assert runs.path is not None
    shown = middle({"seconds": list(runs.ends)})
    mean = figures[f"path_mean/{shown}"]
    places = []
    for name in dict.fromkeys(runs.names):
        own = torch.tensor([place for place, other in enumerate(runs.names) if other == name])
        off = mean[own].nan_to_num(torch.inf)
        places.append(int(own[(off - off.mean()).abs().argmin()]))
    frames, index = int(runs.ends[shown][0]), runs.index[places]
    path = runs.path[places, :frames].double()
    known = runs.windows.known(index)
    made = predict_checked(model, known, frames, path)
    wanted = follow(known.then(replace(made, steps=path)).steps.double())[0].float().numpy()
    whole = known.then(made)
    kept = []
    for row, place in enumerate(places):
        state, clip = whole.map(lambda values, row=row: values[row]), int(runs.windows.clip[index[row]])
        kept.append(
            KeptPath(
                DRAWN[runs.names[place]].title, runs.windows.keys[clip], float(mean[place]),
                float(figures[f"path_end/{shown}"][place]), _joints(state, runs.windows.offsets[clip], clips),
                wanted[row], state.contacts.float().numpy(),
            )
        )  # fmt: skip
    return tuple(kept)


def _furthest(errors: Tensor, horizons: Horizons) -> int:
    """Return the place of the furthest horizon that a clip reaches."""
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
    truth, predicted = (known.then(one).part(0, last) for one in _run(predictor, windows, window, command))
    return truth.map(lambda values: values[0]), predicted.map(lambda values: values[0])


def _joints(state: MotionState, offsets: Tensor, clips: ClipSet) -> Floats:
    joints: Floats = state_positions(state, offsets, clips.parents).float().numpy()
    return joints
