"""TMR scoring of 32 clips with 3 segments: one pass against one segment at a time."""

from __future__ import annotations

import time

import pytest
import torch
from torch.nn import functional as F

from motionkit.motion import HUMANML, MotionBatch
from motionkit.text import Prompt, TextFeatures
from motionkit.text_to_motion.rewards.components import DenseOptions
from motionkit.text_to_motion.rewards.joint_space import TmrDense
from motionkit.text_to_motion.tmr.model import ActorSizes, new_tmr

from .ratios import Ratios

GROUP = "TMR scores of 32 clips of 3 segments"
WORDS = 20


class Tokens:
    """Token features of 20 words, as a DistilBERT would give them."""

    name, fingerprint, width = "tokens", "0", 768

    def encode(self, texts):
        draws = [torch.Generator().manual_seed(sum(map(ord, text))) for text in texts]
        tokens = torch.stack([torch.randn(WORDS, self.width, generator=draw) for draw in draws])
        return TextFeatures(tokens, torch.ones(len(texts), WORDS, dtype=torch.bool))


def one_at_a_time(tmr, motions, prompts, alpha):
    """Each segment and each text through its encoder when the formula names it, as the original did."""
    totals = []
    for features, prompt in zip(motions.features, prompts, strict=True):
        score = 0.0
        for k, (start, end) in enumerate(prompt.bounds):
            mask = torch.ones(1, end - start, dtype=torch.bool)
            motion = tmr.encode_motion(features[None, start:end], mask).mu
            texts = torch.cat([tmr.encode_tokens(tmr.text_model.encode([text])).mu for text in prompt.segments])
            s = F.cosine_similarity(motion, texts)
            wrong = (
                torch.cat([s[:k], s[k + 1 :]])
                - F.cosine_similarity(texts[k : k + 1], texts)[[j for j in range(len(texts)) if j != k]]
            )
            score += float(s[k] - alpha * wrong.clamp(min=0).amax())
        totals.append(score / len(prompt.segments))
    return torch.tensor(totals)


@pytest.mark.benchmark
@torch.no_grad()
def test_dense_scoring_of_a_group(ratios: Ratios) -> None:
    sizes = ActorSizes(263, 256, 1024, 6, 4)
    tmr = new_tmr(sizes, torch.zeros(263), torch.ones(263), Tokens()).requires_grad_(False)
    # Eight prompts with four samples each; a prompt's texts are shared by its samples, as in a group of GRPO.
    prompts = [Prompt((f"a{i}", f"b{i}", f"c{i}"), (65, 65, 66)) for i in range(8) for _ in range(4)]
    features = torch.randn(32, 196, 263, generator=torch.Generator().manual_seed(0))
    motions = MotionBatch(features, torch.full((32,), 196), skeleton=HUMANML, fps=20.0)
    slow, fast, cached = [], [], []
    for _ in range(3):
        reward = TmrDense(DenseOptions(range="raw", clamp=0), space=tmr)
        tmr._texts.clear()
        started = time.perf_counter()
        plain = one_at_a_time(tmr, motions, prompts, 0.5)
        slow.append(time.perf_counter() - started)
        for times in (fast, cached):
            started = time.perf_counter()
            total = reward.score(motions, prompts).total
            times.append(time.perf_counter() - started)
        torch.testing.assert_close(total, plain, rtol=0, atol=1e-5)
    for row, times in (("one at a time", slow), ("one pass", fast), ("one pass, texts known already", cached)):
        ratios.add(GROUP, row, min(times))
    assert ratios.of(GROUP, "one pass") > 1
