"""What a dataset of regions is, what some of them know besides, and which pictures a model was trained on."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from motionkit.contracts.dataset import Dataset, is_generated
from motionkit.motion.corpus.ids import Split
from motionkit.runs import Kept, TrainedOn


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


class RegionDataset(Dataset, Protocol):
    """Images with regions and captions; ``Component(gives="regions")``. Only `count` and `regions` need be there.

    Attributes:
        summary: Its content, and what it left out, in a line for ``--dry-run`` and the log; empty if it says nothing.
        words: All words of its captions; empty if they are not known.
    """

    summary: str = ""
    words: Sequence[str] = ()

    @abstractmethod
    def count(self, split: Split) -> int:
        """Return the number of regions of a split."""
        ...

    @abstractmethod
    def regions(self, split: Split, index: NDArray[np.int64]) -> Regions:
        """Return regions.

        Args:
            split: Which split.
            index: ``[N]`` numbers below `count`, in any order.
        """
        ...

    def absent(self, split: Split, index: NDArray[np.int64]) -> Sequence[str] | None:
        """Return for each region a caption of an object that its image does not show; None if it cannot name any."""
        return None

    def captioned(self, split: Split) -> NDArray[np.int64] | None:
        """Return the numbers of the regions of a split whose captions may be learned from; None if all may."""
        return None

    def areas(self, split: Split) -> NDArray[np.float32] | None:
        """Return ``[N]``, the fraction of its image that each region of a split covers, above 0 up to 1.

        None if that is not known without reading the pictures.
        """
        return None

    def picture_marks(self, split: Split) -> Sequence[str] | None:
        """Return the hexadecimal fingerprint of the picture of every region of a split, independent of its path.

        None if they are not known.
        """
        return None


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


def names_absent(data: RegionDataset) -> bool:
    """Whether a dataset names objects which an image does not show."""
    return type(data).absent is not RegionDataset.absent


def trained_pictures(data: RegionDataset) -> TrainedOn:
    """Return the pictures that the train split trains a policy on; none for drawn scenes, whose splits share none.

    They are unknown for a dataset without fingerprints of its pictures.
    """
    if is_generated(data):
        return TrainedOn()
    marks = data.picture_marks("train")
    return TrainedOn.unknown() if marks is None else TrainedOn.of(marks)


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
    if (marks := data.picture_marks(split)) is not None:
        kept = trained.leave_out(marks)
        return np.array(kept.places[:most], np.int64), kept
    index = np.arange(min(most, data.count(split)))
    # Without fingerprints no picture can be recognised; a policy that was trained on no files needs none.
    known = is_generated(data) or (trained.complete and not trained.items)
    return index, Kept(tuple(index.tolist()), len(index), known)
