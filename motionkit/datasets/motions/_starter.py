"""Clips of the starter with their rotations, for the motion predictor."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import torch

from motionkit.datasets.base import Split
from motionkit.datasets.motions._clips import ClipSet, clip_set
from motionkit.datasets.starter._plan import plan
from motionkit.motion import HUMANML, Caption, Clip, Motion
from motionkit.starter import CATALOGUE, OFFSETS, PARENTS, Order, StarterClip, perform

_ROUNDS: Mapping[Split, int] = {"train": 2, "val": 1, "test": 1}
"""Clips of each class of movements."""

_LENGTHS = 40, 120
"""Frames at 20 frames per second, as in the starter dataset."""


def starter_clip_set(fps: float, splits: Sequence[Split] = ("train", "val", "test")) -> ClipSet:
    """Perform clips of every class of movements, at any rate: 2 to train on, 1 to validate, 1 to test.

    They last 2 to 6 seconds. Unlike the features of the starter dataset they keep the rotations that made them, the
    steps of the root and the contacts of the feet.
    """
    return clip_set("starter", _clips(fps, splits), fps)


def _clips(fps: float, splits: Sequence[Split]) -> Iterator[tuple[str, Clip]]:
    for split in splits:
        planned = plan(split, _ROUNDS[split] * len(CATALOGUE), seed=0, lengths=_LENGTHS, unseen=0.0)
        orders = [Order(one.order.name, round(one.order.frames * fps / 20), one.order.seed) for one in planned]
        for one, made in zip(planned, perform(orders, fps=fps), strict=True):
            yield one.key, Clip(_motion(made), captions=(Caption(one.order.name),), split=split)


def _motion(made: StarterClip) -> Motion:
    offsets = torch.from_numpy(OFFSETS.copy())
    translations = offsets.repeat(len(made.root), 1, 1)
    translations[:, 0] = torch.from_numpy(made.root)
    # Ankle and ball of the left foot, then of the right one; a foot stands on either.
    contacts = torch.from_numpy(made.contacts).unflatten(-1, (2, 2)).any(dim=-1).double()
    rotations = torch.from_numpy(made.rotations)
    return Motion(HUMANML.joint_names, PARENTS, offsets, rotations, translations, made.fps, {"contacts": contacts})
