"""What is known of measured regions beside their masks and captions: truth, and what is absent."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from motionkit.contracts.dataset import Claim, KnowsScenes, NamesAbsent, RegionDataset, Scene, Split, Thing
from motionkit.contracts.policy import HasLimits
from motionkit.tracking import label_of

# Captions of what an image does not show.


_PART = 64


def absent_captions(data: RegionDataset, split: Split, index: NDArray[np.int64]) -> tuple[list[str], bool]:
    """Return a caption for each region whose object is not in the image.

    Data that know what they show name something else (`motionkit.contracts.dataset.NamesAbsent`). Of other data each
    region gets the caption of a region of another image, from half of the regions further on: what it names may be in
    the image by chance.

    Returns:
        The captions, and whether it is certain that nothing fits them. A region has an empty one where every caption
        of another image is its own.
    """
    if isinstance(data, NamesAbsent):
        return list(data.absent(split, index)), True
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


# What is true of captions, for data that know what their images show.


TRUTH = ("unique", "attributes_right", "attributes_wrong", "attributes_left_out", "over_specified")
"""Figures that need it."""


@dataclass(frozen=True)
class Truth:
    """The scenes of R regions."""

    data: KnowsScenes  # reads captions
    scenes: Sequence[Scene]  # one for each region

    def score(self, captions: Sequence[str]) -> dict[str, NDArray[np.float64]]:
        """Return figures ``[R]`` of captions.

        ``unique``: 1 where all that is said is true of the object, and of no other object all of it is; a caption that
        says nothing is not, nor is one with a word that cannot be read. ``attributes_right``, ``attributes_wrong``,
        ``attributes_left_out``: shares of the attributes, and of the relations that the caption has. An attribute that
        is said twice is wrong where one of them is. ``over_specified``: 1 where a unique caption would also be so
        without one of its attributes or relations; the noun stays. ``<attribute>_right`` and so on: 1 or 0.

        Args:
            captions: R texts.
        """
        rows = [
            self._one(self.data.read(text), scene) for text, scene in zip(captions, self.scenes, strict=True)
        ]  # fmt: skip
        return {name: np.array([row[name] for row in rows], np.float64) for name in rows[0]} if rows else {}

    def shows(self, captions: Sequence[str]) -> NDArray[np.bool_]:
        """Return ``[R]``, True where an object of the scene fits a caption that says something."""
        claims = [self.data.read(text) for text in captions]
        pairs = zip(claims, self.scenes, strict=True)
        return np.array(
            [bool(claim.said) and any(self._fits(claim, t, s) for t in s.things) for claim, s in pairs], bool
        )

    def _one(self, claim: Claim, scene: Scene) -> dict[str, float]:
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
        """Return whether a thing stands so to another one that fits what is said of it."""
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
    """Return the truth of some regions; None where the data do not know it."""
    return Truth(data, data.scenes(split, index)) if isinstance(data, KnowsScenes) else None


@dataclass(frozen=True)
class Known:
    """What is known of R regions."""

    truth: Truth | None  # what their images show; None where the data do not say it
    absent: Sequence[str]  # r captions of what is not in the image; an empty one is left out
    certain: bool  # whether it is certain that nothing fits them
    present: int = 0  # captions of the data that were left out of `absent`, since an object of the image fits them

    def notes(self, name: str) -> list[str]:
        """Return in sentences what is not measured, or not for sure, with data of this name."""
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
    """Return what is known of regions of a split."""
    absent, certain = absent_captions(data, split, index)
    truth = open_truth(data, split, index)
    if truth is None or not certain:
        return Known(truth, absent, certain)
    shown = truth.shows(absent)
    kept = ["" if there else text for text, there in zip(absent, shown.tolist(), strict=True)]
    return Known(truth, kept, certain, int(shown.sum()))


def limits_of(
    policy: object,
    captions: Sequence[str],  # the data's
) -> list[str]:
    """Return in sentences at what size a policy sees images, and how many of the words it knows."""
    if not isinstance(policy, HasLimits):
        return []
    notes = [f"the policy sees {policy.sees}."]
    if (share := policy.known_words(captions)) < 1:
        notes.append(
            f"the policy knows {share:.0%} of the words of the data's captions; it can neither read nor say the others."
        )
    return notes
