"""The contract checks find what they are there to find."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch

from motionkit.motion import MotionBatch
from motionkit.rewards.base import RewardScores
from motionkit.testing import check_component, check_reward, sample_motions, sample_prompts
from motionkit.text import Prompt


class Height:
    """A reward that keeps the contract: mean height of the root."""

    name = "height"

    def score(self, motions: MotionBatch, prompts: Sequence[Prompt]) -> RewardScores:
        height = torch.where(motions.mask, motions.features[..., 3], 0.0)
        return RewardScores(total=height.sum(dim=1) / motions.lengths)


class Padded(Height):
    def score(self, motions: MotionBatch, prompts: Sequence[Prompt]) -> RewardScores:
        return RewardScores(total=motions.features[..., 3].nan_to_num().mean(dim=1))


class Ranked(Height):
    def score(self, motions: MotionBatch, prompts: Sequence[Prompt]) -> RewardScores:
        total = super().score(motions, prompts).total
        return RewardScores(total=(total - total.mean()) / (total.std(correction=0) + 1))


class Forgetful(Height):
    def score(self, motions: MotionBatch, prompts: Sequence[Prompt]) -> RewardScores:
        return RewardScores(total=torch.rand(len(motions)))


class Meddling(Height):
    def score(self, motions: MotionBatch, prompts: Sequence[Prompt]) -> RewardScores:
        scores = super().score(motions, prompts)
        motions.features[0, 0] += 1
        return scores


class Double(Height):
    def score(self, motions: MotionBatch, prompts: Sequence[Prompt]) -> RewardScores:
        return RewardScores(total=super().score(motions, prompts).total.double())


class Bare(Height):
    def score(self, motions: MotionBatch, prompts: Sequence[Prompt]) -> RewardScores:
        return super().score(motions, prompts).total  # type: ignore[return-value]


class Listing(Height):
    def score(self, motions: MotionBatch, prompts: Sequence[Prompt]) -> RewardScores:
        return RewardScores(total=[0.0] * len(motions))  # type: ignore[arg-type]


class Segmented(Height):
    def score(self, motions: MotionBatch, prompts: Sequence[Prompt]) -> RewardScores:
        total = super().score(motions, prompts).total
        return RewardScores(total=total, segments=total[:, None].expand(-1, 3))


def test_a_reward_that_keeps_the_contract_passes() -> None:
    check_reward(Height())


@pytest.mark.parametrize(
    ("reward", "said"),
    [
        (Padded(), "More padding changes the score"),
        (Ranked(), "A motion scored alone gets another score"),
        (Forgetful(), "Scoring the same motions twice"),
        (Meddling(), "It changes the features it is given"),
        (Double(), "total must be float32"),
        (Bare(), "score must return RewardScores with a tensor as total, not Tensor."),
        (Listing(), "score must return RewardScores with a tensor as total, not RewardScores with a list."),
        (Segmented(), "segments must be 0 past a sample's last segment"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Height) else "",
)
def test_each_broken_promise_is_a_sentence(reward: Height, said: str) -> None:
    with pytest.raises(AssertionError, match="reward 'height' breaks its contract") as caught:
        check_reward(reward)
    assert said in str(caught.value)


def test_samples_have_lengths_segments_and_nan_padding() -> None:
    motions = sample_motions()
    assert bool(motions.features[~motions.mask].isnan().all())
    assert bool(motions.features[motions.mask].isfinite().all())
    assert [prompt.length for prompt in sample_prompts(motions)] == motions.lengths.tolist()


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("rewards", "tmr-cosine"),
        ("rewards", "tmr-matching"),
        ("rewards", "tmr-dense"),
        ("rewards", "physics"),
        ("datasets", "starter"),
        ("datasets", "humanml"),
        ("datasets", "kit"),
        ("policies", "mdm"),
        ("trainers", "grpo"),
        ("trainers", "pretrain.mdm"),
        ("trainers", "pretrain.tmr"),
    ],
)
def test_light_half_of_every_builtin(kind: str, name: str) -> None:
    check_component(kind, name)


def test_physics_keeps_the_contract() -> None:
    check_reward("physics", options={"r_s": 0.1, "r_j": 100.0})
