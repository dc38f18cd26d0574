"""Whole clips out of features and back, many at once."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from motionkit.motion._skeleton import Skeleton
from motionkit.motion.features._extract import joints_to_features
from motionkit.motion.features._recover import with_frame_after


def clip_joints(features: Sequence[Tensor], skeleton: Skeleton) -> list[Tensor]:
    """Return all T + 1 frames of joints ``[T + 1, J, 3]`` of clips ``[T, D]``; see `with_frame_after`."""
    found: list[Tensor] = [torch.empty(0)] * len(features)
    by_length: dict[int, list[int]] = {}
    for place, rows in enumerate(features):
        by_length.setdefault(len(rows), []).append(place)
    for places in by_length.values():
        joints = with_frame_after(torch.stack([features[place] for place in places]), skeleton)
        for place, own in zip(places, joints, strict=True):
            found[place] = own
    return found


def clip_features(joints: Sequence[Tensor], skeleton: Skeleton) -> list[Tensor]:
    """Return features ``[F - 1, D]`` of joints ``[F, J, 3]`` as they lie: frame 0 faces +Z, the floor is y = 0.

    Joints that `clip_joints` made give the clips back, and the joints that a change made give the changed clips.
    """
    if not joints:
        return []
    lengths = torch.tensor([len(own) for own in joints])
    rows = joints_to_features(
        pad_sequence(list(joints), batch_first=True), skeleton, lengths, target=False, align=False
    )
    return [own[: length - 1] for own, length in zip(rows, lengths.tolist(), strict=True)]
