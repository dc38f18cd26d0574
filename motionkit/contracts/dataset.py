"""What a dataset of motions with captions is, its name for people, and its clips for ``motionkit convert``."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, get_args

from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.motion import (
    HUMANML,
    Caption,
    Clip,
    DataRecord,
    JointMotion,
    Normalizer,
    Skeleton,
    features_to_joints,
    plain_id,
)
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
    tokens: tuple[tuple[str, ...], ...] = ()  # ``word/POS`` tokens of each caption, if they are stored
    source: str = ""  # id of the motion's file, if that is not the key
    start: int = 0  # first frame in that file


class Dataset(Protocol):
    """What all datasets have.

    Attributes:
        name: Registry name.
    """

    name: str

    @property
    def inputs(self) -> Mapping[str, str] | None:
        """Fingerprints of its files by the option that names them; empty if it is generated, None if not known."""
        return None


class TextMotionDataset(Dataset, Protocol):
    """Clips with captions, and prompts for RL.

    Only `clips`, `prompts`, `physics_reference` and the attributes without a value need be there.

    Attributes:
        skeleton: Body of the features.
        fps: Frames per second.
        normalizer: Mean and Std of the dataset (model side, not the evaluator's).
        max_length: Longest motion in frames.
        random_crop: Whether training may cut clips at random places; otherwise a cut starts at the first frame.
        root: Its folder; None for data without one.
        has_clips: False for prompts alone, see `PromptDataset`.

    Example:
        >>> from motionkit import load_dataset
        >>> dataset = load_dataset("starter")
        >>> prompt = dataset.prompts("val", k_segments=2)[0]
        >>> len(prompt.segments), prompt.length <= dataset.max_length
        (2, True)
    """

    skeleton: Skeleton
    fps: float
    normalizer: Normalizer
    max_length: int
    random_crop: bool
    root: Path | None = None
    has_clips: bool = True

    @abstractmethod
    def clips(self, split: Split) -> Sequence[TextClip]:
        """Return the split's clips, always in the same order."""
        ...

    @abstractmethod
    def prompts(self, split: Split, *, k_segments: int = 0, seed: int = 0) -> Sequence[Prompt]:
        """Return prompts with lengths.

        Args:
            split: Which captions to use.
            k_segments: Segments per prompt; 0 takes the dataset's default (1, or that of a composite file).
            seed: Chooses the captions to join if k_segments > 1.
        """
        ...

    @abstractmethod
    def physics_reference(self) -> tuple[float, float]:
        """Return the median foot skate (m/s) and median jerk (m/s^3) of the train split, cached with the data."""
        ...

    @property
    def source(self) -> TextMotionDataset | None:
        """The dataset of the single clips that composite data are made of; None if it is not known."""
        return None

    @property
    def source_name(self) -> str:
        """Name of the clips' dataset: its own, but for composite data."""
        return self.name

    @property
    def splits(self) -> tuple[Split, ...] | None:
        """Splits that composite data have; None for data of single clips."""
        return None

    @property
    def evaluator_normalizer(self) -> Normalizer | None:
        """Mean and Std of the evaluator, if they lie with the data."""
        return None

    def caption_tokens(self) -> Mapping[str, Sequence[str]]:
        """Return stored ``word/POS`` tokens by caption, such as ``("a/DET", "man/NOUN", "walk/VERB")``."""
        return {}

    def captions(self, split: Split) -> Sequence[str] | None:
        """Return a split's captions without reading its motions, one may be there several times; None if it cannot."""
        return None

    def split_ids(self, split: Split) -> Sequence[str]:
        """Return the ids of a split's motions, without reading a motion if that can be."""
        return [name for prompt in self.prompts(split, k_segments=1) for name in prompt.source_ids]

    def action(self, caption: str) -> str:
        """Return the name of the action that a caption describes; empty if it is not known, or actions have none."""
        return ""


class PromptDataset(TextMotionDataset):
    """Prompts without clips, for a policy that is trained with rewards alone.

    What needs reference motions is then not measured. A class that derives from it has `name`, `fps`, `max_length` and
    `listed`.

    Example:
        >>> class Two(PromptDataset):
        ...     name, fps, max_length = "two", 30.0, 300
        ...
        ...     def listed(self, split):
        ...         return [Prompt((text,), (90,), f"{split} {text}") for text in ("Someone walks.", "Someone waves.")]
        >>> [prompt.key for prompt in Two().prompts("val")]
        ['val Someone walks.', 'val Someone waves.']
    """

    skeleton: Skeleton = HUMANML  # of the clips, and there are none
    random_crop = False
    has_clips = False

    @abstractmethod
    def listed(self, split: Split) -> Sequence[Prompt]:
        """Return the prompts of a split, of one segment each; a text is in one split alone."""
        ...

    @property
    def normalizer(self) -> Normalizer:  # type: ignore[override]
        """Refuse: statistics are those of clips."""
        raise MotionkitError(
            f"{self.name} has prompts and no clips: there is nothing to compute statistics of, or to train on but "
            "rewards.",
            fix="choose a dataset with clips; prompts alone are for training a policy with rewards.",
        )

    def clips(self, split: Split) -> Sequence[TextClip]:
        """Return no clips."""
        return ()

    def prompts(self, split: Split, *, k_segments: int = 0, seed: int = 0) -> Sequence[Prompt]:
        """Return the prompts of a split; of one segment each, so that more are refused."""
        if k_segments > 1:
            raise MotionkitError(
                f"{self.name} has prompts of one action, not of {k_segments}.", fix="leave --k-segments out."
            )
        return self.listed(split)

    def physics_reference(self) -> tuple[float, float]:
        """Refuse: the reference is measured on clips."""
        raise MotionkitError(
            f"{self.name} has no clips, whose skate and jerk would be the reference of physics.",
            fix="give --reward.r-s (m/s) and --reward.r-j (m/s^3).",
        )


def record_of(dataset: TextMotionDataset) -> DataRecord:
    """Return the record of a dataset for the models that are trained on it; of a composite set that of its clips."""
    root = dataset.root or (dataset.source.root if dataset.source is not None else None)
    try:
        normalizer: Normalizer | None = dataset.normalizer
    except MotionkitError:  # composite prompts of the original code have no statistics
        normalizer = None
    return DataRecord.of(dataset.source_name, root, normalizer)


def is_generated(dataset: Dataset) -> bool:
    """Whether a dataset is generated: its ``inputs`` are known, and empty. Its splits share nothing by design."""
    return dataset.inputs is not None and not dataset.inputs


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
