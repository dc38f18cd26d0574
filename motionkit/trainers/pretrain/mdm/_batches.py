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

_NEIGHBOURS = 2  # at most; composite prompts have up to three clauses
_GAP = 72  # frames; longer neighbours would only make batches longer


@dataclass(frozen=True)
class Batch:
    """One step's data.

    Attributes:
        x0: ``[B, T, D]`` normalised, zeros outside the clip.
        own: ``[B, T]`` bool, True on the clip's frames: where x0 is known and the loss is taken.
        lengths: ``[B]`` int64 of the whole timelines; frames of other clauses are shown as pure noise.
        prompts: Conditions, one per timeline.
        timestep: ``[B]`` int64.
        noise: ``[B, T, D]`` standard normal.
        drop: ``[B]`` bool, True = without text.
    """

    x0: Tensor
    own: Tensor
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
        place: Share of clips put into a longer timeline, among other clauses.
        grid: Surrounding clauses are multiples of this many frames.
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
        place: float = 0.0,
        grid: int = 1,
    ) -> None:
        self._clips = clips
        self._features = [normalizer.normalize(clip.features) for clip in clips]
        self._lengths = torch.tensor([min(clip.features.shape[0], max_length) for clip in clips])
        self._size = min(batch_size, len(clips))
        self._steps, self._max, self._seed, self._random_crop = steps, max_length, seed, random_crop
        self._drop, self._early, self._place, self._grid = cond_drop, early, place, grid
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
        lengths = self._lengths[rows].tolist()
        captions = [self._clips[row].captions for row in rows]
        texts = [options[0 if plain else _below(len(options), generator)] for options in captions]
        prompts, first = self._timelines(texts, lengths, generator, plain=plain)
        total = torch.tensor([prompt.length for prompt in prompts])
        x0 = torch.zeros(len(rows), int(total.max()), self._features[0].shape[1])
        own = torch.zeros(x0.shape[:2], dtype=torch.bool)
        for i, (row, length) in enumerate(zip(rows, lengths, strict=True)):
            spare = self._features[row].shape[0] - length
            start = _below(spare + 1, generator) if self._random_crop else 0
            x0[i, first[i] : first[i] + length] = self._features[row][start : start + length]
            own[i, first[i] : first[i] + length] = True
        drop = torch.rand(len(rows), generator=generator) < (0.0 if plain else self._drop)
        noise = torch.randn(x0.shape, generator=generator)
        return Batch(x0, own, total, prompts, self._timesteps(len(rows), generator), noise, drop)

    def _timesteps(self, count: int, generator: torch.Generator) -> Tensor:
        uniform = torch.randint(self._steps, (count,), generator=generator)
        if not self._early:
            return uniform
        noisy = ((self._steps - 1) * (1 - torch.rand(count, generator=generator).square())).round().long()
        return torch.where(torch.rand(count, generator=generator) < self._early, noisy, uniform)

    def _timelines(
        self, texts: list[str], lengths: list[int], generator: torch.Generator, *, plain: bool
    ) -> tuple[list[Prompt], list[int]]:
        """Put some clips into a longer timeline whose other parts belong to other clips' texts.

        The network then learns from single actions alone that a clause speaks about its own window: condition tokens
        of other windows have nothing to do with its frames, and frames of other windows are noise to it.

        Returns:
            The timelines, and the frame at which each clip starts.
        """
        prompts, starts = [], []
        for text, length in zip(texts, lengths, strict=True):
            parts, first = [(length, text)], 0
            placed = not plain and float(torch.rand((), generator=generator)) < self._place
            for _ in range(_NEIGHBOURS if placed else 0):
                gap = self._gap(self._max - sum(frames for frames, _ in parts), generator)
                neighbour = (gap, texts[_below(len(texts), generator)])
                # Either side with equal odds: no place in the order may give away which clause is shown.
                if _below(2, generator):
                    parts.append(neighbour)
                else:
                    parts.insert(0, neighbour)
                    first += gap
            kept = [part for part in parts if part[0]]
            prompts.append(Prompt(tuple(text for _, text in kept), tuple(frames for frames, _ in kept)))
            starts.append(first)
        return prompts, starts

    def _gap(self, room: int, generator: torch.Generator) -> int:
        """Draw the length of a neighbouring clause: none a third of the time or without room, else up to `_GAP`."""
        most = min(room, _GAP) // self._grid
        if most == 0 or _below(3, generator) == 0:
            return 0
        return self._grid * (1 + _below(most, generator))


def _below(limit: int, generator: torch.Generator) -> int:
    return int(torch.randint(limit, (), generator=generator))
