"""The loss of captions and masks as the data have them, for every trainer of a region policy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch.nn.functional as F
from torch import Tensor

from motionkit.policies.base import RegionPolicy
from motionkit.trainers._world import OneProcess, World

_INSIDE = 4.0
"""Weight of a pixel inside: most of an image is outside."""


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
