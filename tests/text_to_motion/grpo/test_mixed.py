"""mixed: both halves are right, alone and together; it learns from both kinds of reward, and its control does not."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from motionkit.contracts.reward import Reward, RewardScores
from motionkit.errors import MotionkitError
from motionkit.motion import MotionBatch
from motionkit.rl import rollout
from motionkit.text import Prompt
from motionkit.text_to_motion.grpo.algorithms.options import (
    GrpoObjective,
    GrpoRollout,
    GrpoSampler,
    MixedObjective,
    MixedRollout,
)
from motionkit.text_to_motion.grpo.settings import EmaSettings, GrpoOptimSettings
from motionkit.text_to_motion.grpo.step import GRPO
from motionkit.text_to_motion.rewards.mix import RewardMix

from .test_world import two_do_as_one
from .toy import PROMPTS, Height, engine, make_policy, resumes

OFF = MixedObjective(jerk=0.0, skate=0.0, anchor=0.0, hold=0.0)
ALL_BUT_LAST = GrpoSampler(spacing="even", train_timesteps=3, window_size=2)
EQUAL = [Prompt(("rise", "fall"), (8, 8), "a"), Prompt(("fall",), (16,), "b")]


class Near(Height):
    """Rewards feature 2 near 0.5; as a black box it reads numbers, as a simulator would."""

    def __init__(self, *, closed: bool = True, spoilt: Sequence[int] = ()) -> None:
        self.closed, self.spoilt = closed, spoilt
        self.name = "spoilt" if spoilt else "near"

    def score(self, motions: MotionBatch, prompts: Sequence[Prompt]) -> RewardScores:
        features = torch.from_numpy(motions.features.numpy()) if self.closed else motions.features
        off = (features[..., 2] - 0.5).square() * motions.mask
        total = -off.sum(1) / motions.lengths
        if self.spoilt:
            total[list(self.spoilt)] = torch.nan
        return RewardScores(total)


def make(
    policy: object = None,
    rewards: Sequence[tuple[Reward, float]] = ((Height(), 1.0), (Near(), 1.0)),
    *,
    gradient: Sequence[bool] | None = (True, False),
    **groups: object,
) -> GRPO:
    options: dict[str, object] = {
        "algorithm": "mixed",
        "objective": OFF,
        "rollout": MixedRollout(prompts=4, group_size=8, antithetic=False, shared_noise=False),
        "sampler": ALL_BUT_LAST,
        "optim": GrpoOptimSettings(learning_rate=2e-2),
        **groups,
    }
    return engine(policy, RewardMix(rewards, gradient=gradient), **options)  # type: ignore[arg-type]


def slope(grpo: GRPO, number: int = 1, prompts: Sequence[Prompt] = PROMPTS) -> Tensor:
    """Gradient of the loss of one batch."""
    grpo.updates = number
    grpo.learner.zero_grad()
    with torch.set_grad_enabled(grpo.algorithm.graph):
        batch = grpo._sample(prompts)
        scored = grpo.rewards.score(batch.motions, batch.prompts, leave_out=True)
    update = grpo.algorithm.update(batch, scored, number)
    with torch.enable_grad():
        update.backward()
    found = [torch.zeros_like(p) if p.grad is None else p.grad for _, p in grpo.learner.trained]
    return torch.cat([value.flatten() for value in found])


def pathwise(grpo: GRPO, number: int = 1) -> Tensor:
    """Minus the derivative of the mean reward with the noise held fixed, by the plain sampler with its graph on."""
    rule, honest = grpo.algorithm, grpo.algorithm.rollout
    rule.rollout = lambda predict, start, noise, _: rollout(predict, rule.plan, start, noise, record=False)  # type: ignore[method-assign]
    grpo.updates = number
    batch = grpo._sample(PROMPTS)
    rule.rollout = honest  # type: ignore[method-assign]
    loss = -sum(w * reward.score(batch.motions, batch.prompts).total.mean() for reward, w in grpo.rewards.terms)
    trained = [parameter for _, parameter in grpo.learner.trained]
    return torch.cat([value.flatten() for value in torch.autograd.grad(loss, trained)])  # type: ignore[arg-type]


def test_with_differentiable_rewards_alone_it_is_the_pathwise_gradient() -> None:
    grpo = make(make_policy(), [(Height(), 0.7), (Near(closed=False), 0.3)], gradient=None)
    torch.testing.assert_close(slope(grpo), pathwise(grpo), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("sampler", [ALL_BUT_LAST, GrpoSampler(window_size=2)])
def test_with_black_boxes_alone_it_is_grpo_in_units_of_the_reward(sampler: GrpoSampler) -> None:
    mixed = make(make_policy(), [(Near(), 1.0)], gradient=[False], sampler=sampler)
    plain = GrpoObjective(ratio_norm="none", anchor=0.0, std_floor=0.0, credit="sample", advantage_clip=100.0)
    groups = GrpoRollout(prompts=4, group_size=8, antithetic=False, shared_noise=False, low_pass=0.0)
    own: dict[str, object] = {"algorithm": "grpo", "objective": plain, "rollout": groups}
    alone = make(make_policy(), [(Near(), 1.0)], gradient=[False], sampler=sampler, **own)
    with torch.no_grad():
        mixed.updates = 1
        batch = mixed._sample(EQUAL)
        std = float(mixed.rewards.score(batch.motions, batch.prompts).total.std())
    # grpo: a mean over 2 steps of log-ratios over the root of 16 * 263 values, advantages over their spread.
    factor = 2 * (16 * 263) ** 0.5 * std
    found, wanted = slope(mixed, prompts=EQUAL), factor * slope(alone, prompts=EQUAL)
    assert float((found - wanted).norm() / wanted.norm()) < 1e-5


@pytest.mark.parametrize("antithetic", [False, True])
def test_the_sum_has_the_mean_of_the_exact_gradient(antithetic: bool) -> None:
    """r1 by its gradient, r2 by its values: in the mean the gradient of E[r1 + r2].

    Every step but the last adds noise. The last one, at t = 0, depends on the parameters by 4e-4 of the others.
    """
    rollout = MixedRollout(group_size=8, antithetic=antithetic, shared_noise=antithetic)
    prompts = [Prompt(("rise", "fall"), (3, 3), str(number)) for number in range(16)]
    # What the rewards read are features 2 and 3 of both texts; all others are noise.
    kept, batches = torch.tensor([2, 3, 263 + 2, 263 + 3]), 60

    def draws(weight: float, *, closed: bool, count: int) -> Tensor:
        terms = [(Height(), 0.5), (Near(closed=closed), weight)]
        grpo = make(rewards=terms, gradient=[True, not closed], rollout=rollout)
        return torch.stack([slope(grpo, number, prompts)[kept] for number in range(1, count + 1)]).double()

    truth, found = draws(2.0, closed=False, count=batches), draws(2.0, closed=True, count=batches)
    error = (found - truth).std(0) / batches**0.5
    off = found.mean(0) - truth.mean(0)
    assert bool((off.abs() < 3 * error).all()), (off, error)
    # Without the black box, or with another factor, it would be far off.
    share = (truth.mean(0) - draws(0.0, closed=False, count=5).mean(0)).abs()
    assert bool((share[[0, 2]] > 10 * error[[0, 2]]).all()), (share, error)


def test_the_weight_of_a_black_box_is_that_of_its_gradient() -> None:
    once = make(make_policy(), [(Height(), 1.0), (Near(), 1.0)])
    twice = make(make_policy(), [(Height(), 1.0), (Near(), 2.0)])
    none = make(make_policy(), [(Height(), 1.0), (Near(), 0.0)])
    base = slope(none)
    torch.testing.assert_close(slope(twice) - base, 2 * (slope(once) - base), rtol=1e-3, atol=1e-6)


def test_a_black_box_sees_no_graph_and_the_hold_acts_once() -> None:
    grpo = make(make_policy(), objective=MixedObjective())
    metrics = grpo.step(PROMPTS)  # Near() asks for numbers, which a tensor with a graph refuses
    parts = ("loss/policy", "loss/reward", "loss/physics", "loss/anchor", "loss/hold", "loss/kl")
    assert metrics["loss/total"] == pytest.approx(sum(metrics[name] for name in parts), abs=1e-5)
    assert metrics["audit/first_ratio_per_dim"] <= 1e-6
    assert metrics["loss/reward"] == pytest.approx(-metrics["reward/height/mean"], abs=1e-6)


def test_one_black_box_that_is_not_a_number_leaves_the_other_rewards_alone() -> None:
    spoilt = make(make_policy(), [(Height(), 1.0), (Near(spoilt=range(32)), 1.0)])
    alone = make(make_policy(), [(Height(), 1.0)], gradient=None)
    torch.testing.assert_close(slope(spoilt), slope(alone), rtol=1e-5, atol=1e-8)
    boxes = [(Height(), 1.0), (Near(spoilt=range(32)), 1.0), (Near(), 1.0)]
    three = make(make_policy(), boxes, gradient=[True, False, False])
    torch.testing.assert_close(slope(three), slope(make(make_policy())), rtol=1e-5, atol=1e-8)
    # One motion: it keeps its differentiable reward and has no say in the policy gradient.
    few = make(make_policy(), [(Height(), 1.0), (Near(spoilt=[3]), 1.0)])
    assert few.step(PROMPTS)["reward/nan"] == 1.0
    assert bool(slope(few).isfinite().all())


def risen(grpo: GRPO, steps: int = 15) -> tuple[float, float]:
    """Change of each reward over some steps, by the same noise."""

    @torch.no_grad()
    def rewards() -> Tensor:
        updates, grpo.updates = grpo.updates, 1000
        batch = grpo._sample(PROMPTS * 4)
        grpo.updates = updates
        return torch.stack(
            [reward.score(batch.motions, batch.prompts).total.mean() for reward, _ in grpo.rewards.terms]
        )

    before = rewards()
    for _ in range(steps):
        grpo.step(PROMPTS)
    first, second = (rewards() - before).tolist()
    return first, second


def test_both_rewards_rise_and_those_of_the_control_do_not() -> None:
    real = [risen(make(seed=seed)) for seed in range(2)]
    control = [risen(make(seed=seed, shuffle=True)) for seed in range(2)]
    assert min(min(pair) for pair in real) > 0.05, real
    for which in (0, 1):
        gained, drawn = (sum(pair[which] for pair in pairs) for pairs in (real, control))
        assert abs(drawn) < 0.3 * gained, (real, control)


def test_two_processes_do_what_one_does() -> None:
    two_do_as_one(lambda **world: make(make_policy(), **world), 2, compared=lambda name: False)


def test_a_resumed_run_ends_in_the_same_bits() -> None:
    resumes(lambda: make(make_policy(), objective=MixedObjective(), ema=EmaSettings(decay=0.9), updates=6))


def test_a_reward_that_only_says_that_it_has_a_gradient_is_refused() -> None:
    class Says(Near):
        def score(self, motions: MotionBatch, prompts: Sequence[Prompt]) -> RewardScores:
            return RewardScores(-motions.features[..., 3].detach().square().mean(1))

    with pytest.raises(MotionkitError, match="near has no gradient") as error:
        make(rewards=[(Says(), 1.0), (Near(), 1.0)]).step(PROMPTS)
    assert error.value.code == 1
    assert error.value.why.startswith("mixed follows")


def test_a_sliding_window_takes_both_halves_along() -> None:
    window = GrpoSampler(spacing="even", train_timesteps=4, window="sliding", window_size=1, window_every=1)
    grpo = make(sampler=window)
    visited = grpo.algorithm.plan.timesteps.tolist()
    for number in (0, 1):
        grpo.updates = number
        trajectory = grpo._sample(PROMPTS).rollout.trajectory
        assert trajectory is not None
        assert trajectory.timesteps.tolist() == [visited[number]]


@pytest.mark.parametrize(("gradient", "name"), [([True, True], "reward-gradient"), ([False, False], "awm or grpo")])
def test_a_mixture_of_one_kind_names_the_cheaper_way(
    gradient: list[bool], name: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        make(rewards=[(Height(), 1.0), (Near(closed=not gradient[1]), 1.0)], gradient=gradient).step(PROMPTS)
    assert f"--algorithm {name} does the same" in caplog.text
