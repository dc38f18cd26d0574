"""A clip continued by a predictor, as motions that files can hold."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from motionkit.datasets.motions._clips import ClipSet, StateClip
from motionkit.errors import MotionkitError
from motionkit.evaluation.mpl._data import require_fit
from motionkit.motion import Motion
from motionkit.motion.prediction._motion import motion_of
from motionkit.motion.prediction._path import path_errors
from motionkit.motion.prediction._state import MotionState
from motionkit.policies.base import Predictor


class PathError(NamedTuple):
    """How far a root was from the timed points of a path.

    Attributes:
        mean: Metres, mean over the predicted frames that the path has.
        end: Metres at the last of them.
        heading: Degrees between the headings, mean over them.
        seconds: How long that is.
        speed: m/s of the root, the mean over them.
        wanted_speed: m/s of the path, likewise.
    """

    mean: float
    end: float
    heading: float
    seconds: float
    speed: float
    wanted_speed: float


class Continued(NamedTuple):
    """A start pose and what follows.

    Attributes:
        predicted: Known frames and the prediction after them.
        truth: The clip itself over the same time; None where it ends before.
        known: Seconds of known frames.
        path: How well the path was followed; None without one.
    """

    predicted: Motion
    truth: Motion | None
    known: float
    path: PathError | None = None


def continue_clip(
    predictor: Predictor,
    clips: ClipSet,
    clip: StateClip,
    *,
    start: int,
    known: int,
    frames: int,
    path: Tensor | None = None,
    own_path: bool = False,
) -> Continued:
    """Predict what follows a part of a clip.

    Args:
        predictor: The model.
        clips: The clip's set: skeleton and rate.
        clip: Where it starts.
        start: First frame that is known.
        known: Known frames, at least the predictor's `past`.
        frames: Frames to predict.
        path: ``[F, 3]`` steps that the root is asked to follow; after its end it goes on as its last step.
        own_path: Ask for the clip's own path.

    Raises:
        MotionkitError: The predictor does not fit the clips, or the clip ends before the start pose does.

    Returns:
        The motions; with a path, that of the prediction has it as the track ``path``, which the player draws.
    """
    require_fit(predictor, clips, known, flag="--start")
    if start < 0 or start + known > clip.state.frames:
        least = predictor.past
        if clip.state.frames < least:
            fix = f"a clip of at least {least} frames: --clip, or another --start."
        else:
            fix = " or ".join([*(["an earlier --at"] if start else []), f"--warmup {least}, which it reads at least."])
        raise MotionkitError(
            f"{clip.key} has {clip.state.frames} frame{'s' * (clip.state.frames != 1)}; {known} known ones from frame "
            f"{start} on end after that.",
            fix=fix,
        )
    before = clip.state.part(start, start + known)
    rest = clip.state.part(start + known, start + known + frames)
    if own_path:
        if not rest.frames:
            raise MotionkitError(
                f"{clip.key} ends with the start pose: there is no path of its own.", fix="an earlier --at."
            )
        path = rest.steps
    asked = 0 if path is None else min(len(path), frames)
    if path is not None:
        path = path[:frames]
        path = path if len(path) == frames else _longer(path, frames)
    told = None if path is None else path[None]
    found = predictor.predict(before.map(lambda values: values[None]), frames, command=told)
    after = found.map(lambda values: values[0].double())
    truth = _motion(before.then(rest), clips, clip) if rest.frames == frames else None
    made, error = _motion(before.then(after), clips, clip), None
    if path is not None:
        distance, heading = (values[:asked] for values in path_errors(after.steps, path.double()))
        speeds = [float(steps[:asked, :2].norm(dim=-1).mean()) * clips.fps for steps in (after.steps, path)]
        error = PathError(
            float(distance.mean()), float(distance[-1]), float(heading.mean()), asked / clips.fps, *speeds
        )
        wanted = _motion(before.then(replace(after, steps=path.double())), clips, clip).translations[:, 0]
        made = replace(made, tracks={**made.tracks, "path": wanted[:, ::2]})
    return Continued(made, truth, known / clips.fps, error)


def _motion(state: MotionState, clips: ClipSet, clip: StateClip) -> Motion:
    return motion_of(state, names=clips.names, parents=clips.parents, offsets=clip.offsets, fps=clips.fps)


def _longer(path: Tensor, frames: int) -> Tensor:
    return torch.cat([path, path[-1:].expand(frames - len(path), -1)])
