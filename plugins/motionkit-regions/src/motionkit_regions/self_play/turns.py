"""The two loops: captions of a region and masks of them, masks of a caption and captions of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from motionkit.contracts.reward import MaskBatch, TextBatch
from motionkit.errors import MotionkitError
from motionkit.rl import categorical, kl_k3
from motionkit_regions.evaluation.measure import Task
from motionkit_regions.policy import OffersMasks, RegionPolicy, WordScores
from motionkit_regions.pretrain import mask_loss
from motionkit_regions.scores import region_iou
from motionkit_regions.self_play.loop import Loop, Made, Played, Terms, Turn
from motionkit_regions.self_play.loops import CaptionToMaskOptions, MaskToCaptionOptions

_MARGIN = 1.0


class MaskToCaption(Loop):
    """Loop 1: captions of a region are sampled, and the partner draws a mask of each; see `Loop`."""

    reads_captions = False

    def __init__(self, options: MaskToCaptionOptions, *, policy: RegionPolicy) -> None:
        self._policy, self._exact, self._listen = policy, options.kl == "exact", options.listen

    def measure(self, task: Task) -> dict[str, float]:
        """See `Loop.measure`."""
        return {}

    @torch.no_grad()
    def play(self, task: Task, turn: Turn) -> Played:
        """See `Loop.play`."""
        policy, temperature = self._policy, turn.temperature
        noise = turn.noise.uniform(policy.longest)
        captions = policy.sample_captions(task.seen, task.masks, temperature=temperature, noise=noise)

        def scores() -> WordScores:
            return policy.score_words(
                task.seen, task.masks, captions.ids, temperature=temperature, whole=self._exact
            )  # fmt: skip

        old = scores()
        with turn.start():
            first = scores()
        with turn.partner():
            masks = drawn(policy, task, policy.prompts(task.seen, captions.texts))

        def terms() -> Terms:
            now = scores()
            kl = exact_kl(now, first) if self._exact else kl_k3(first.log_prob - now.log_prob)
            return Terms(now.log_prob - old.log_prob, kl, now.mask, now.entropy)

        def beside(rewards: torch.Tensor) -> torch.Tensor:
            logits = policy.draw(task.seen, policy.prompts(task.seen, captions.texts))
            return self._listen * rewards.clamp(0, 1) * mask_loss(logits, task.masks)

        words = [text.split() for text in captions.texts]
        metrics = {
            "caption_len": sum(map(len, words)) / len(words),
            "distinct": len(set(captions.texts)) / len(words),
            "cut": 1.0 - float(captions.ended.float().mean()),
            "cycle_iou": float(region_iou(masks.masks, masks.references).mean()),
            "empty_mask_frac": 1.0 - float(masks.masks.flatten(1).any(1).float().mean()),
            "entropy": float(old.entropy.sum() / old.mask.sum().clamp(min=1)),
        }
        references = [[text] for text in task.captions]
        texts = TextBatch(captions.texts, references, task.masks.device, captions.ended.tolist())
        return Played(Made(masks, texts), terms, metrics, beside=beside if self._listen else None)


def exact_kl(now: WordScores, first: WordScores) -> torch.Tensor:
    """Return the exact KL ``[N, L]`` of each word's distribution from that of the start."""
    assert now.whole is not None
    assert first.whole is not None
    barred = now.whole.isneginf()
    gap = now.whole.masked_fill(barred, 0.0) - first.whole.masked_fill(barred, 0.0)
    return torch.where(now.mask, (now.whole.exp() * gap).sum(-1), 0.0)


class CaptionToMask(Loop):
    """Loop 2: masks of a caption are sampled, and the partner captions each mask; see `Loop`.

    The answer to a caption is deterministic, so its mask has no variance to learn from: a separate action is sampled.
    """

    def __init__(self, options: CaptionToMaskOptions, *, policy: RegionPolicy) -> None:
        self._options, self._policy = options, policy
        self.absent = options.absent
        if options.action == "multimask" and not isinstance(policy, OffersMasks):
            raise MotionkitError(
                "the action multimask needs a policy that offers several masks.",
                why="this one draws a single mask of a prompt.",
                fix="--loop2.action gaussian",
            )

    @torch.no_grad()
    def measure(self, task: Task) -> dict[str, float]:
        """Return ``spread``, the standard deviation of the policy's prompts over captions."""
        if self._options.action != "gaussian":
            return {}
        return {"spread": float(self._policy.prompts(task.seen, task.captions).std(0).mean())}

    @torch.no_grad()
    def play(self, task: Task, turn: Turn) -> Played:
        """See `Loop.play`."""
        policy = self._policy
        action = self._act(task, turn)
        masks = batch_of(action.logits, task.masks, task.others)
        with turn.partner():
            captions = policy.sample_captions(task.seen, masks.masks, temperature=0.0)
        empty = ~masks.masks.flatten(1).any(1)
        # The partner's answer to an empty mask is not a caption.
        texts = ["" if bare else text for text, bare in zip(captions.texts, empty.tolist(), strict=True)]
        # For an absent object nothing should be drawn and nothing captioned.
        nothing = (~task.masks.flatten(1).any(1)).tolist()
        references = [["" if bare else text] for text, bare in zip(task.captions, nothing, strict=True)]
        made = Made(masks, TextBatch(texts, references, task.masks.device))
        learned = self._learned(task) if self._options.learn and action.direct is None else None
        metrics = {"empty_mask_frac": float(empty.float().mean())}
        return Played(made, action.terms, metrics, action.direct, learned)

    def _learned(self, task: Task) -> Callable[[Tensor], Tensor]:
        policy, weight = self._policy, self._options.learn

        def loss(rewards: Tensor) -> Tensor:
            logits = policy.draw(task.seen, policy.prompts(task.seen, task.captions))
            return weight * rewards.clamp(0, 1) * mask_loss(logits, task.masks)

        return loss

    def _act(self, task: Task, turn: Turn) -> Action:
        options, policy = self._options, self._policy
        if options.action == "gaussian":
            return gaussian(policy, task, turn, options.sigma * turn.measured["spread"])
        if options.action == "multimask":
            return multimask(policy, task, turn, options.tau)
        return (bernoulli if options.action == "bernoulli" else supervised)(policy, task, turn)


@dataclass(frozen=True)
class Action:
    """Sampled masks."""

    logits: Tensor  # [N, h, w]; above 0 is inside
    terms: Callable[[], Terms]  # see `Played.terms`
    direct: Callable[[Tensor], Tensor] | None = None  # see `Played.direct`


def gaussian(policy: RegionPolicy, task: Task, turn: Turn, sigma: float) -> Action:
    """Sample the prompt of the mask decoder, ``z = mu + sigma eps``, in pairs of opposite sign.

    The mask decoder is part of the environment. The log-ratio is the mean over the numbers of a prompt, as their sum
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
    """Sample one of the policy's candidate masks, by a softmax of their scores over tau."""

    def offered() -> tuple[Tensor, Tensor]:
        candidates = policy.candidates(task.seen, policy.prompts(task.seen, task.captions))
        return candidates.logits, (candidates.scores / tau).log_softmax(-1)

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

    logits = torch.where(inside, 1.0, -1.0) * (old.abs() + 1e-6)  # with the policy's confidence
    return Action(logits.view_as(task.masks), terms)


def supervised(policy: RegionPolicy, task: Task, turn: Turn) -> Action:
    """Sample nothing: the data's masks are learned, those of low reward more (weight ``1 - reward / 2``).

    The public code of this workflow did this. Its reward changes no probability; it is here for comparison.
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


def drawn(policy: RegionPolicy, task: Task, prompts: Tensor) -> MaskBatch:
    """Draw masks of prompts ``[N, Z]``, for comparison with those of the task."""
    return batch_of(policy.draw(task.seen, prompts), task.masks, task.others)


def batch_of(logits: Tensor, targets: Tensor, others: Tensor | None = None) -> MaskBatch:
    """Return the masks of logits ``[N, h, w]`` with their targets, and the masks ``[N, K, h, w]`` of other objects.

    Their confidence is SAM's stability score (Kirillov et al. 2023): the pixels above a logit of 1, as a share of those
    above -1; 0 if there are none.
    """
    sure, perhaps = ((logits > margin).flatten(1).sum(1) for margin in (_MARGIN, -_MARGIN))
    return MaskBatch(logits > 0, targets, confidence=sure / perhaps.clamp(min=1), others=others)
