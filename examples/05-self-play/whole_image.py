"""A third loop of self-play: captions of whole images, paid for by a rule.

    motionkit sa2va-rl --loop3 ./whole_image.py:component --loop3-reward rule \\
        --loop3-reward.match pattern --loop3-reward.pattern "the (small|large) (red|green|blue|yellow|purple|white)"
"""

from __future__ import annotations

import torch

from motionkit.config import Group
from motionkit.contracts.reward import MaskBatch, TextBatch
from motionkit.plugins import Component
from motionkit.rl import kl_k3
from motionkit_regions.evaluation.measure import Task
from motionkit_regions.policy import RegionPolicy
from motionkit_regions.self_play.loop import Made, Played, Terms, Turn


class WholeImageOptions(Group):
    """No options."""


class WholeImage:
    """Captions the image as a region that fills it; no partner closes this loop, the rule alone pays."""

    def __init__(self, options: WholeImageOptions, *, policy: RegionPolicy) -> None:
        self.policy = policy

    def measure(self, task: Task) -> dict[str, float]:
        """Nothing has to be known before training."""
        return {}

    @torch.no_grad()
    def play(self, task: Task, turn: Turn) -> Played:
        """Sample a caption of each image."""
        policy, temperature = self.policy, turn.temperature
        whole = torch.ones_like(task.masks)
        noise = turn.noise.uniform(policy.longest)
        captions = policy.sample_captions(task.seen, whole, temperature=temperature, noise=noise)
        old = policy.score_words(task.seen, whole, captions.ids, temperature=temperature)
        with turn.start():
            first = policy.score_words(task.seen, whole, captions.ids, temperature=temperature)

        def terms() -> Terms:
            now = policy.score_words(task.seen, whole, captions.ids, temperature=temperature)
            kl = kl_k3(first.log_prob - now.log_prob)
            return Terms(now.log_prob - old.log_prob, kl, now.mask, now.entropy)

        wanted = [[text] for text in task.captions]
        texts = TextBatch(captions.texts, wanted, task.masks.device, captions.ended.tolist())
        distinct = len(set(captions.texts)) / len(captions.texts)
        return Played(Made(MaskBatch(whole, task.masks), texts), terms, {"distinct": distinct})


component = Component("Captions of whole images", WholeImageOptions, f"{__name__}:WholeImage")
