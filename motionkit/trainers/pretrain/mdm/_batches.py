"""Which clips, captions, noise and timesteps a step sees: a function of seed and step alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from motionkit.datasets.base import TextClip
from motionkit.motion import Normalizer
from motionkit.rl import stable_hash
from motionkit.text import Prompt


@dataclass(frozen=True)
class Batch:
    """One step's data.

    Attributes:
        x0: ``[B, T, D]`` normalised, zeros past a clip's end.
        lengths: ``[B]`` int64.
        prompts: Conditions, one per clip.
        timestep: ``[B]`` int64.
        noise: ``[B, T, D]`` standard normal.
        drop: ``[B]`` bool, True = without text.
    """

    x0: Tensor
    lengths: Tensor
    prompts: list[Prompt]
    timestep: Tensor
    noise: Tensor
    drop: Tensor


class Batches:
    """Endless batches of similar lengths.

    Args:
        clips: Training clips.
        normalizer: The dataset's statistics.
        batch_size: Clips per batch; fewer when there are fewer clips.
        steps: Length of the noise schedule.
        max_length: Longer clips are cropped.
        seed: Fixes everything.
        random_crop: Crop at a random place, not at the first frame.
        cond_drop: Share without text.
        early: Share of timesteps drawn as ``(steps - 1) (1 - u^2)``, densest at the noisy end; the rest uniformly.
    """

    def __init__(
        self,
        clips: Sequence[TextClip],
        normalizer: Normalizer,
        *,
        batch_size: int,
        steps: int,
        max_length: int,
        seed: int,
        random_crop: bool = True,
        cond_drop: float = 0.0,
        early: float = 0.0,
    ) -> None:
        self._clips = clips
        self._features = [normalizer.normalize(clip.features) for clip in clips]
        self._lengths = torch.tensor([min(clip.features.shape[0], max_length) for clip in clips])
        self._size = min(batch_size, len(clips))
        self._steps, self._max, self._seed, self._random_crop = steps, max_length, seed, random_crop
        self._drop, self._early = cond_drop, early
        self._epoch: tuple[int, list[Tensor]] = (-1, [])

    @property
    def per_epoch(self) -> int:
        """Batches in one pass over the clips; the last few clips of a pass wait for the next one."""
        return len(self._clips) // self._size

    def __call__(self, step: int) -> Batch:
        """Return the batch of step number `step` (1-based)."""
        epoch, position = divmod(step - 1, self.per_epoch)
        if self._epoch[0] != epoch:
            self._epoch = (epoch, self._order(epoch))
        return self._make(self._epoch[1][position].tolist(), self._generator("step", step))

    def fixed(self) -> list[Batch]:
        """Return all clips once in batches with whole captions, no text dropped: the same data every time."""
        rows = torch.split(torch.argsort(self._lengths, stable=True), self._size)
        return [self._make(row.tolist(), self._generator("fixed", i), plain=True) for i, row in enumerate(rows)]

    def _generator(self, purpose: str, number: int) -> torch.Generator:
        return torch.Generator().manual_seed(stable_hash(f"{purpose}/{self._seed}/{number}") % 2**63)

    def _order(self, epoch: int) -> list[Tensor]:
        """Shuffle, then cut into batches of similar lengths (sorted within pools of 16 batches), in random order."""
        generator = self._generator("epoch", epoch)
        order = torch.randperm(len(self._clips), generator=generator)
        pools = torch.split(order, 16 * self._size)
        rows = torch.cat([pool[torch.argsort(self._lengths[pool], stable=True)] for pool in pools])
        batches = torch.split(rows[: self.per_epoch * self._size], self._size)
        return [batches[i] for i in torch.randperm(len(batches), generator=generator).tolist()]

    def _make(self, rows: list[int], generator: torch.Generator, *, plain: bool = False) -> Batch:
        lengths = self._lengths[rows]
        x0 = torch.zeros(len(rows), int(lengths.max()), self._features[0].shape[1])
        for i, (row, length) in enumerate(zip(rows, lengths.tolist(), strict=True)):
            spare = self._features[row].shape[0] - length
            start = _below(spare + 1, generator) if self._random_crop else 0
            x0[i, :length] = self._features[row][start : start + length]
        captions = [self._clips[row].captions for row in rows]
        texts = [options[0 if plain else _below(len(options), generator)] for options in captions]
        prompts = [Prompt((text,), (length,)) for text, length in zip(texts, lengths.tolist(), strict=True)]
        drop = torch.rand(len(rows), generator=generator) < (0.0 if plain else self._drop)
        noise = torch.randn(x0.shape, generator=generator)
        return Batch(x0, lengths, prompts, self._timesteps(len(rows), generator), noise, drop)

    def _timesteps(self, count: int, generator: torch.Generator) -> Tensor:
        uniform = torch.randint(self._steps, (count,), generator=generator)
        if not self._early:
            return uniform
        noisy = ((self._steps - 1) * (1 - torch.rand(count, generator=generator).square())).round().long()
        return torch.where(torch.rand(count, generator=generator) < self._early, noisy, uniform)


def _below(limit: int, generator: torch.Generator) -> int:
    return int(torch.randint(limit, (), generator=generator))
