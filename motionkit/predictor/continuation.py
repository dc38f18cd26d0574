"""`motionkit predict`: a clip continued by a predictor, as motions that files can hold."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from torch import Tensor

from motionkit.contracts.policy import Predictor
from motionkit.errors import MotionkitError
from motionkit.motion import Motion
from motionkit.motion.prediction import MotionState, extended, motion_of, path_errors
from motionkit.predictor.clips import ClipSet, StateClip
from motionkit.predictor.evaluation.data import require_fit


class PathError(NamedTuple):
    """How far a root was from the timed points of a path."""

    mean: float  # metres, mean over the predicted frames that the path has
    end: float  # metres at the last of them
    heading: float  # degrees between the headings, mean over them
    seconds: float  # how long that is
    speed: float  # m/s of the root, the mean over them
    wanted_speed: float  # m/s of the path, likewise


class Continued(NamedTuple):
    """Known frames and their prediction."""

    predicted: Motion  # known frames and the prediction after them
    truth: Motion | None  # the clip itself over the same time; None if it ends before
    known: float  # seconds of known frames
    path: PathError | None = None  # how well the path was followed; None without one


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
    """Predict what follows a part of a clip; a path is in the prediction's track ``path``, which the player draws.

    Args:
        predictor: A model.
        clips: The clip's set: skeleton and rate.
        clip: The clip that goes on.
        start: First frame that is known.
        known: Known frames, at least the predictor's `past`.
        frames: Frames to predict.
        path: ``[F, 3]`` steps that the root is asked to follow; after its end it goes on as its last step.
        own_path: Ask for the clip's own path.
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
    covered = 0 if path is None else min(len(path), frames)
    if path is not None:
        path = extended(path[None], frames)[0, :frames]
    batch_path = None if path is None else path[None]
    predicted = predictor.predict(before.map(lambda values: values[None]), frames, command=batch_path)
    after = predicted.map(lambda values: values[0].double())
    truth = _motion(before.then(rest), clips, clip) if rest.frames == frames else None
    made, error = _motion(before.then(after), clips, clip), None
    if path is not None:
        distance, heading = (values[:covered] for values in path_errors(after.steps, path.double()))
        speeds = [float(steps[:covered, :2].norm(dim=-1).mean()) * clips.fps for steps in (after.steps, path)]
        error = PathError(
            float(distance.mean()), float(distance[-1]), float(heading.mean()), covered / clips.fps, *speeds
        )
        path_places = _motion(before.then(replace(after, steps=path.double())), clips, clip).translations[:, 0]
        made = replace(made, tracks={**made.tracks, "path": path_places[:, ::2]})
    return Continued(made, truth, known / clips.fps, error)


def _motion(state: MotionState, clips: ClipSet, clip: StateClip) -> Motion:
    return motion_of(state, names=clips.names, parents=clips.parents, offsets=clip.offsets, fps=clips.fps)
