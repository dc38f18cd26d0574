"""Which frames a step sees, and how they are changed: a function of seed and step alone."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from motionkit.rl import stable_hash


@dataclass(frozen=True)
class Draw:
    """One step's draws.

    Attributes:
        index: ``[N]`` int64 frames.
        hidden: ``[N]`` bool: frames whose contacts are hidden.
        noise: ``[N, D]`` added to what is read, in deviations; None: none.
    """

    index: Tensor
    hidden: Tensor
    noise: Tensor | None


class FrameBatches:
    """Endless shuffled batches; each frame once per epoch, the last batch of an epoch filled from its beginning.

    Args:
        frames: Number of training frames.
        size: Frames per batch; fewer when there are fewer.
        width: D, numbers that the encoder reads of a frame.
        noise: Std of the noise, in deviations.
        hide: Share of frames whose contacts are hidden.
        seed: Fixes everything.
    """

    def __init__(self, frames: int, size: int, width: int, *, noise: float, hide: float, seed: int) -> None:
        self._frames, self._size, self._width = frames, min(size, frames), width
        self._noise, self._hide, self._seed = noise, hide, seed
        self._epoch: tuple[int, Tensor] = (-1, torch.empty(0))

    @property
    def per_epoch(self) -> int:
        """Steps in one epoch."""
        return -(-self._frames // self._size)

    def __call__(self, step: int) -> Draw:
        """Return the draws of step number `step` (1-based)."""
        epoch, position = divmod(step - 1, self.per_epoch)
        if self._epoch[0] != epoch:
            self._epoch = (epoch, torch.randperm(self._frames, generator=self._generator("epoch", epoch)))
        places = torch.arange(position * self._size, (position + 1) * self._size) % self._frames
        generator = self._generator("step", step)
        hidden = torch.rand(self._size, generator=generator) < self._hide
        noise = None
        if self._noise:
            noise = self._noise * torch.randn(self._size, self._width, generator=generator)
        return Draw(self._epoch[1][places], hidden, noise)

    def _generator(self, purpose: str, number: int) -> torch.Generator:
        return torch.Generator().manual_seed(stable_hash(f"mpl-encoder/{purpose}/{self._seed}/{number}") % 2**63)
