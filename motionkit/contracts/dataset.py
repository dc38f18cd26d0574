"""The protocols of datasets, and what other rooms ask of any dataset.

There are two kinds: motions with captions (`TextMotionDataset`) and images with regions (`RegionDataset`). Protocols
such as `HasCaptionTokens` are what some of them can do besides. Fingerprints of their content are compared on resume,
and tell which clips, prompts or pictures a model was trained on, so that evaluations leave these out. `dataset_sources`
gives the clips of a dataset to ``motionkit convert``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, get_args, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from motionkit.motion import Caption, Clip, JointMotion, Normalizer, Skeleton, features_to_joints, plain_id
from motionkit.motion.corpus.ids import Split as Split
from motionkit.runs import Kept, TrainedOn, fingerprint
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


@dataclass(frozen=True)
class Regions:
    """N images, a region of each, and its caption."""

    images: Sequence[NDArray[np.uint8]]  # N arrays [H, W, 3] uint8 RGB; sizes may differ
    # N arrays [h, w] bool, True inside the region; h and w may be smaller than H and W.
    masks: Sequence[NDArray[np.bool_]]
    captions: tuple[str, ...]  # caption of each region
    # N arrays [K, h, w] bool, masks of the other objects of each image, K may differ; empty if the data have none.
    others: Sequence[NDArray[np.bool_]] = ()

    def __len__(self) -> int:
        return len(self.captions)


class RegionDataset(Protocol):
    """Images with regions and captions; ``Component(gives="regions")``.

    Attributes:
        name: Registry name.
    """

    name: str

    def count(self, split: Split) -> int:
        """Return the number of regions of a split."""
        ...

    def regions(self, split: Split, index: NDArray[np.int64]) -> Regions:
        """Return regions.

        Args:
            split: Which split.
            index: ``[N]`` numbers below `count`, in any order.
        """
        ...


@runtime_checkable
class NamesAbsent(Protocol):
    """A dataset of regions that can name objects which an image does not show."""

    def absent(self, split: Split, index: NDArray[np.int64]) -> Sequence[str]:
        """Return for each region a caption of an object that its image does not show."""
        ...


@dataclass(frozen=True)
class Thing:
    """An object of an image."""

    attributes: Mapping[str, str]  # value by attribute, such as ``{"shape": "circle", "colour": "red"}``
    middle: tuple[float, float]  # its centre ``(x, y)`` as fractions of the image's width and height; y points down


@dataclass(frozen=True)
class Scene:
    """The objects of an image."""

    things: tuple[Thing, ...]
    meant: int = 0  # index of the object that the region shows


@dataclass(frozen=True)
class Claim:
    """The literal content of a caption about an object; it may contradict itself."""

    said: tuple[tuple[str, str], ...] = ()  # pairs of an attribute and its value
    # Pairs of a relation, such as ``left of``, and the claim about the other object.
    relations: tuple[tuple[str, Claim], ...] = ()
    unread: tuple[str, ...] = ()  # words that the data do not know


@runtime_checkable
class KnowsScenes(Protocol):
    """A dataset of regions that knows the scenes of its images and parses captions; see `Truth`.

    Attributes:
        attributes: Names of the attributes that every `Thing` has. The first one is the noun, which a caption cannot
            leave out.
    """

    attributes: Sequence[str]

    def scenes(self, split: Split, index: NDArray[np.int64]) -> Sequence[Scene]:
        """Return the scenes of the images of regions."""
        ...

    def read(self, caption: str) -> Claim:
        """Parse a caption; any text can be parsed."""
        ...

    def related(self, relation: str, one: Thing, other: Thing) -> bool:
        """Return whether a relation holds between ``one`` and ``other``."""
        ...


@runtime_checkable
class HasCaptionedPart(Protocol):
    """A dataset of regions of which only some captions may be learned from."""

    def captioned(self, split: Split) -> NDArray[np.int64] | None:
        """Return the numbers of the regions of a split whose captions may be read; None if all may."""
        ...


def captioned_part(data: RegionDataset, split: Split = "train") -> NDArray[np.int64] | None:
    """Return the numbers of the regions whose captions may be read; None if all may, as in most data."""
    return data.captioned(split) if isinstance(data, HasCaptionedPart) else None


@runtime_checkable
class HasRegionAreas(Protocol):
    """A dataset of regions that knows their areas without reading pictures."""

    def areas(self, split: Split) -> NDArray[np.float32]:
        """Return ``[N]``, the fraction of its image that each region of a split covers, above 0 up to 1."""
        ...


@runtime_checkable
class HasPictureMarks(Protocol):
    """A dataset of regions with fingerprints of its pictures."""

    def picture_marks(self, split: Split) -> Sequence[str]:
        """Return the hexadecimal fingerprint of the picture of every region of a split, independent of its path."""
        ...


@runtime_checkable
class Described(Protocol):
    """A dataset that describes its content and what it left out.

    Attributes:
        summary: A line for ``--dry-run`` and the log.
    """

    summary: str


def is_generated(dataset: object) -> bool:
    """Whether a dataset is generated: it has ``inputs``, and they are empty. Its splits share nothing by design."""
    inputs = getattr(dataset, "inputs", None)
    return isinstance(inputs, Mapping) and not inputs


def count_takes(clips: Iterable[TextClip]) -> int:
    """Return the number of takes that clips are of: a clip, its mirror image ``M...`` and its parts ``..._p0`` are one.

    Clips of one take are not independent: a figure over them is one of so many items.
    """
    keys = [re.sub(r"_p\d+$", "", clip.key) or clip.key for clip in clips]
    present = set(keys)
    return len({key[1:] if key.startswith("M") and key[1:] in present else key for key in keys})


def clip_fingerprint(clip: TextClip) -> str:
    """Return the fingerprint of a motion, independent of its key and captions."""
    return fingerprint(clip.features)


def prompt_fingerprint(prompt: Prompt) -> str:
    """Return the fingerprint of a prompt and its source motions, independent of its key."""
    return fingerprint(*prompt.segments, *map(str, prompt.frames), "from", *prompt.source_ids)


def clips_fingerprint(clips: Iterable[TextClip]) -> str:
    """Return the fingerprint of clips in order: motions, captions and their stored tokens."""
    return fingerprint(
        *(
            part
            for clip in clips
            for part in (clip_fingerprint(clip), *clip.captions, *map(str, getattr(clip, "tokens", ())))
        )
    )


def trained_items(dataset: TextMotionDataset, split: Split, prompts: Iterable[Prompt]) -> TrainedOn:
    """Return what prompts of a split train a policy on: the motions behind them, or composite prompts."""
    if is_generated(dataset):
        return TrainedOn()
    if _is_composite(dataset):
        return TrainedOn.of(map(prompt_fingerprint, prompts))
    return TrainedOn.of(map(clip_fingerprint, dataset.clips(split)))


def leave_out_clips(trained: TrainedOn, dataset: TextMotionDataset, clips: Sequence[TextClip]) -> Kept:
    """Return which clips of a dataset a model was not trained on."""
    if is_generated(dataset):
        return TrainedOn().leave_out([""] * len(clips))
    return trained.leave_out([clip_fingerprint(clip) for clip in clips] if trained.items else [""] * len(clips))


def leave_out_prompts(trained: TrainedOn, dataset: TextMotionDataset, split: Split, prompts: Sequence[Prompt]) -> Kept:
    """Return which prompts of a split a model was not trained on, nor on a motion behind them.

    The motions behind composite prompts are known only with their dataset (``source``).
    """
    if is_generated(dataset) or not trained.items:
        return (TrainedOn() if is_generated(dataset) else trained).leave_out([""] * len(prompts))
    singles: TextMotionDataset | None = getattr(dataset, "source", None) if _is_composite(dataset) else dataset
    seen: dict[str, str] = {}
    for clip in singles.clips(split) if singles is not None else ():
        if (mark := clip_fingerprint(clip)) in trained.items:
            seen[getattr(clip, "source", "") or clip.key] = mark
    return trained.leave_out(
        [
            next((seen[name] for name in prompt.source_ids if name in seen), prompt_fingerprint(prompt))
            for prompt in prompts
        ]
    )


def _is_composite(dataset: object) -> bool:
    return getattr(dataset, "splits", None) is not None


def trained_pictures(data: RegionDataset) -> TrainedOn:
    """Return the pictures that the train split trains a policy on; none for drawn scenes, whose splits share none.

    They are unknown for a dataset without fingerprints of its pictures.
    """
    if is_generated(data):
        return TrainedOn()
    return TrainedOn.of(data.picture_marks("train")) if isinstance(data, HasPictureMarks) else TrainedOn.unknown()


def untrained_regions(
    trained: TrainedOn, data: RegionDataset, split: Split, most: int
) -> tuple[NDArray[np.int64], Kept]:
    """Return the first regions of a split whose pictures a policy was not trained on.

    Args:
        trained: Training data of the policy.
        data: The dataset.
        split: The split.
        most: Most regions to return.

    Returns:
        Their numbers ``[N]``, N up to `most`, and which regions of the split were left out.
    """
    if isinstance(data, HasPictureMarks):
        kept = trained.leave_out(data.picture_marks(split))
        return np.array(kept.places[:most], np.int64), kept
    index = np.arange(min(most, data.count(split)))
    # Without fingerprints no picture can be recognised; a policy that was trained on no files needs none.
    known = is_generated(data) or (trained.complete and not trained.items)
    return index, Kept(tuple(index.tolist()), len(index), known)


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
