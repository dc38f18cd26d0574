"""The loss of captions and masks as the data have them, for every trainer of a region policy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from motionkit.policies.base import RegionPolicy
from motionkit.trainers._world import OneProcess, World

_INSIDE = 4.0
"""Weight of a pixel inside: most of an image is outside."""


def masks_at(masks: Sequence[NDArray[np.bool_]], size: tuple[int, int]) -> Tensor:
    """Return ``[N, h, w]`` bool: masks at another size.

    A cell is inside where at least half of it is. A region of which no cell is half covered keeps the cells that it
    covers most: it does not vanish.

    Args:
        masks: N arrays ``[H, W]`` bool.
        size: ``(h, w)``.
    """
    return torch.stack([_mask_at(torch.from_numpy(mask), size) for mask in masks])


def _mask_at(mask: Tensor, size: tuple[int, int]) -> Tensor:
    if tuple(mask.shape) == size:
        return mask
    covered = F.adaptive_avg_pool2d(mask[None, None].float(), size)[0, 0]
    top = covered.max()
    return covered >= torch.clamp(top, min=1e-6, max=0.5)


def supervised_loss(
    policy: RegionPolicy, seen: Any, masks: Tensor, captions: Sequence[str], *, world: World | None = None
) -> Tensor:
    """Return the mean cross-entropy of the words, plus twice that of the pixels, plus the Dice loss of the masks.

    Args:
        policy: The policy.
        seen: What it saw of N images.
        masks: ``[N, h, w]`` bool.
        captions: N texts.
        world: The processes that share a batch, N regions each: every one returns its share of the loss of the batch.
    """
    world = world or OneProcess()
    words = policy.score_words(seen, masks, policy.encode(captions))
    said = -words.log_prob.sum() / world.sum(words.mask.sum()).clamp(min=1)
    return said + mask_loss(policy.draw(seen, policy.prompts(seen, captions)), masks).mean() / world.size


def mask_loss(logits: Tensor, masks: Tensor) -> Tensor:
    """Return ``[N]``: twice the mean cross-entropy of the pixels plus the Dice loss.

    Args:
        logits: ``[N, h, w]``.
        masks: ``[N, h, w]`` bool.
    """
    wanted = masks.to(logits.dtype)
    inside = logits.new_tensor(_INSIDE)
    pixels = F.binary_cross_entropy_with_logits(logits, wanted, pos_weight=inside, reduction="none").mean((1, 2))
    drawn = logits.sigmoid()
    both, either = (drawn * wanted).sum((1, 2)), drawn.sum((1, 2)) + wanted.sum((1, 2))
    return 2 * pixels + 1 - (2 * both + 1) / (either + 1)
