"""Plans the clips of the starter dataset: a clip depends on seed, split and number only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np

from motionkit.motion.corpus.ids import Split
from motionkit.starter import CATALOGUE, Order

UNIT = 4
"""Lengths of clips are multiples of it, in frames."""

_SPLITS: dict[Split, int] = {"train": 0, "val": 1, "test": 2}


@dataclass(frozen=True)
class PlannedClip:
    """One planned clip: key, order and captions."""

    key: str
    order: Order
    captions: tuple[str, ...]


def generator(seed: int, split: Split, *words: int) -> np.random.Generator:
    """Return a generator that is seeded by all arguments."""
    return np.random.Generator(np.random.PCG64([seed, _SPLITS[split], *words]))


@cache
def wordings(number: int, split: Split) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the captions of class `number` for a split: those of training, and those held out for the split.

    The last phrase of every class is held out for test, the one before it for validation; each gives two sentences.
    """
    entry = CATALOGUE[number]
    count = len(entry.phrases)
    seen = tuple(text for phrase in range(count - 2) for text in entry.sentences(phrase))
    if split == "train":
        return seen, ()
    return seen, entry.sentences(count - (1 if split == "test" else 2))


def draw_caption(rng: np.random.Generator, number: int, split: Split, unseen: float) -> str:
    """Draw a caption of class `number`; outside training, with probability `unseen`, a held-out wording."""
    seen, held_out = wordings(number, split)
    choice = held_out if held_out and rng.random() < unseen else seen
    return choice[int(rng.integers(len(choice)))]


@lru_cache(maxsize=8)  # a run asks for the same split several times
def plan(split: Split, count: int, *, seed: int, lengths: tuple[int, int], unseen: float) -> tuple[PlannedClip, ...]:
    """Plan a split: clip i performs class ``i % classes``.

    Args:
        split: The split.
        count: Number of clips.
        seed: Seed of all draws.
        lengths: Shortest and longest clip in frames; lengths are multiples of `UNIT`.
        unseen: Share of held-out wordings among validation and test captions.
    """
    clips = []
    for number in range(count):
        rng = generator(seed, split, 0, number)
        entry = CATALOGUE[number % len(CATALOGUE)]
        frames = draw_length(rng, *lengths)
        if split == "train":
            seen, _ = wordings(number % len(CATALOGUE), split)
            captions = tuple(seen[i] for i in rng.permutation(len(seen))[:3])
        else:
            captions = (draw_caption(rng, number % len(CATALOGUE), split, unseen),)
        # T rows of features describe the steps between T + 1 frames.
        order = Order(entry.name, frames + 1, (seed << 32) + (_SPLITS[split] << 28) + number)
        clips.append(PlannedClip(f"{split}-{number:05d}", order, captions))
    return tuple(clips)


def draw_length(rng: np.random.Generator, shortest: int, longest: int) -> int:
    """Draw a length that is a multiple of `UNIT`, if there is one between the bounds."""
    low, high = -(-shortest // UNIT), longest // UNIT
    return int(rng.integers(low, high + 1)) * UNIT if high >= low else shortest


def half(clips: Sequence[PlannedClip], part: str) -> list[int]:
    """Return the indices of the clips in `part`: ``all``, or the halves ``reward`` and ``judge`` of every class."""
    if part == "all":
        return list(range(len(clips)))
    parity = 0 if part == "reward" else 1
    return [i for i in range(len(clips)) if (i // len(CATALOGUE)) % 2 == parity]
