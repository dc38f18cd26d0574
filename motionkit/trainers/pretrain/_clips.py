"""The clips that a model of texts and motions is trained on, and those that it is measured on."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from motionkit.config import Chosen
from motionkit.datasets.base import Split, TextClip, TextMotionDataset
from motionkit.datasets.content import clip_fingerprint, clips_fingerprint, is_generated, leave_out_clips
from motionkit.errors import MotionkitError
from motionkit.runs import TrainedOn, fingerprint
from motionkit.trainers.base import dataset_inputs


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


def trained_on_clips(dataset: TextMotionDataset, clips: Sequence[TextClip]) -> TrainedOn:
    """Return what a model is trained on by clips; nothing of data that are made by code, whose splits share nothing."""
    return TrainedOn() if is_generated(dataset) else TrainedOn.of(map(clip_fingerprint, clips))


def held_out_clips(
    dataset: TextMotionDataset, label: str, trained: TrainedOn, *, least: int
) -> tuple[Sequence[TextClip], str]:
    """Return the validation clips that a model was not trained on.

    Args:
        dataset: Where from.
        label: The dataset's name for messages.
        trained: What the model is trained on, and was before.
        least: Fewest clips that are of any use.

    Returns:
        The clips, and what was left out, as a sentence; empty where nothing was. Where too few would be left, all
        clips, and a sentence that says so.

    Raises:
        MotionkitError: As `usable_clips`.
    """
    clips = usable_clips(dataset, "val", label, least=least)
    kept = leave_out_clips(trained, dataset, clips)
    if not kept.left_out:
        return clips, ""
    if len(kept.places) < least:
        return clips, (
            f"{kept.left_out} of the {kept.total} validation clips of {label} are trained on too, and are measured "
            "all the same: the figures of this run are not held out."
        )
    return [clips[place] for place in kept.places], kept.sentence("validation clips")


def clip_inputs(
    chosen: Chosen, dataset: TextMotionDataset, train: Sequence[TextClip], val: Sequence[TextClip]
) -> dict[str, str]:
    """Return the fingerprints of a dataset by setting: of both splits and of the statistics."""
    if is_generated(dataset):
        return {}
    statistics = fingerprint(dataset.normalizer.mean, dataset.normalizer.std)
    return dataset_inputs(chosen, dataset, clips_fingerprint(train), clips_fingerprint(val), statistics)
