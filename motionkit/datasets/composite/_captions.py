"""Chooses one caption for each clip of a sample, all different when possible."""

from __future__ import annotations

import random
from collections.abc import Sequence

from motionkit.datasets.composite._sources import Source


def draw_captions(parts: Sequence[Source], rng: random.Random) -> tuple[tuple[str, ...], bool]:
    """Return a caption of each clip, and whether they are all different.

    Different captions are found whenever they exist (bipartite matching by augmenting paths). Captions that differ only
    in case, spaces or the full stop are the same.
    """
    offers = [[text for text in part.clip.captions if text.strip()] for part in parts]
    for offer in offers:
        rng.shuffle(offer)
    owners: dict[str, tuple[int, str]] = {}

    def place(part: int, tried: set[str]) -> bool:
        for text in offers[part]:
            words = same_words(text)
            if words in tried:
                continue
            tried.add(words)
            if words not in owners or place(owners[words][0], tried):
                owners[words] = part, text
                return True
        return False

    placed = [place(part, set()) for part in rng.sample(range(len(parts)), len(parts))]
    given = dict(owners.values())
    return tuple(given.get(part, offers[part][0]) for part in range(len(parts))), all(placed)


def same_words(text: str) -> str:
    """Return a caption without case, extra spaces and final punctuation, for comparison."""
    return " ".join(text.lower().split()).rstrip(".,;:!? ")
