"""The mix of rewards: sums, segments, bounds, and one bad sample kept apart."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch

from motionkit.motion import HUMANML, MotionBatch
from motionkit.rewards.base import RewardScores
from motionkit.rewards.mix import RewardMix
from motionkit.text import Prompt

PROMPTS = [Prompt(("a", "b"), (4, 4), "x"), Prompt(("c",), (8,), "y")]
MOTIONS = MotionBatch(torch.zeros(2, 8, 263), torch.tensor([8, 8]), skeleton=HUMANML, fps=20.0)


class Fixed:
    """Returns what it was given."""

    def __init__(
        self, total: list[float], segments: list[list[float]] | None = None, bounds: tuple[float, float] | None = None
    ) -> None:
        self.name, self.total, self.segments = "fixed", torch.tensor(total), segments
        if bounds is not None:
            self.bounds = bounds

    def score(self, motions: MotionBatch, prompts: Sequence[Prompt]) -> RewardScores:
        segments = None if self.segments is None else torch.tensor(self.segments)
        return RewardScores(self.total, segments=segments, parts={"part": self.total * 2})


def test_totals_and_segments_are_weighted_sums() -> None:
    mix = RewardMix([(Fixed([0.5, 0.4], [[0.2, 0.8], [0.4, 0.0]]), 1.0), (Fixed([1.0, 0.0]), 0.5)])
    scored = mix.score(MOTIONS, PROMPTS)
    torch.testing.assert_close(scored.total, torch.tensor([1.0, 0.4]))
    torch.testing.assert_close(scored.segments, torch.tensor([[0.7, 1.3], [0.4, 0.0]]))
    count = scored.valid.sum(1)
    torch.testing.assert_close(scored.segments.sum(1) / count, scored.total)
    assert scored.metrics["reward/fixed/part"] == pytest.approx(1.0)


def test_a_sample_that_is_not_a_number_stays_alone() -> None:
    scored = RewardMix([(Fixed([float("nan"), 0.4]), 1.0), (Fixed([1.0, 1.0]), 1.0)]).score(MOTIONS, PROMPTS)
    assert scored.finite.tolist() == [False, True]
    assert scored.total.tolist() == pytest.approx([0.0, 1.4])
    assert scored.segments[0].tolist() == [0.0, 0.0]


def test_bounds_are_those_of_the_sum_or_unknown() -> None:
    known = Fixed([0.0, 0.0], bounds=(-1.0, 1.0))
    assert RewardMix([(known, 1.0), (known, -0.5)]).bounds == (-1.5, 1.5)
    assert RewardMix([(known, 1.0), (Fixed([0.0, 0.0]), 1.0)]).bounds is None
