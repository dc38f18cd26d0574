"""Ground truth of regions beyond masks and captions: what scenes show, and captions of absent objects."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from motionkit.motion.corpus.ids import Split
from motionkit.tracking import label_of
from motionkit_regions.datasets.base import Claim, KnowsScenes, RegionDataset, Scene, Thing

TRUTH = ("unique", "attributes_right", "attributes_wrong", "attributes_left_out", "over_specified")
"""Figures that need the scenes."""

_PART = 64


@dataclass(frozen=True)
class Known:
    """Ground truth of R regions."""

    truth: Truth | None  # their scenes; None if the data do not know them
    absent: Sequence[str]  # R captions of absent objects; an empty one is left out
    certain: bool  # whether it is certain that nothing fits them
    present: int = 0  # captions that were left out of `absent`, since an object of the image fits them

    def notes(self, name: str) -> list[str]:
        """Return notes on what is not measured, or only approximately, with data of this name."""
        notes = []
        if self.truth is None:
            rows = ", ".join(label_of(f"{key}_greedy") for key in TRUTH)
            notes.append(
                f"left out, since {name} does not say what its images show: {rows}, and the table of attributes."
            )
        if not self.certain:
            notes.append(
                f"absent objects are an approximation: {name} does not say what an image lacks, so captions of other "
                "images are asked for, which may fit by chance."
            )
        if self.present:
            notes.append(
                f"{self.present} captions of absent objects name an object that is in the image; they are left out."
            )
        return notes


def look_up(data: RegionDataset, split: Split, index: NDArray[np.int64]) -> Known:
    """Return the ground truth of regions of a split."""
    absent, certain = absent_captions(data, split, index)
    truth = open_truth(data, split, index)
    if truth is None or not certain:
        return Known(truth, absent, certain)
    shown = truth.shows(absent)
    kept = ["" if there else text for text, there in zip(absent, shown.tolist(), strict=True)]
    return Known(truth, kept, certain, int(shown.sum()))


@dataclass(frozen=True)
class Truth:
    """The scenes of R regions."""

    data: KnowsScenes  # reads captions
    scenes: Sequence[Scene]  # one for each region

    def score(self, captions: Sequence[str]) -> dict[str, NDArray[np.float64]]:
        """Return figures ``[R]`` of captions.

        ``unique``: 1 if the caption is true of the object and of no other one; 0 if it names nothing, or has an unknown
        word. ``attributes_right``, ``attributes_wrong``, ``attributes_left_out``: shares of the attributes, and of the
        relations that the caption has. An attribute that is named twice is wrong if one of the values is.
        ``over_specified``: 1 if a unique caption stays unique without one of its attributes or relations; the noun
        stays. ``<attribute>_right`` and so on: 1 or 0.
        """
        rows = [self._scored(self.data.read(text), scene) for text, scene in zip(captions, self.scenes, strict=True)]
        return {name: np.array([row[name] for row in rows], np.float64) for name in rows[0]} if rows else {}

    def shows(self, captions: Sequence[str]) -> NDArray[np.bool_]:
        """Return ``[R]``, True if an object of the scene fits a caption that is not empty."""
        claims = [self.data.read(text) for text in captions]
        pairs = zip(claims, self.scenes, strict=True)
        return np.array(
            [bool(claim.said) and any(self._fits(claim, t, s) for t in s.things) for claim, s in pairs], bool
        )

    def _scored(self, claim: Claim, scene: Scene) -> dict[str, float]:
        thing = scene.things[scene.meant]
        attributes: dict[str, float] = {}
        rights = wrongs = 0
        for kind in self.data.attributes:
            values = {value for name, value in claim.said if name == kind}
            wrong, right = bool(values - {thing.attributes[kind]}), values == {thing.attributes[kind]}
            attributes |= {
                f"{kind}_right": float(right),
                f"{kind}_wrong": float(wrong),
                f"{kind}_left_out": float(not values),
            }
            rights, wrongs = rights + right, wrongs + wrong
        true = sum(self._stands(relation, other, thing, scene) for relation, other in claim.relations)
        number = len(self.data.attributes) + len(claim.relations)
        rights, wrongs = rights + true, wrongs + len(claim.relations) - true
        unique = self._unique(claim, scene)
        needless = unique and any(self._unique(less, scene) for less in _shorter(claim, self.data.attributes[0]))
        return {
            "unique": float(unique),
            "attributes_right": rights / number,
            "attributes_wrong": wrongs / number,
            "attributes_left_out": 1 - (rights + wrongs) / number,
            "over_specified": float(needless),
            **attributes,
        }

    def _unique(self, claim: Claim, scene: Scene) -> bool:
        fitting = [place for place, thing in enumerate(scene.things) if self._fits(claim, thing, scene)]
        return bool(claim.said or claim.relations) and not claim.unread and fitting == [scene.meant]

    def _fits(self, claim: Claim, thing: Thing, scene: Scene) -> bool:
        return all(thing.attributes.get(kind) == value for kind, value in claim.said) and all(
            self._stands(relation, other, thing, scene) for relation, other in claim.relations
        )

    def _stands(self, relation: str, other: Claim, thing: Thing, scene: Scene) -> bool:
        """Return whether a thing has the relation to another one that fits a claim."""
        return any(
            candidate is not thing
            and self._fits(other, candidate, scene)
            and self.data.related(relation, thing, candidate)
            for candidate in scene.things
        )


def _shorter(claim: Claim, noun: str) -> Iterator[Claim]:
    """Yield the claim without each of its attributes but the noun, and without each of its relations."""
    for kind in dict.fromkeys(name for name, _ in claim.said):
        if kind != noun:
            yield Claim(tuple(pair for pair in claim.said if pair[0] != kind), claim.relations)
    for place in range(len(claim.relations)):
        yield Claim(claim.said, claim.relations[:place] + claim.relations[place + 1 :])


def open_truth(data: RegionDataset, split: Split, index: NDArray[np.int64]) -> Truth | None:
    """Return the scenes of some regions; None if the data do not know them."""
    return Truth(data, data.scenes(split, index)) if isinstance(data, KnowsScenes) else None


def absent_captions(data: RegionDataset, split: Split, index: NDArray[np.int64]) -> tuple[list[str], bool]:
    """Return a caption for each region whose object is not in the image.

    Data that know their scenes name absent objects (`RegionDataset.absent`). With other data each region gets the
    caption of a region of another image, half of the regions further on, which may fit by chance.

    Returns:
        The captions, and whether it is certain that nothing fits them. A caption is empty if every caption of another
        image is also one of this image.
    """
    if (named := data.absent(split, index)) is not None:
        return list(named), True
    captions: list[str] = []
    images: list[int] = []
    for start in range(0, len(index), _PART):
        regions = data.regions(split, index[start : start + _PART])
        captions += regions.captions
        images += [zlib.crc32(np.ascontiguousarray(image).tobytes()) for image in regions.images]
    return borrowed(captions, images), False


def borrowed(
    captions: Sequence[str],
    images: Sequence[int],  # a number of the image that each is in
) -> list[str]:
    """Return for each region the caption of one of another image."""
    of_image: dict[int, set[str]] = {}
    for caption, image in zip(captions, images, strict=True):
        of_image.setdefault(image, set()).add(caption)
    count = len(captions)
    texts = []
    for place, image in enumerate(images):
        others = (captions[(place + count // 2 + step) % count] for step in range(count))
        texts.append(next((text for text in others if text not in of_image[image]), ""))
    return texts
