"""What a region policy learns from images and regions without captions: to see, and to draw what it is pointed at."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from motionkit.policies.regions.api import SeenImages, ShapesPolicy
from motionkit.trainers._regions import mask_loss

_PATCH = 8  # pixels along a square of the small image that a word of the image has to tell
_PIXELS = 4.0  # weight of the squared error of pixels, beside the loss of a mask


class Eyes:
    """Losses without captions.

    A word of the image has to hold its pixels: a fixed random rotation of its features is compared with them. And the
    mask is drawn of a region that is pointed at, not named.

    Args:
        policy: The policy; its language model reads the region where a caption would stand.
        seed: Of the rotation.
    """

    def __init__(self, policy: ShapesPolicy, seed: int) -> None:
        self._policy = policy
        settings = policy.settings
        self._side = settings.image_size // 16 * _PATCH
        wide = 4 * 2 * settings.vision
        draw = torch.Generator().manual_seed(seed)
        rotation, _ = torch.linalg.qr(torch.randn(max(wide, 3 * _PATCH**2), wide, generator=draw))
        self._rotation = rotation[: 3 * _PATCH**2].to(policy.device)

    def loss(self, seen: SeenImages, images: Sequence[NDArray[np.uint8]], masks: Tensor) -> Tensor:
        """Return the loss of N images ``[H, W, 3]`` with a region ``[N, h, w]`` of each."""
        wanted = self.pixels(images).to(masks.device)
        told = F.mse_loss(seen.cells @ self._rotation.T, wanted)
        drawn = mask_loss(self._policy.draw(seen, self._policy.point(seen, masks)), masks).mean()
        return _PIXELS * told + drawn

    def pixels(self, images: Sequence[NDArray[np.uint8]]) -> Tensor:
        """Return ``[N, V, P]``: pixels from -1 to 1 of the squares of the small images, in the order of words."""
        found = torch.from_numpy(np.stack(images)).permute(0, 3, 1, 2).float() / 127.5 - 1.0
        small = F.adaptive_avg_pool2d(found, self._side)
        return F.unfold(small, _PATCH, stride=_PATCH).transpose(1, 2)


def pointed_at(masks: Sequence[NDArray[np.bool_]], others: Sequence[NDArray[np.bool_]], key: tuple[int, ...]) -> Tensor:
    """Return ``[N, h, w]`` bool: of each image one of all its objects, drawn by `key`."""
    draw = np.random.default_rng(key)
    chosen = []
    for place, mask in enumerate(masks):
        every = np.concatenate([mask[None], others[place]]) if others else mask[None]
        chosen.append(every[int(draw.integers(len(every)))])
    return torch.from_numpy(np.stack(chosen))
