"""What loop 2 samples: actions with a log-probability, each with its exact KL to the start."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from motionkit.evaluation.regions._task import Task
from motionkit.policies.base import RegionPolicy
from motionkit.rl import categorical
from motionkit.trainers._regions import mask_loss
from motionkit.trainers.sa2va_rl.loops.base import Terms, Turn


@dataclass(frozen=True)
class Action:
    """Sampled masks.

    Attributes:
        logits: ``[N, h, w]``; above 0 is inside.
        terms: See `Played.terms`.
        direct: See `Played.direct`.
    """

    logits: Tensor
    terms: Callable[[], Terms]
    direct: Callable[[Tensor], Tensor] | None = None


def gaussian(policy: RegionPolicy, task: Task, turn: Turn, sigma: float) -> Action:
    """Sample the prompt of the mask decoder, ``z = mu + sigma eps``, in pairs of opposite sign.

    The mask decoder is part of the environment. The log-ratio is the mean over the numbers of a prompt: that of a sum
    would leave every clip range at once.
    """
    old = policy.prompts(task.seen, task.captions)
    with turn.start():
        first = policy.prompts(task.seen, task.captions)
    z = old + sigma * turn.noise.normal(policy.action_size)

    def terms() -> Terms:
        now = policy.prompts(task.seen, task.captions)
        log_ratio = ((z - old).square() - (z - now).square()).mean(1, keepdim=True) / (2 * sigma**2)
        kl = (now - first).square().mean(1, keepdim=True) / (2 * sigma**2)
        return _single(log_ratio, kl)

    return Action(policy.draw(task.seen, z), terms)


def multimask(policy: Any, task: Task, turn: Turn, tau: float) -> Action:
    """Sample one of the candidate masks by the scores that the policy gives them, over tau."""

    def offered() -> tuple[Tensor, Tensor]:
        found = policy.candidates(task.seen, policy.prompts(task.seen, task.captions))
        return found.logits, (found.scores / tau).log_softmax(-1)

    logits, old = offered()
    with turn.start():
        _, first = offered()
    chosen = categorical(old, turn.noise.uniform(1)[:, 0])[:, None]
    rows = torch.arange(len(chosen), device=chosen.device)

    def terms() -> Terms:
        _, now = offered()
        kl = (now.exp() * (now - first)).sum(-1, keepdim=True)
        entropy = -(now.exp() * now).sum(-1, keepdim=True)
        return _single(now.gather(1, chosen) - old.gather(1, chosen), kl, entropy)

    return Action(logits[rows, chosen[:, 0]], terms)


def bernoulli(policy: RegionPolicy, task: Task, turn: Turn) -> Action:
    """Sample every pixel on its own; log-ratio and KL are means over the pixels."""

    def pixels() -> Tensor:
        return policy.draw(task.seen, policy.prompts(task.seen, task.captions)).flatten(1)

    old = pixels()
    with turn.start():
        first = pixels()
    inside = turn.noise.uniform(old.shape[1]) < old.sigmoid()

    def log_prob(logits: Tensor) -> Tensor:
        return torch.where(inside, F.logsigmoid(logits), F.logsigmoid(-logits))

    def terms() -> Terms:
        now = pixels()
        share = now.sigmoid()
        kl = share * (F.logsigmoid(now) - F.logsigmoid(first))
        kl = kl + (1 - share) * (F.logsigmoid(-now) - F.logsigmoid(-first))
        entropy = -(share * F.logsigmoid(now) + (1 - share) * F.logsigmoid(-now))
        parts = (log_prob(now) - log_prob(old), kl, entropy)
        return _single(*(part.mean(1, keepdim=True) for part in parts))

    logits = torch.where(inside, 1.0, -1.0) * (old.abs() + 1e-6)  # as sure as the policy was
    return Action(logits.view_as(task.masks), terms)


def supervised(policy: RegionPolicy, task: Task, turn: Turn) -> Action:
    """Sample nothing: the data's masks are learned, those of low reward more (weight ``1 - reward / 2``).

    This is what the public code of this workflow did. Its reward moves no probability; it is here to be compared with.
    """

    def logits() -> Tensor:
        return policy.draw(task.seen, policy.prompts(task.seen, task.captions))

    def direct(rewards: Tensor) -> Tensor:
        return mask_loss(logits(), task.masks) * (1 - 0.5 * rewards.clamp(0, 1))

    def terms() -> Terms:
        raise AssertionError("this action has no log-probability")

    return Action(logits(), terms, direct)


def _single(log_ratio: Tensor, kl: Tensor, entropy: Tensor | None = None) -> Terms:
    """Return the terms of one decision for each sample."""
    return Terms(log_ratio, kl, torch.ones_like(log_ratio, dtype=torch.bool), entropy)
