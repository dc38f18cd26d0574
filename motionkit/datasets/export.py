"""The clips of any text-motion dataset, as sources of a conversion."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

from motionkit.datasets.base import Split, TextClip, TextMotionDataset
from motionkit.errors import MotionkitError
from motionkit.motion import HUMANML, LoadedClip, features_to_joints


@dataclass(frozen=True)
class DatasetSource:
    """One clip of a dataset.

    Attributes:
        key: Clip id.
        origin: Dataset, split and id.
        clip: The clip itself.
        split: Its split.
    """

    key: str
    origin: str
    clip: TextClip
    split: Split

    def load(self) -> LoadedClip:
        """Return the clip; its features are passed on as they are."""
        features = self.clip.features
        return LoadedClip(features_to_joints(features, HUMANML), features, self.clip.captions, split=self.split)


def dataset_sources(dataset: TextMotionDataset) -> Sequence[DatasetSource]:
    """Return a source for every clip of the three splits; an id that two splits share gets the split before it.

    Raises:
        MotionkitError: The dataset's body is not the 22-joint one.
    """
    if dataset.skeleton is not HUMANML:
        raise MotionkitError(f"{dataset.name} has the {dataset.skeleton.name} body; only humanml can be written.")
    clips: list[tuple[Split, TextClip]] = [(split, clip) for split in get_args(Split) for clip in dataset.clips(split)]
    plain = [_plain(clip.key) for _, clip in clips]
    shared = len(set(plain)) < len(plain)
    return [
        DatasetSource(f"{split}_{key}" if shared else key, f"{dataset.name} {split} {clip.key}", clip, split)
        for key, (split, clip) in zip(plain, clips, strict=True)
    ]


def _plain(key: str) -> str:
    """Return a key fit for a file name."""
    return "".join(letter if letter.isalnum() or letter in "-._" else "_" for letter in key)
