"""The loops of self-play. Each samples an action, lets the partner close the loop, and scores what comes back.

Loop 1 (mask to caption): captions of a region are sampled; the partner draws a mask of each caption; it should be the
region. Loop 2 (caption to mask): prompts for the mask decoder are sampled around the policy's own; the partner captions
the mask that each draws; it should be the caption. An action of loop 2 is Gaussian, ``z = mu + sigma eps``: the text of
the answer to a caption is always the same, and a mask that follows from it has no variance to learn from.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor

from motionkit.evaluation.regions import Task, Weights
from motionkit.policies.base import RegionPolicy
from motionkit.rewards.base import MaskBatch, TextBatch
from motionkit.rl import RowNoise
from motionkit.trainers.sa2va_rl._rewards import Made


@dataclass(frozen=True)
class Terms:
    """Log-ratios of N samples, with graph.

    Attributes:
        log_ratio: ``[N, S]`` log-probability of each decision now minus that at sampling.
        kl: ``[N, S]`` KL to the start, not negative.
        mask: ``[N, S]`` bool, which decisions there are.
        entropy: ``[N, S]``, or None where it does not change.
    """

    log_ratio: Tensor
    kl: Tensor
    mask: Tensor
    entropy: Tensor | None = None


@dataclass(frozen=True)
class Played:
    """Actions of N samples and what came back.

    Attributes:
        made: Masks and texts, for the rewards.
        terms: Gives the log-ratios under the present weights.
        metrics: Means worth logging, by name.
    """

    made: Made
    terms: Callable[[], Terms]
    metrics: dict[str, float] = field(default_factory=dict)


class Loop(Protocol):
    """A loop of self-play.

    Attributes:
        name: ``loop1``, ``loop2``, ... of metrics and settings.
    """

    name: str

    def play(self, task: Task, partner: Weights, start: Weights, noise: RowNoise) -> Played:
        """Sample actions for N regions, repeated ones side by side, and close the loop."""
        ...


class MaskToCaption:
    """Loop 1; see the module.

    Args:
        policy: The policy.
        temperature: Of the captions.
        kl_k3: Estimates the KL of a word from the log-ratio to the start.
    """

    name = "loop1"

    def __init__(self, policy: RegionPolicy, temperature: float, kl_k3: Callable[[Tensor], Tensor]) -> None:
        self._policy, self._temperature, self._k3 = policy, temperature, kl_k3

    @torch.no_grad()
    def play(self, task: Task, partner: Weights, start: Weights, noise: RowNoise) -> Played:
        """See `Loop.play`."""
        policy, temperature = self._policy, self._temperature
        captions = policy.sample_captions(
            task.seen, task.masks, temperature=temperature, noise=noise.uniform(policy.longest)
        )
        old = policy.score_words(task.seen, task.masks, captions.ids, temperature=temperature)
        with start():
            first = policy.score_words(task.seen, task.masks, captions.ids, temperature=temperature)
        with partner():
            drawn = policy.draw(task.seen, policy.prompts(task.seen, captions.texts)) > 0

        def terms() -> Terms:
            now = policy.score_words(task.seen, task.masks, captions.ids, temperature=temperature)
            return Terms(
                now.log_prob - old.log_prob, self._k3(first.log_prob - now.log_prob), now.mask, now.entropy
            )  # fmt: skip

        words = [text.split() for text in captions.texts]
        metrics = {
            "caption_len": sum(map(len, words)) / len(words),
            "distinct": len(set(captions.texts)) / len(words),
            "cut": 1.0 - float(captions.ended.float().mean()),
            "empty_mask_frac": 1.0 - float(drawn.flatten(1).any(1).float().mean()),
            "entropy": float(old.entropy.sum() / old.mask.sum().clamp(min=1)),
        }
        texts = TextBatch(captions.texts, [[text] for text in task.captions], task.masks.device)
        return Played(Made(MaskBatch(drawn, task.masks), texts), terms, metrics)


class CaptionToMask:
    """Loop 2; see the module.

    The log-ratio is the mean over the numbers of a prompt: that of a sum would leave every clip range at once.

    Args:
        policy: The policy.
        sigma: Standard deviation of the prompts' noise.
    """

    name = "loop2"

    def __init__(self, policy: RegionPolicy, sigma: float) -> None:
        self._policy, self._sigma = policy, sigma

    @torch.no_grad()
    def play(self, task: Task, partner: Weights, start: Weights, noise: RowNoise) -> Played:
        """See `Loop.play`."""
        policy, sigma = self._policy, self._sigma
        old = policy.prompts(task.seen, task.captions)
        with start():
            first = policy.prompts(task.seen, task.captions)
        z = old + sigma * noise.normal(policy.action_size)
        drawn = policy.draw(task.seen, z) > 0
        with partner():
            captions = policy.sample_captions(task.seen, drawn, temperature=0.0)
        empty = ~drawn.flatten(1).any(1)
        # An empty mask says nothing; what the partner says of it is not a caption.
        texts = ["" if bare else text for text, bare in zip(captions.texts, empty.tolist(), strict=True)]

        def terms() -> Terms:
            now = policy.prompts(task.seen, task.captions)
            log_ratio = ((z - old).square() - (z - now).square()).mean(1, keepdim=True) / (2 * sigma**2)
            kl = (now - first).square().mean(1, keepdim=True) / (2 * sigma**2)
            return Terms(log_ratio, kl, torch.ones_like(log_ratio, dtype=torch.bool))

        metrics = {"empty_mask_frac": float(empty.float().mean())}
        wanted = TextBatch(texts, [[text] for text in task.captions], task.masks.device)
        return Played(Made(MaskBatch(drawn, task.masks), wanted), terms, metrics)
