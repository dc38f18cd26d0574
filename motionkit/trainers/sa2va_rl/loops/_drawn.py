"""Masks that a policy draws, with how sure it is of them."""

from __future__ import annotations

from torch import Tensor

from motionkit.evaluation.regions._task import Task
from motionkit.policies.base import RegionPolicy
from motionkit.rewards.base import MaskBatch

_MARGIN = 1.0


def drawn(policy: RegionPolicy, task: Task, prompts: Tensor) -> MaskBatch:
    """Draw masks of prompts ``[N, Z]``, beside those of the task."""
    return batch_of(policy.draw(task.seen, prompts), task.masks, task.others)


def batch_of(logits: Tensor, wanted: Tensor, others: Tensor | None = None) -> MaskBatch:
    """Return the masks of logits ``[N, h, w]`` beside the wanted ones, and those ``[N, K, h, w]`` of other objects.

    Their confidence is SAM's stability score (Kirillov et al. 2023): the pixels above a logit of 1, as a share of those
    above -1; 0 where there are none.
    """
    sure, perhaps = ((logits > margin).flatten(1).sum(1) for margin in (_MARGIN, -_MARGIN))
    return MaskBatch(logits > 0, wanted, confidence=sure / perhaps.clamp(min=1), others=others)
