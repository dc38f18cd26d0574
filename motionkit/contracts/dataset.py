"""What a dataset of motions with captions is, its name for people, and its clips for ``motionkit convert``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, get_args, runtime_checkable

from torch import Tensor

from motionkit.motion import Caption, Clip, JointMotion, Normalizer, Skeleton, features_to_joints, plain_id
from motionkit.motion.corpus.ids import Split as Split
from motionkit.text import Prompt


def called(name: str, options: object) -> str:
    """Return what people are told of a dataset: its folder and the layout that it is read by.

    A layout alone would be taken for the data that it was made for: `humanml` for HumanML3D.

    Args:
        name: The plugin that reads it.
        options: Its options, a record or a mapping; ``root``, else ``path``, is its folder or file.

    Example:
        >>> called("humanml", {"root": "/data/mocap"}), called("starter", {})
        ('mocap (layout humanml)', 'starter')
    """
    known = options if isinstance(options, Mapping) else vars(options)
    places = known.get("root") or known.get("path")
    first = places[0] if isinstance(places, (list, tuple)) else places
    if not first:
        return name
    place = Path(str(first))
    return f"{place.resolve().name if place.name in ('', '..') else place.name} (layout {name})"


@dataclass(frozen=True)
class TextClip:
    """One training item."""

    key: str  # clip id, unique in its split
    features: Tensor  # [T, D] float32, not normalised
    captions: tuple[str, ...]  # at least one text


class TextMotionDataset(Protocol):
    """Clips with captions, and prompts for RL.

    Attributes:
        name: Registry name.
        skeleton: Body of the features.
        fps: Frames per second.
        normalizer: Mean and Std of the dataset (model side, not the evaluator's).
        max_length: Longest motion in frames.
        random_crop: Whether training may cut clips at random places; otherwise a cut starts at the first frame.

    Example:
        >>> from motionkit import load_dataset
        >>> dataset = load_dataset("starter")
        >>> prompt = dataset.prompts("val", k_segments=2)[0]
        >>> len(prompt.segments), prompt.length <= dataset.max_length
        (2, True)
    """

    name: str
    skeleton: Skeleton
    fps: float
    normalizer: Normalizer
    max_length: int
    random_crop: bool

    def clips(self, split: Split) -> Sequence[TextClip]:
        """Return the split's clips, always in the same order."""
        ...

    def prompts(self, split: Split, *, k_segments: int = 0, seed: int = 0) -> Sequence[Prompt]:
        """Return prompts with lengths.

        Args:
            split: Which captions to use.
            k_segments: Segments per prompt; 0 takes the dataset's default (1, or that of a composite file).
            seed: Chooses the captions to join if k_segments > 1.
        """
        ...

    def physics_reference(self) -> tuple[float, float]:
        """Return the median foot skate (m/s) and median jerk (m/s^3) of the train split, cached with the data."""
        ...


@runtime_checkable
class HasCaptionTokens(Protocol):
    """A dataset that stores ``word/POS`` tokens with its captions, as HumanML3D does."""

    def caption_tokens(self) -> Mapping[str, Sequence[str]]:
        """Return the tokens by caption, such as ``("a/DET", "man/NOUN", "walk/VERB")``."""
        ...


def is_generated(dataset: object) -> bool:
    """Whether a dataset is generated: it has ``inputs``, and they are empty. Its splits share nothing by design."""
    inputs = getattr(dataset, "inputs", None)
    return isinstance(inputs, Mapping) and not inputs


@dataclass(frozen=True)
class DatasetSource:
    """One clip of a dataset."""

    key: str  # clip id
    origin: str  # dataset, split and id
    clip: TextClip
    split: Split
    skeleton: Skeleton  # body of its features
    fps: float

    def fingerprint(self) -> str:
        """Return an empty fingerprint: a clip in memory has no state on disk."""
        return ""

    def load(self) -> Sequence[Clip]:
        """Return the clip with unchanged features."""
        features = self.clip.features
        joints = features_to_joints(features.double(), self.skeleton)
        motion = JointMotion(self.skeleton.joint_names, self.skeleton.parents, joints, self.fps)
        captions = tuple(map(Caption, self.clip.captions))
        return [Clip(motion, features, captions, split=self.split, notes={"format": "features"})]


def dataset_sources(dataset: TextMotionDataset) -> Sequence[DatasetSource]:
    """Return a source for every clip; if two splits share an id, all ids get the split as prefix."""
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
