"""A dataset from a list of motions with captions, for work in Python."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any
from weakref import finalize

from torch import Tensor

from motionkit.clips.convert import convert
from motionkit.clips.convert.feature_target import FeatureTarget
from motionkit.clips.motion_clip import LoadedClip
from motionkit.config import choose_one
from motionkit.contracts.dataset import TextMotionDataset
from motionkit.errors import MotionkitError
from motionkit.motion import HUMANML, Caption, Clip, JointMotion, Motion
from motionkit.page.wording import count

Item = tuple[Clip | Motion | JointMotion | Tensor, str | Sequence[str]]
"""A motion and its caption, or captions. A tensor is ``[T, 22, 3]``: metres, Y up, 20 fps."""


def open_list(items: Sequence[Item], **options: Any) -> TextMotionDataset:
    """Return a dataset of motions with captions, as `motionkit convert` makes it from files.

    Motions of any skeleton and rate become features of the 22-joint body at 20 fps. Clips keep their ``split``; those
    without one are distributed, most to train. The data are written to a temporary folder, which is removed together
    with the dataset.

    Args:
        items: Pairs of a motion and its caption, or captions.
        **options: Options of the dataset `humanml`.

    Example:
        >>> import torch
        >>> from motionkit.starter import generate
        >>> clips = [(torch.from_numpy(generate("walk", frames=60, seed=seed).joints), "a person walks")
        ...     for seed in range(4)]
        >>> open_list(clips).prompts("train")[0].segments
        ('a person walks',)
    """
    sources = [LoadedClip(f"{number:05d}", _clip(item, number)) for number, item in enumerate(items)]
    if not sources:
        raise MotionkitError("the list holds no motion.", fix="give [(motion, 'a person walks'), ...].")
    folder = Path(mkdtemp(prefix="motionkit-list-"))
    try:
        report = convert(sources, folder / "data", FeatureTarget())
        if report.failed:
            name, reason = next(iter(report.failed.items()))
            raise MotionkitError(
                f"{count(len(report.failed), 'motion')} of the list cannot be used; the first is item {int(name)}.",
                why=reason,
                fix="leave it out of the list.",
            )
        settings = {"root": folder / "data", **options}
        dataset: TextMotionDataset = choose_one("datasets", "humanml", settings, typed=True).build()
    except BaseException:
        rmtree(folder, ignore_errors=True)
        raise
    finalize(dataset, rmtree, folder, ignore_errors=True)
    return dataset


def _clip(item: object, number: int) -> Clip:
    fix = "give pairs of a motion and its captions: [(motion, 'a person walks'), ...]."
    if not (isinstance(item, (tuple, list)) and len(item) == 2):
        raise MotionkitError(f"item {number} of the list is not a pair of a motion and its captions.", fix=fix)
    motion, given = item
    captions = [given] if isinstance(given, str) else list(given) if isinstance(given, (tuple, list)) else []
    if not captions or not all(isinstance(text, str) and text.strip() for text in captions):
        raise MotionkitError(f"the captions of item {number} are {given!r:.80}.", why="they are texts.", fix=fix)
    if isinstance(motion, Tensor):
        if motion.ndim != 3 or tuple(motion.shape[1:]) != (HUMANML.joints, 3) or not motion.is_floating_point():
            shape = list(motion.shape)
            raise MotionkitError(f"item {number} is a tensor {shape}.", why="a motion is [frames, 22, 3].", fix=fix)
        motion = JointMotion(HUMANML.joint_names, HUMANML.parents, motion.detach().cpu().double(), HUMANML.fps)
    if isinstance(motion, (Motion, JointMotion)):
        motion = Clip(motion)
    if not isinstance(motion, Clip):
        raise MotionkitError(f"item {number} begins with a {type(motion).__name__}, not with a motion.", fix=fix)
    return replace(motion, captions=tuple(Caption(text) for text in captions), timed=())
