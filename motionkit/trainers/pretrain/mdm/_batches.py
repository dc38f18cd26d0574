"""Which clips, captions, noise and timesteps a step sees: a function of seed and step alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from motionkit.datasets.base import TextClip
from motionkit.motion import Normalizer
from motionkit.rl import stable_hash
from motionkit.text import Prompt

_NEIGHBOURS = 2
_LONGEST = 64  # frames of one neighbour; longer ones would only make batches longer


@dataclass(frozen=True)
class MdmBatch:
    """One step's data.

    Attributes:
        x0: ``[B, T, D]`` normalised, zeros past the end.
        own: ``[B, T]`` bool, the frames of the clip itself: where the loss is taken. The rest is clutter.
        lengths: ``[B]`` int64, clutter included.
        prompts: Conditions, one per row; clauses over clutter have nothing to do with it.
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

    def rows(self, share: slice) -> MdmBatch:
        """Return some of the rows, as wide as they are."""
        return MdmBatch(
            self.x0[share], self.own[share], self.lengths[share], self.prompts[share], self.timestep[share],
            self.noise[share], self.drop[share],
        )  # fmt: skip


class MdmBatches:
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
        clutter: Share of batches whose clips are put among pieces of other clips that carry yet other clips' texts. No
            loss is taken on those, so the network sees single actions only, but learns that a clause speaks about its
            own frames. Whole batches, because one long row would make all rows of its batch as long.
        grid: Pieces of clutter are multiples of this many frames.
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
        clutter: float = 0.0,
        grid: int = 1,
    ) -> None:
        self._clips = clips
        self._features = [normalizer.normalize(clip.features) for clip in clips]
        self._lengths = torch.tensor([min(clip.features.shape[0], max_length) for clip in clips])
        self._size = min(batch_size, len(clips))
        self._steps, self._max, self._seed, self._random_crop = steps, max_length, seed, random_crop
        self._drop, self._early, self._clutter, self._grid = cond_drop, early, clutter, grid
        self._epoch: tuple[int, list[Tensor]] = (-1, [])

    @property
    def per_epoch(self) -> int:
        """Batches in one pass over the clips; the last few clips of a pass wait for the next one."""
        return len(self._clips) // self._size

    def __call__(self, step: int) -> MdmBatch:
        """Return the batch of step number `step` (1-based)."""
        epoch, position = divmod(step - 1, self.per_epoch)
        if self._epoch[0] != epoch:
            self._epoch = (epoch, self._order(epoch))
        return self._make(self._epoch[1][position].tolist(), self._generator("step", step))

    def fixed(self) -> list[MdmBatch]:
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

    def _make(self, rows: list[int], generator: torch.Generator, *, plain: bool = False) -> MdmBatch:
        texts = [self._caption(row, generator, plain=plain) for row in rows]
        clips = [self._crop(row, int(self._lengths[row]), generator) for row in rows]
        neighbours = _NEIGHBOURS if not plain and self._happens(self._clutter, generator) else 0
        timelines, prompts = [], []
        for clip, text in zip(clips, texts, strict=True):
            parts = [(clip, text, True)]
            for _ in range(neighbours):
                room = self._max - sum(len(part[0]) for part in parts)
                piece = self._piece(clips[_below(len(clips), generator)], room, generator)
                parts.insert(_below(2, generator) * len(parts), (piece, texts[_below(len(texts), generator)], False))
            parts = [part for part in parts if len(part[0])]
            timelines.append(parts)
            prompts.append(Prompt(tuple(part[1] for part in parts), tuple(len(part[0]) for part in parts)))
        x0 = pad_sequence([torch.cat([part[0] for part in parts]) for parts in timelines], batch_first=True)
        own = pad_sequence(
            [torch.cat([torch.full((len(part[0]),), part[2]) for part in parts]) for parts in timelines],
            batch_first=True,
        )
        lengths = torch.tensor([prompt.length for prompt in prompts])
        drop = torch.rand(len(rows), generator=generator) < (0.0 if plain else self._drop)
        noise = torch.randn(x0.shape, generator=generator)
        return MdmBatch(x0, own, lengths, prompts, self._timesteps(len(rows), generator), noise, drop)

    def _caption(self, row: int, generator: torch.Generator, *, plain: bool) -> str:
        captions = self._clips[row].captions
        return captions[0 if plain else _below(len(captions), generator)]

    def _crop(self, row: int, length: int, generator: torch.Generator) -> Tensor:
        spare = self._features[row].shape[0] - length
        start = _below(spare + 1, generator) if self._random_crop else 0
        return self._features[row][start : start + length]

    def _piece(self, clip: Tensor, room: int, generator: torch.Generator) -> Tensor:
        """Cut a neighbour of a random length that fits; empty a third of the time, or without room."""
        most = min(room, _LONGEST, len(clip)) // self._grid
        length = self._grid * (1 + _below(most, generator)) if most > 0 and _below(3, generator) else 0
        start = _below(len(clip) - length + 1, generator)
        return clip[start : start + length]

    @staticmethod
    def _happens(share: float, generator: torch.Generator) -> bool:
        return share > 0 and float(torch.rand((), generator=generator)) < share

    def _timesteps(self, count: int, generator: torch.Generator) -> Tensor:
        uniform = torch.randint(self._steps, (count,), generator=generator)
        if not self._early:
            return uniform
        noisy = ((self._steps - 1) * (1 - torch.rand(count, generator=generator).square())).round().long()
        return torch.where(torch.rand(count, generator=generator) < self._early, noisy, uniform)


def _below(limit: int, generator: torch.Generator) -> int:
    return int(torch.randint(limit, (), generator=generator))
