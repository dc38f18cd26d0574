"""A small convolutional network that says where things are: spatial softmax."""

from __future__ import annotations

import torch
from gymnasium.spaces import Box
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from torch import Tensor, nn


class SpatialSoftmax(nn.Module):
    """The mean place of each channel, weighed by a softmax over its pixels (Levine et al. 2016, section 4.2).

    Returns ``[N, 2 C]``: x of every channel, then y, in [-1, 1].
    """

    def forward(self, maps: Tensor) -> Tensor:
        """Read maps ``[N, C, H, W]``."""
        height, width = maps.shape[-2:]
        weights = maps.flatten(-2).softmax(-1).unflatten(-1, (height, width))
        across = torch.linspace(-1, 1, width, device=maps.device)
        down = torch.linspace(-1, 1, height, device=maps.device)
        return torch.cat([(weights.sum(-2) * across).sum(-1), (weights.sum(-1) * down).sum(-1)], dim=-1)


def shifted(pictures: Tensor, most: int) -> Tensor:
    """Return pictures ``[N, C, H, W]``, each moved by up to so many pixels along each axis, its edge repeated.

    Padding and a crop at random (Kostrikov et al. 2020, "Image augmentation is all you need"); torch's global generator
    draws.
    """
    count, _, height, width = pictures.shape
    moves = torch.randint(-most, most + 1, (2, count, 1), device=pictures.device)
    rows = (torch.arange(height, device=pictures.device) + moves[0]).clamp(0, height - 1)
    columns = (torch.arange(width, device=pictures.device) + moves[1]).clamp(0, width - 1)
    place = torch.arange(count, device=pictures.device)[:, None, None]
    # Indexing takes the channels last: [N, H, W, C].
    return pictures.permute(0, 2, 3, 1)[place, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)


class PixelFeatures(BaseFeaturesExtractor):
    """Three convolutions and a spatial softmax; about 30,000 parameters.

    Args:
        space: ``[C, H, W]`` uint8 pictures; they arrive divided by 255.
        width: Features that it returns.

    Attributes:
        shift: Most pixels that pictures are moved by while it is trained, never while it acts.
    """

    shift = 0

    def __init__(self, space: Box, width: int = 64) -> None:
        super().__init__(space, width)
        channels = space.shape[0]
        self.layers = nn.Sequential(
            nn.Conv2d(channels, 16, 5, stride=2, padding=2), nn.ReLU(),
            nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.ReLU(),
            nn.Conv2d(32, 16, 3, padding=1), SpatialSoftmax(),
            nn.Linear(32, width), nn.ReLU(),
        )  # fmt: skip

    def forward(self, pictures: Tensor) -> Tensor:
        """Read pictures ``[N, C, H, W]`` in [0, 1]."""
        if self.shift and self.training:
            pictures = shifted(pictures, self.shift)
        found: Tensor = self.layers(pictures)
        return found
