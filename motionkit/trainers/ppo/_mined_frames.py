"""The frames of a mining round: those that the classifier was trained on, and those of the policy's own episodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from motionkit.datasets.episodes import Episodes
from motionkit.evaluation.reward._data import Split
from motionkit.trainers.reward_train._batches import generator_of

Index = NDArray[np.int64]


class Joined:
    """Frames of several sets, one set after the other; what `motionkit.trainers.reward_train` reads frames from.

    Args:
        sets: They have the same cameras.
    """

    def __init__(self, sets: Sequence[Episodes]) -> None:
        self._sets = tuple(sets)
        self._ends = np.cumsum([len(one) for one in sets])
        self.labels = np.concatenate([one.labels for one in sets])

    def __len__(self) -> int:
        return len(self.labels)

    def read(self, index: Index) -> Mapping[str, NDArray[np.uint8]]:
        """Return frames ``[M, H, W, 3]`` uint8 by camera; `index` ``[M]`` is in any order."""
        owner = np.searchsorted(self._ends, index, side="right")
        found: dict[str, NDArray[np.uint8]] = {}
        for number, one in enumerate(self._sets):
            mine = np.flatnonzero(owner == number)
            start = int(self._ends[number]) - len(one)
            for name, values in one.read(index[mine] - start).items():
                whole = found.setdefault(name, np.empty((len(index), *values.shape[1:]), np.uint8))
                whole[mine] = values
        return found


@dataclass(frozen=True)
class Parts:
    """Frames of `Joined` by what they are for, each ascending.

    Attributes:
        train: Learned from.
        val: Choose calibration and threshold.
        fresh: Those that this round adds, of both.
    """

    train: Index
    val: Index
    fresh: Index


def divide(collected: Episodes, split: Split, mined: Episodes, *, known: int, val_share: float) -> Parts:
    """Say what each frame of ``Joined([collected, mined])`` is for; test episodes of `collected` stay untouched.

    Args:
        collected: What the classifier was trained on.
        split: Its parts.
        mined: The policy's own episodes.
        known: How many of them earlier rounds have seen.
        val_share: Share of mined episodes that are for `Parts.val`: every so many-th, whatever the round.
    """
    every = max(2, round(1 / val_share))
    held = mined.episode % every == every - 1
    start = len(collected)
    own = np.arange(len(mined)) + start
    # The policy may do again what a test episode shows.
    test = set(split.test)
    other = np.array([record.content not in test for record in mined.records], np.bool_)[mined.episode]
    return Parts(
        np.concatenate([split.frames(collected, split.train), own[~held & other]]),
        np.concatenate([split.frames(collected, split.val), own[held & other]]),
        own[(mined.episode >= known) & other],
    )


class HardBatches:
    """Batches of which a quarter are successes; the others are drawn where the classifier is wrong.

    Args:
        index: ``[N]`` frames to draw from.
        labels: ``[N]`` their labels.
        probabilities: ``[N]`` what the classifier says of them.
        size: Frames of a batch.
        floor: A frame without success is drawn in proportion to ``floor + p``.
        name: Fixes the draws, with the number of the step.
    """

    def __init__(
        self, index: Index, labels: Tensor, probabilities: Tensor, *, size: int, floor: float, name: str
    ) -> None:
        self._index, self._name = torch.from_numpy(index), name
        positive = labels > 0.5
        many = max(1, size // 4)
        self._draws = ((positive.double(), many), ((floor + probabilities.double()) * ~positive, size - many))

    def __call__(self, step: int) -> Index:
        """Return the frames of a step, ascending, which is how a disk reads them best; some may come twice."""
        generator = generator_of(f"{self._name}/{step}")
        parts = [
            torch.multinomial(weights, count, replacement=True, generator=generator) for weights, count in self._draws
        ]
        found: Index = np.sort(self._index[torch.cat(parts)].numpy())
        return found
