"""The words of a dataset's captions, for a policy that is to say them."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np

from motionkit.datasets.base import RegionDataset
from motionkit.errors import MotionkitError

_CAPTIONS, _PART = 2000, 64
"""Training regions whose captions are read, and how many at once: files read their pictures too."""

_MOST = 4096
"""Words that a policy has at most, the most frequent ones."""

_WORD = re.compile(r"[a-z]{1,40}")


def words_of(data: RegionDataset) -> tuple[str, ...]:
    """Return the words of the captions of the first training regions, the most frequent ones first.

    Raises:
        MotionkitError: No caption has a word of the letters a to z (exit code 2).
    """
    counts: Counter[str] = Counter()
    number = min(_CAPTIONS, data.count("train"))
    for start in range(0, number, _PART):
        for caption in data.regions("train", np.arange(start, min(start + _PART, number))).captions:
            counts.update(_WORD.findall(caption.lower()))
    if not counts:
        raise MotionkitError(
            f"the captions of {data.name} have no words of the letters a to z.",
            why="the small policy learns words from the captions that it is trained on.",
            fix="--policy sa2va of sa2va-rl reads other scripts.",
        )
    return tuple(word for word, _ in sorted(counts.items(), key=lambda one: (-one[1], one[0]))[:_MOST])
