"""`motionkit predict`: a clip continued by a predictor, as motions that files can hold."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.motion import Motion
from motionkit.rigs import find_feet
from motionkit_predictor.data.clips import ClipSet, StateClip
from motionkit_predictor.evaluation.data import require_fit
from motionkit_predictor.policy import Predictor
from motionkit_predictor.states import MotionState, extended, motion_of, path_errors

_STANDING = 0.05
"""Metres above its lowest place up to which a foot stands."""

_SLIDES, _SLIDES_AT_LEAST = 0.5, 0.2
"""A body glides where its standing foot slides at more than this share of the root's speed plus so many m/s."""


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


class Glide(NamedTuple):
    """How often and how much the feet of a motion glide."""

    seconds: int  # in which the standing foot slides at more than half the root's speed and 0.2 m/s
    of: int  # seconds with a standing foot
    slide: float  # m/s of the standing foot, mean over those that glide; 0 without any
    speed: float  # m/s of the root, likewise


def glides(motion: Motion, start: int) -> Glide | None:
    """Measure how a motion glides from a frame on; None if its feet are not found, or no second has a standing foot.

    The standing foot is the lower toe where it is at most 5 cm above where it is lowest: in flight none stands. Of
    captured walks 6 % of the seconds count as gliding, of gliding bodies nearly all.
    """
    feet = find_feet(motion.names, motion.parents)
    joints = motion.positions()[max(0, start - 1) :]
    if feet is None or len(joints) < 2:
        return None
    toes = joints[:, [feet[0][-1], feet[1][-1]]]
    speeds = motion.fps * toes[..., ::2].diff(dim=0).norm(dim=-1)  # [T, 2]
    heights = (toes[1:, :, 1] + toes[:-1, :, 1]) / 2
    lower = heights.argmin(-1, keepdim=True)
    slide, height = speeds.gather(-1, lower)[:, 0], heights.gather(-1, lower)[:, 0]
    stands = height < height.quantile(0.05) + _STANDING
    root = motion.fps * joints[:, 0, ::2].diff(dim=0).norm(dim=-1)
    found = []
    span = min(len(slide), round(motion.fps))
    for first in range(0, len(slide) - span + 1, span):
        rows = torch.arange(first, first + span)[stands[first : first + span]]
        if 6 * len(rows) >= span:
            found.append((float(slide[rows].mean()), float(root[rows].mean())))
    if not found:
        return None
    gliding = [pair for pair in found if pair[0] > _SLIDES * pair[1] + _SLIDES_AT_LEAST]
    means = [sum(values) / len(gliding) for values in zip(*gliding, strict=True)] if gliding else [0.0, 0.0]
    return Glide(len(gliding), len(found), *means)


def _motion(state: MotionState, clips: ClipSet, clip: StateClip) -> Motion:
    return motion_of(state, names=clips.names, parents=clips.parents, offsets=clip.offsets, fps=clips.fps)
