"""Statistics that a model of motions keeps for itself, beside its weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from motionkit.datasets.base import TextClip


def statistics(clips: Sequence[TextClip], *, floor: Tensor) -> tuple[Tensor, Tensor]:
    """Return mean and std ``[F]``: per feature, over all frames of `clips`.

    A feature that hardly moves in the data would turn a generator's smallest error into many sigmas, so a std is at
    least `floor` (``[F]``), and 1 where that is 0 too.
    """
    count = sum(len(clip.features) for clip in clips)
    mean = torch.stack([clip.features.double().sum(0) for clip in clips]).sum(0) / count
    spread = torch.stack([(clip.features.double() - mean).square().sum(0) for clip in clips]).sum(0) / count
    std = torch.maximum(spread.sqrt(), floor.double())
    return mean.float(), torch.where(std > 0, std, torch.ones_like(std)).float()


@dataclass(frozen=True)
class WithStatistics:
    """A network as a `Learner` trains it: its checkpoint also holds ``mean`` and ``std``, which are no parameters."""

    network: nn.Module

    def tensors(self) -> dict[str, Tensor]:
        """Return weights and statistics."""
        own = {"stats.mean": self.network.get_buffer("mean"), "stats.std": self.network.get_buffer("std")}
        return {**self.network.state_dict(), **own}

    def load_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        """Put them back."""
        own = dict(tensors)
        for name in ("mean", "std"):
            self.network.get_buffer(name).copy_(own.pop(f"stats.{name}"))
        self.network.load_state_dict(own)
