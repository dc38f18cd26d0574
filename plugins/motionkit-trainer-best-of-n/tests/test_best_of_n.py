"""What is chosen, the loss against values worked out by hand, the contract, and that it learns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from pydantic import ValidationError

from motionkit.contracts.reward import RewardScores
from motionkit.motion import MotionBatch
from motionkit.testing import check_trainer
from motionkit.text import Prompt
from motionkit.text_to_motion.generating import plan_steps
from motionkit.text_to_motion.rewards.mix import RewardMix
from motionkit.training.learner import Learner, constant_rate
from motionkit.training.steps import State
from motionkit_trainer_best_of_n import BestOfNSettings, BestSettings
from motionkit_trainer_best_of_n.trainer import BestOfN, choose, diffusion_loss

QUICK = {
    "run": {"num_steps": 2},
    "dataset": {"name": "starter", "clips": 8, "val_clips": 8, "test_clips": 8, "prompts": 8},
    "best": {"prompts": 2, "samples": 3, "updates": 2},
    "heldout": {"prompts": 2, "samples": 1},
}


def test_the_best_of_each_prompt_are_chosen() -> None:
    total = torch.tensor([1.0, 3.0, 2.0, 5.0, 4.0, 9.0])
    every = torch.ones(6, dtype=torch.bool)
    assert choose(total, every, 3, 1).tolist() == [1, 5]
    assert choose(total, every, 3, 2).tolist() == [1, 2, 5, 3]


def test_what_cannot_be_scored_or_does_not_differ_is_not_learned_from() -> None:
    total = torch.tensor([0.0, 1.0, 2.0, 7.0, 7.0, 7.0, 0.0, 0.0, 0.0])
    finite = torch.tensor([False, True, True, True, True, True, False, False, True])
    assert choose(total, finite, 3, 2).tolist() == [2]


def test_the_loss_is_the_mean_square_over_valid_frames() -> None:
    x0 = torch.zeros(2, 3, 4)
    mask = torch.tensor([[True, True, True], [True, False, False]])
    predicted = torch.full((2, 3, 4), 2.0)
    predicted[1, 1:] = math.nan
    predicted[0, 0] = 0.0
    assert diffusion_loss(predicted, x0, mask).item() == pytest.approx((8 / 3 + 4.0) / 2)


def test_keeping_all_is_refused() -> None:
    with pytest.raises(ValidationError, match="nothing would be chosen"):
        BestSettings(samples=4, keep=4)


def test_contract(tmp_path: Path) -> None:
    document = check_trainer("best-of-n", tmp_path, settings=QUICK)
    assert document["heldout"].keys() == {"reward", "judge"}
    assert document["heldout"]["reward"]["n"] == 2


class _Speed:
    """Mean speed of the joints in m/s, times a sign."""

    name = "speed"

    def __init__(self, sign: float) -> None:
        self.sign = sign

    def score(self, motions: MotionBatch, prompts: Sequence[Prompt]) -> RewardScores:
        steps = motions.joints.diff(dim=1).norm(dim=-1).mean(dim=-1) * motions.fps
        speed = torch.where(motions.mask[:, 1:], steps, 0.0).sum(dim=1) / (motions.lengths - 1)
        return RewardScores(total=self.sign * speed)


def test_a_policy_learns_what_a_reward_prefers_and_not_what_it_samples_anyway() -> None:
    after = {}
    for sign in (1.0, -1.0):
        trainer, learner = _opened(best={"prompts": 1, "samples": 8, "keep": 2, "updates": 10})
        trainer.prompts = trainer.asked = trainer.prompts[:1]
        trainer.mix, trainer.judge = RewardMix([(_Speed(sign), 1.0)]), None
        rounds = [trainer._round(number, learner) for number in range(1, 5)]
        assert all(each["kept/reward"] > each["reward/mean"] for each in rounds)
        after[sign] = sign * trainer._measure()["heldout/reward/mean"]
    assert after[1.0] > 1.3 * after[-1.0], after


def _opened(**more: object) -> tuple[BestOfN, Learner]:
    settings = BestOfNSettings.model_validate(QUICK | {"heldout": {"samples": 8}} | more)
    trainer = BestOfN(settings)
    trainer.prepare()
    trainer.mix = RewardMix([(_Speed(1.0), 1.0)])
    trainer.plan = plan_steps(trainer.policy, "ddim", 4)
    return trainer, Learner(trainer.policy, settings.optim, constant_rate(5e-4, 0))


def test_a_run_goes_on_to_the_same_bits() -> None:
    trainer, learner = _opened()
    trainer._round(1, learner)
    states = {name: part.state() for name, part in learner.parts().items()}
    kept = {name: State({k: v.clone() for k, v in one.tensors.items()}, one.values) for name, one in states.items()}
    wanted = trainer._round(2, learner)
    other, again = _opened()
    with torch.no_grad():
        for name, part in again.parts().items():
            part.load_state(kept[name])
    assert other._round(2, again) == wanted
    for name, value in trainer.policy.tensors().items():
        assert torch.equal(value, other.policy.tensors()[name])
