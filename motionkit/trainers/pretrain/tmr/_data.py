"""What is read off the clips before training: their statistics, the texts' scale."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from motionkit.datasets.base import TextClip
from motionkit.text import TextEncoder


def statistics(clips: Sequence[TextClip], *, floor: Tensor) -> tuple[Tensor, Tensor]:
    """Return TMR's own mean and std ``[F]``: per feature, over all frames of `clips`.

    A feature that hardly moves in the data would turn a generator's smallest error into many sigmas, so a std is at
    least `floor` (``[F]``), and 1 where that is 0 too.
    """
    count = sum(len(clip.features) for clip in clips)
    mean = torch.stack([clip.features.double().sum(0) for clip in clips]).sum(0) / count
    spread = torch.stack([(clip.features.double() - mean).square().sum(0) for clip in clips]).sum(0) / count
    std = torch.maximum(spread.sqrt(), floor.double())
    return mean.float(), torch.where(std > 0, std, torch.ones_like(std)).float()


def text_scale(text_model: TextEncoder, clips: Sequence[TextClip]) -> float:
    """Root mean square of the features of up to 256 first captions; also opens the text model in earnest."""
    stride = max(1, len(clips) // 256)
    features = text_model.encode([clip.captions[0] for clip in clips[::stride]])
    return max(float(features.tokens[features.mask].square().mean().sqrt()), 1e-6)
