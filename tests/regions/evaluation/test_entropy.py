"""The temperature of equal entropy: by hand, and of a policy against itself."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from motionkit.regions.datasets.scenes import Shapes
from motionkit.regions.evaluation.known import look_up
from motionkit.regions.evaluation.measure import open_task
from motionkit.regions.evaluation.split import HIGHEST, LOWEST, equal_entropy, measure_equal_entropy, word_entropy
from motionkit.regions.small import open_regions
from motionkit.regions.small_settings import RegionOptions


def test_two_words_have_the_temperature_that_their_odds_say() -> None:
    """Of two words with the odds 9 to 1, the temperature of the odds 3 to 1 is 2: log 9 = 2 log 3."""

    def entropy(temperature: float) -> float:
        odds = 9 ** (-1 / temperature)
        p, q = 1 / (1 + odds), odds / (1 + odds)
        return -p * math.log(p) - q * math.log(q)

    wanted = -0.75 * math.log(0.75) - 0.25 * math.log(0.25)
    assert equal_entropy(entropy, wanted) == pytest.approx(2.0, rel=1e-3)
    assert equal_entropy(entropy, 0.0) == LOWEST
    assert equal_entropy(entropy, 10.0) == HIGHEST


def test_entropy_is_the_mean_over_the_words_of_the_captions() -> None:
    data, policy = Shapes(), open_regions(RegionOptions())
    task = open_task(policy, data.regions("val", np.arange(6)))
    captions = ["a circle", "a small red square at the top", "a", "", "a red circle", "a large diamond"]
    with torch.no_grad():
        scores = policy.score_words(task.seen, task.masks, policy.encode(captions), temperature=0.7, whole=True)
    assert scores.whole is not None
    total, words = 0.0, 0
    for row, text in enumerate(captions):
        for place in range(len(text.split()) + 1):  # the end is a word
            p = scores.whole[row, place].exp().double()
            total -= float((p * p.clamp(min=1e-300).log()).sum())
            words += 1
    assert word_entropy(policy, [(task, captions)], 0.7) == pytest.approx(total / words, rel=1e-5)


def test_a_policy_with_sharper_logits_is_found_again() -> None:
    """Scaled logits are a temperature: the starter at T is what a policy with logits divided by T is at 1."""
    data, index = Shapes(), np.arange(40)
    start, sharp = (open_regions(RegionOptions()) for _ in range(2))
    with torch.no_grad():
        sharp.network.language_model.lm_head.weight.div_(0.4)
    known = look_up(data, "test", index)
    task = open_task(sharp, data.regions("test", index))
    captions = sharp.sample_captions(task.seen, task.masks).texts
    found = measure_equal_entropy(start, sharp, captions, data, "test", index, known, batch=16)
    assert found.temperature == pytest.approx(0.4, rel=2e-3)
    assert found.nats == pytest.approx(word_entropy(sharp, [(task, captions)], 1.0), rel=5e-3)
    assert {"cycle_iou", "judge_iou", "meteor", "cider", "unique"} <= set(found.sampled.scores)
    assert found.sampled.scores["cycle_iou"].tolist() == found.sampled.scores["judge_iou"].tolist()
