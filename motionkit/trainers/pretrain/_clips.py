"""Whether a dataset's clips can be trained on."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from motionkit.datasets.base import Split, TextClip, TextMotionDataset
from motionkit.errors import MotionkitError


def usable_clips(dataset: TextMotionDataset, split: Split, label: str, *, least: int) -> Sequence[TextClip]:
    """Return the clips of a split.

    Args:
        dataset: Where from.
        split: Which.
        label: The dataset's name for messages.
        least: Fewest clips that are of any use.

    Raises:
        MotionkitError: There are fewer, or one has no frame, no caption, or a value that is not finite.
    """
    clips = dataset.clips(split)
    if len(clips) < least:
        raise MotionkitError(
            f"dataset {label!r} has {len(clips)} clip(s) in its {split} split, at least {least} are needed.",
            fix="check --dataset.root and the split's list of ids.",
        )
    for clip in clips:
        if not bool(torch.isfinite(clip.features).all()):
            raise MotionkitError(f"clip {clip.key!r} holds values that are not finite.", fix="remove or repair it.")
        if not len(clip.features):
            raise MotionkitError(f"clip {clip.key!r} has no frames.", fix="remove it.")
        if not clip.captions:
            raise MotionkitError(f"clip {clip.key!r} has no caption.", fix="add one, or remove the clip.")
    return clips
