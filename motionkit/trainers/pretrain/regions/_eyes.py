"""What a region policy learns from images and regions without captions: to see, to draw, and to find again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from motionkit.policies.regions._policy import ShapesPolicy
from motionkit.trainers._regions import mask_loss

_PATCH = 8  # pixels along a square of the small image that a word of the image has to tell
_PIXELS = 4.0  # weight of the squared error of pixels, beside the loss of a mask


class Eyes:
    """Losses without captions.

    A word of the image has to hold its pixels: a fixed random rotation of its features is compared with them. An object
    that is pointed at in one image is found again in another, which has the same squares in another order: only what it
    looks like tells where it went. And what is at a place is drawn, where the region is pointed at in an empty image:
    only its place tells what is meant.

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

    def loss(self, images: Sequence[NDArray[np.uint8]], masks: Tensor, key: tuple[int, ...]) -> Tensor:
        """Return the loss of N images ``[H, W, 3]`` with a region ``[N, h, w]`` of each.

        Args:
            images: The images.
            masks: The regions, on the CPU.
            key: What the order of the squares follows from.
        """
        policy = self._policy
        seen = policy.see(images)
        told = F.mse_loss(seen.cells @ self._rotation.T, self.pixels(images).to(policy.device))
        moved, places = self.moved(images, masks, key)
        again = policy.see(moved)
        wanted = places.to(policy.device)
        looks = mask_loss(policy.draw(again, policy.point(again, masks, seen)), wanted).mean()
        empty = policy.see([_empty(images)]).select(torch.zeros(len(images), dtype=torch.int64, device=policy.device))
        place = mask_loss(policy.draw(again, policy.point(again, places, empty)), wanted).mean()
        return _PIXELS * told + looks + place

    def moved(
        self, images: Sequence[NDArray[np.uint8]], masks: Tensor, key: tuple[int, ...]
    ) -> tuple[list[NDArray[np.uint8]], Tensor]:
        """Return images and masks whose squares, a word of the image each, are in another order."""
        count = self._side // _PATCH
        draw = np.random.default_rng(key)
        orders = np.stack([draw.permutation(count**2) for _ in images])
        return list(_ordered(np.stack(images), orders)), torch.from_numpy(_ordered(masks.numpy(), orders))

    def pixels(self, images: Sequence[NDArray[np.uint8]]) -> Tensor:
        """Return ``[N, V, P]``: pixels from -1 to 1 of the squares of the small images, in the order of words."""
        found = torch.from_numpy(np.stack(images)).permute(0, 3, 1, 2).float() / 127.5 - 1.0
        small = F.adaptive_avg_pool2d(found, self._side)
        return F.unfold(small, _PATCH, stride=_PATCH).transpose(1, 2)


def _empty(images: Sequence[NDArray[np.uint8]]) -> NDArray[np.uint8]:
    """Return an image of one colour: the median of all pixels."""
    middle = np.median(np.stack(images), axis=(0, 1, 2)).astype(np.uint8)
    return np.broadcast_to(middle, images[0].shape).copy()


def _ordered(pictures: NDArray[Any], orders: NDArray[np.int64]) -> NDArray[Any]:
    """Return pictures ``[N, H, W, ...]`` with their squares in the orders ``[N, K K]``."""
    count = round(orders.shape[1] ** 0.5)
    n, height, width, *rest = pictures.shape
    squares = pictures.reshape(n, count, height // count, count, width // count, *rest)
    flat = np.moveaxis(squares, 3, 2).reshape(n, count**2, height // count, width // count, *rest)
    found = flat[np.arange(n)[:, None], orders].reshape(n, count, count, height // count, width // count, *rest)
    return np.ascontiguousarray(np.moveaxis(found, 2, 3).reshape(pictures.shape))


def pointed_at(
    masks: Sequence[NDArray[np.bool_]], others: Sequence[NDArray[np.bool_]], key: tuple[int, ...]
) -> list[NDArray[np.bool_]]:
    """Return the mask of one of all objects of each image, drawn by `key`."""
    draw = np.random.default_rng(key)
    chosen = []
    for place, mask in enumerate(masks):
        every = np.concatenate([mask[None], others[place]]) if others else mask[None]
        chosen.append(every[int(draw.integers(len(every)))])
    return chosen
