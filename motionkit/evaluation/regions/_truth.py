"""What is true of captions, for data that know what their images show."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from motionkit.datasets.base import Claim, KnowsScenes, RegionDataset, Scene, Split, Thing

TRUTH = ("unique", "attributes_right", "attributes_wrong", "attributes_left_out", "over_specified")
"""Figures that need it."""


@dataclass(frozen=True)
class Truth:
    """The scenes of R regions.

    Attributes:
        data: Reads captions.
        scenes: One for each region.
    """

    data: KnowsScenes
    scenes: Sequence[Scene]

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
        return np.array([bool(one.said) and any(self._fits(one, t, s) for t in s.things) for one, s in pairs], bool)

    def _one(self, claim: Claim, scene: Scene) -> dict[str, float]:
        thing = scene.things[scene.meant]
        found: dict[str, float] = {}
        rights = wrongs = 0
        for kind in self.data.attributes:
            values = {value for name, value in claim.said if name == kind}
            wrong, right = bool(values - {thing.attributes[kind]}), values == {thing.attributes[kind]}
            found |= {
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
            **found,
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
            one is not thing and self._fits(other, one, scene) and self.data.related(relation, thing, one)
            for one in scene.things
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
