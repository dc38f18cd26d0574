"""Loop 1: captions of a region are sampled; the partner draws a mask of each caption; it should be the region."""

from __future__ import annotations

import torch

from motionkit.evaluation.regions._task import Task
from motionkit.policies.base import RegionPolicy, WordScores
from motionkit.rewards.base import TextBatch
from motionkit.rl import kl_k3
from motionkit.trainers._regions import mask_loss
from motionkit.trainers.sa2va_rl.loops import MaskToCaptionOptions
from motionkit.trainers.sa2va_rl.loops._drawn import drawn
from motionkit.trainers.sa2va_rl.loops.base import Made, Played, Terms, Turn


class MaskToCaption:
    """See `Loop`.

    Args:
        options: How the KL is computed, and whether masks of captions are learned.
        policy: The policy.
    """

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
            found = policy.draw(task.seen, policy.prompts(task.seen, captions.texts))
            return self._listen * rewards.clamp(0, 1) * mask_loss(found, task.masks)

        words = [text.split() for text in captions.texts]
        metrics = {
            "caption_len": sum(map(len, words)) / len(words),
            "distinct": len(set(captions.texts)) / len(words),
            "cut": 1.0 - float(captions.ended.float().mean()),
            "empty_mask_frac": 1.0 - float(masks.masks.flatten(1).any(1).float().mean()),
            "entropy": float(old.entropy.sum() / old.mask.sum().clamp(min=1)),
        }
        wanted = [[text] for text in task.captions]
        texts = TextBatch(captions.texts, wanted, task.masks.device, captions.ended.tolist())
        return Played(Made(masks, texts), terms, metrics, beside=beside if self._listen else None)


def exact_kl(now: WordScores, first: WordScores) -> torch.Tensor:
    """Return the KL ``[N, L]`` of the distribution of each word from that of the start, over all words."""
    assert now.whole is not None
    assert first.whole is not None
    barred = now.whole.isneginf()
    gap = now.whole.masked_fill(barred, 0.0) - first.whole.masked_fill(barred, 0.0)
    return torch.where(now.mask, (now.whole.exp() * gap).sum(-1), 0.0)
