"""Presents the clips of a text-motion dataset as sources for `motionkit convert`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

from motionkit.datasets.base import Split, TextClip, TextMotionDataset
from motionkit.motion import Caption, Clip, JointMotion, Skeleton, features_to_joints, plain_id


@dataclass(frozen=True)
class DatasetSource:
    """One clip of a dataset.

    Attributes:
        key: Clip id.
        origin: Dataset, split and id.
        clip: The clip itself.
        split: Its split.
        skeleton: Body of its features.
        fps: Their frames per second.
    """

    key: str
    origin: str
    clip: TextClip
    split: Split
    skeleton: Skeleton
    fps: float

    def fingerprint(self) -> str:
        """Return an empty fingerprint: a clip in memory has no state on disk."""
        return ""

    def load(self) -> Sequence[Clip]:
        """Return the clip; its features are passed on as they are."""
        features = self.clip.features
        joints = features_to_joints(features.double(), self.skeleton)
        motion = JointMotion(self.skeleton.joint_names, self.skeleton.parents, joints, self.fps)
        captions = tuple(map(Caption, self.clip.captions))
        return [Clip(motion, features, captions, split=self.split, notes={"format": "features"})]


def dataset_sources(dataset: TextMotionDataset) -> Sequence[DatasetSource]:
    """Return a source for every clip of the three splits; an id that two splits share gets the split before it."""
    clips: list[tuple[Split, TextClip]] = [(split, clip) for split in get_args(Split) for clip in dataset.clips(split)]
    plain = [plain_id(clip.key) for _, clip in clips]
    shared = len(set(plain)) < len(plain)
    return [
        DatasetSource(
            f"{split}_{key}" if shared else key,
            f"{dataset.name} {split} {clip.key}",
            clip,
            split,
            dataset.skeleton,
            dataset.fps,
        )
        for key, (split, clip) in zip(plain, clips, strict=True)
    ]
