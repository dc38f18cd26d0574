"""The single clips that composite samples are joined from."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import get_args

from motionkit.datasets.base import Split, TextClip, TextMotionDataset
from motionkit.datasets.overlap import shared_motions
from motionkit.errors import MotionkitError
from motionkit.motion import original


@dataclass(frozen=True)
class Source:
    """One clip that may become a segment.

    Attributes:
        clip: Its features and captions.
        file: Id of the motion it comes from; several timed captions may share one.
        start: Its first frame in that motion.
        group: Clips of one group are never in one sample: a motion, its parts, and its mirror image.
    """

    clip: TextClip
    file: str
    start: int
    group: str

    @property
    def frames(self) -> int:
        """Length of the clip."""
        return len(self.clip.features)


def read_sources(dataset: TextMotionDataset, split: Split) -> list[Source]:
    """Return the clips of one split that have a caption.

    Raises:
        MotionkitError: No clip has a caption.
    """
    clips = [clip for clip in dataset.clips(split) if any(text.strip() for text in clip.captions)]
    if not clips:
        raise MotionkitError(f"the {split} split of {dataset.name} has no clip with a caption.")
    files = {_file(clip) for clip in clips}
    return [Source(clip, _file(clip), getattr(clip, "start", 0), original(_file(clip), files)) for clip in clips]


def shared_groups(dataset: TextMotionDataset, split: Split, sources: Sequence[Source]) -> dict[Split, list[str]]:
    """Return, for each other split, the groups of `sources` that are in it too.

    Such clips would be used for training and for measuring. A split that the dataset lacks shares none.
    """
    found: dict[Split, list[str]] = {}
    own = {source.group for source in sources}
    for other in get_args(Split):
        if other == split:
            continue
        try:
            ids = set(_ids(dataset, other))
        except MotionkitError:
            continue
        if both := shared_motions(own, ids):
            found[other] = both
    return found


def fingerprint(dataset: TextMotionDataset, split: Split, sources: Sequence[Source], used: Iterable[Source]) -> str:
    """Return a hash of the split's clip ids, lengths and captions, and of the motions that were used."""
    digest = hashlib.sha256(f"{dataset.name} {split} {dataset.skeleton.name} {dataset.fps}\n".encode())
    for source in sources:
        digest.update(f"{source.clip.key} {source.frames} {source.clip.captions}\n".encode())
    taken = {id(source) for source in used}
    for source in sources:
        if id(source) in taken:
            digest.update(source.clip.features.contiguous().numpy().tobytes())
    return digest.hexdigest()[:32]


def _ids(dataset: TextMotionDataset, split: Split) -> Iterable[str]:
    """Return the motion ids of a split, without reading motions where the dataset can list ids."""
    if (listed := getattr(dataset, "split_ids", None)) is not None:
        ids: Iterable[str] = listed(split)
        return ids
    return [name for prompt in dataset.prompts(split, k_segments=1) for name in prompt.source_ids]


def _file(clip: TextClip) -> str:
    return getattr(clip, "source", "") or clip.key
