"""Which clips, captions and crops a step sees: a function of seed and step alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from motionkit.datasets.base import TextClip
from motionkit.rl import stable_hash


@dataclass(frozen=True)
class PairBatch:
    """One step's data.

    Attributes:
        features: ``[B, T, F]`` not normalised, zeros past a clip's end.
        lengths: ``[B]`` int64.
        captions: One per clip.
        generator: Draws whatever else the step needs.
    """

    features: Tensor
    lengths: Tensor
    captions: list[str]
    generator: torch.Generator


class PairBatches:
    """Endless shuffled batches; each clip once per pass with one of its captions.

    Batches are not sorted by length: clips of one length tend to show one action, and an easy reader of lengths
    would need no motion to tell a batch's texts apart.

    Args:
        clips: Training clips.
        batch_size: Clips per batch; fewer when there are fewer clips.
        max_length: Longer clips are cropped.
        seed: Fixes everything.
        random_crop: Crop at a random place, not at the first frame.
        crop_share: Share of clips that are cropped to a random length.
        crop_min: Shortest such crop; shorter clips stay whole.
        name: Keeps the draws of one trainer apart from those of another.
    """

    def __init__(
        self,
        clips: Sequence[TextClip],
        *,
        batch_size: int,
        max_length: int,
        seed: int,
        random_crop: bool = True,
        crop_share: float = 0.0,
        crop_min: int = 32,
        name: str = "tmr",
    ) -> None:
        self._clips = clips
        self._size = min(batch_size, len(clips))
        self._max, self._seed, self._random_crop = max_length, seed, random_crop
        self._share, self._min, self._name = crop_share, crop_min, name
        self._epoch: tuple[int, list[int]] = (-1, [])

    @property
    def per_epoch(self) -> int:
        """Batches in one pass; the last few clips of a pass wait for the next one."""
        return len(self._clips) // self._size

    def __call__(self, step: int) -> PairBatch:
        """Return the batch of step number `step` (1-based)."""
        epoch, position = divmod(step - 1, self.per_epoch)
        if self._epoch[0] != epoch:
            order = torch.randperm(len(self._clips), generator=self._generator("epoch", epoch))
            self._epoch = (epoch, order.tolist())
        rows = self._epoch[1][position * self._size : (position + 1) * self._size]
        return self._make([self._clips[row] for row in rows], self._generator("step", step))

    def _generator(self, purpose: str, number: int) -> torch.Generator:
        return torch.Generator().manual_seed(stable_hash(f"{self._name}/{purpose}/{self._seed}/{number}") % 2**63)

    def _make(self, clips: Sequence[TextClip], generator: torch.Generator) -> PairBatch:
        crops = [self._crop(clip.features, generator) for clip in clips]
        captions = [clip.captions[below(len(clip.captions), generator)] for clip in clips]
        lengths = torch.tensor([len(crop) for crop in crops])
        return PairBatch(torch.nn.utils.rnn.pad_sequence(crops, batch_first=True), lengths, captions, generator)

    def _crop(self, features: Tensor, generator: torch.Generator) -> Tensor:
        longest = min(len(features), self._max)
        length = longest
        if longest > self._min and float(torch.rand((), generator=generator)) < self._share:
            length = self._min + below(longest - self._min + 1, generator)
        start = below(len(features) - length + 1, generator) if self._random_crop else 0
        return features[start : start + length]


def below(limit: int, generator: torch.Generator) -> int:
    """Draw an integer from 0 to `limit` - 1."""
    return int(torch.randint(limit, (), generator=generator))
