"""reward-gradient: its gradient is the derivative of the reward, it learns, its control does not."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Literal

import pytest
import torch
from torch import Tensor

from motionkit import load_dataset, load_policy, load_reward
from motionkit.contracts.reward import RewardScores
from motionkit.errors import MotionkitError
from motionkit.kernels import physics_sums
from motionkit.metrics import sample_spread
from motionkit.motion import HUMANML, MotionBatch
from motionkit.rl import DDIM, Schedule, StepPlan, graph_rollout, rollout
from motionkit.text import Prompt
from motionkit.text_to_motion.grpo.algorithms.options import (
    CosineOptim,
    GradientObjective,
    GradientOptim,
    GradientRollout,
    GradientSampler,
)
from motionkit.text_to_motion.grpo.algorithms.terms import log_spread
from motionkit.text_to_motion.grpo.settings import GrpoSettings
from motionkit.text_to_motion.grpo.step import GRPO
from motionkit.text_to_motion.settings import LoraSettings

from .test_world import two_do_as_one
from .toy import PROMPTS, Height, TablePolicy, engine, gain, make_policy, mask_of


def make(policy: object = None, reward: object = None, **groups: object) -> GRPO:
    options: dict[str, object] = {
        "algorithm": "reward-gradient",
        "rollout": GradientRollout(samples=1),
        "objective": GradientObjective(jerk=0.0, skate=0.0, anchor=0.0, hold=0.0),
        "optim": CosineOptim(learning_rate=2e-2),
        **groups,
    }
    return engine(policy, reward, **options)  # type: ignore[arg-type]


def joined(values: Sequence[Tensor]) -> Tensor:
    return torch.cat([value.flatten() for value in values])


@pytest.mark.parametrize("chain", ["all", "first", "last"])
def test_it_learns_and_random_signs_do_not(chain: Literal["all", "first", "last"]) -> None:
    objective = GradientObjective(jerk=0.0, skate=0.0, anchor=0.0, hold=0.0, chain=chain, chain_steps=2)
    real = [gain(make(seed=seed, objective=objective)) for seed in range(3)]
    # Ten updates along random signs walk about: their mean is near 0, not each of them.
    control = [gain(make(seed=seed, objective=objective, shuffle=True)) for seed in range(8)]
    assert min(real) > 0.12
    assert abs(sum(control)) / 8 < 0.3 * sum(real) / 3


def test_the_gradient_is_the_derivative_of_the_tmr_reward() -> None:
    """The step's gradient against central differences of the reward, in float32, on the starter policy."""
    prompts = load_dataset("starter").prompts("train", k_segments=2)[:3]
    grpo = make(load_policy("starter"), load_reward("tmr-dense"), lora=LoraSettings(enabled=True, r=4))
    trained = [parameter for _, parameter in grpo.learner.trained]
    draw = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in trained:  # adapters start at zero, where half of the gradient vanishes
            parameter.add_(0.02 * torch.randn(parameter.shape, generator=draw))

    def reward() -> Tensor:
        batch = grpo._sample(prompts)
        return grpo.rewards.score(batch.motions, batch.prompts).total.double().mean()

    grpo.learner.zero_grad()
    reward().backward()
    slope = joined([p.grad if p.grad is not None else torch.zeros_like(p) for p in trained])
    start = joined([p.detach().clone() for p in trained])

    def put(values: Tensor) -> None:
        with torch.no_grad():
            for parameter, part in zip(trained, values.split([p.numel() for p in trained]), strict=True):
                parameter.copy_(part.view_as(parameter))

    for _ in range(3):
        random = torch.randn(len(slope), generator=draw)
        direction = slope / slope.norm() + random / random.norm()
        ends = []
        for side in (3e-4, -3e-4):
            put(start + side * direction)
            with torch.no_grad():
                ends.append(float(reward()))
        put(start)
        assert float(slope @ direction) == pytest.approx((ends[0] - ends[1]) / 6e-4, rel=2e-3)


def test_saving_memory_changes_no_gradient() -> None:
    found = []
    for save_memory in ("on", "off"):
        objective = GradientObjective(save_memory=save_memory)  # type: ignore[arg-type]
        grpo = make(make_policy(), objective=objective)
        metrics = [grpo.step(PROMPTS) for _ in range(2)][-1]
        found.append((metrics["grad/norm"], joined([p.detach() for _, p in grpo.learner.trained])))
    assert found[0][0] == pytest.approx(found[1][0], rel=1e-5)
    # One goes from frames to frames, the other stays in tokens: they round differently, which Adam enlarges.
    assert float((found[0][1] - found[1][1]).norm() / found[1][1].norm()) < 1e-3


def test_the_score_function_has_the_same_mean() -> None:
    """On a step whose noise is reparametrised both estimators of dE[R]/dtheta are exact in the mean."""
    plan = StepPlan.build(Schedule.cosine(50), DDIM(1.0), steps=[40, 10])
    theta = torch.tensor(0.4, requires_grad=True)
    count = 200_000
    draw = torch.Generator().manual_seed(0)
    start = torch.randn(count, 1, 1, generator=draw)
    eps = torch.randn(count, 1, 1, generator=draw)

    def predict(x: Tensor, timestep: Tensor) -> Tensor:
        return theta * x if int(timestep[0]) == 40 else x  # the last step takes the state as it is

    class Nothing(torch.nn.Module):
        pass

    through = graph_rollout(predict, plan, start, lambda t: eps, network=Nothing())
    each = -(through.x0 - 1).square().flatten()
    (pathwise,) = torch.autograd.grad(each.mean(), theta)
    with torch.no_grad():
        done = rollout(predict, plan, start, lambda t: eps)
        assert done.trajectory is not None
        reward = -(done.x0 - 1).square().flatten()
    rows = done.trajectory.pairs(torch.arange(count))
    # d log p / d theta = s eps d x0_hat / d theta, with x0_hat = theta x.
    score = rows.sensitivity * (rows.eps * rows.x_t).flatten()
    samples = (reward - reward.mean()) * score
    error = float(samples.std()) / count**0.5
    assert abs(float(samples.mean()) - float(pathwise)) < 4 * error
    assert abs(float(pathwise)) > 20 * error


class Flat(Height):
    """A reward whose gradient is gone."""

    def __init__(self, how: str) -> None:
        self.how = how

    def score(self, motions: MotionBatch, prompts: Sequence[Prompt]) -> RewardScores:
        total = super().score(motions, prompts).total
        if self.how == "detached":
            return RewardScores(total.detach())
        if self.how == "zero":
            return RewardScores(0.0 * total + 0.5)
        return RewardScores(total - total.detach() + (total * 0).abs().sqrt())  # d sqrt(0) is not finite


class Closed(TablePolicy):
    """A policy that keeps no graph."""

    def predict(self, *args: object, **options: object) -> Tensor:
        with torch.no_grad():
            return super().predict(*args, **options)  # type: ignore[arg-type]


def test_a_chain_longer_than_the_rollout_is_refused() -> None:
    with pytest.raises(MotionkitError, match=r"objective\.chain_steps"):
        make(make_policy(), objective=GradientObjective(chain="last", chain_steps=9))


def test_physics_terms_are_off_where_physics_is_a_reward_and_in_the_control() -> None:
    def weights(*, shuffle: bool = False, physics: bool = False, **options: float) -> tuple[float, float]:
        rewards = [(Height(), 1.0)]
        if physics:
            named = Height()
            named.name = "physics"
            rewards.append((named, 0.1))
        rule = make(make_policy(), rewards, shuffle=shuffle, objective=GradientObjective(**options)).algorithm
        return rule.terms.jerk, rule.terms.skate  # type: ignore[attr-defined]

    assert weights() == (0.2, 0.02)
    assert weights(physics=True) == (0.0, 0.0)
    assert weights(physics=True, jerk=0.5) == (0.5, 0.0)
    assert weights(shuffle=True, jerk=0.5) == (0.0, 0.0)
    others = [engine(make_policy(), algorithm=name).algorithm for name in ("easytune", "mixed")]
    assert [rule.terms.jerk for rule in others] == [0.12, 0.12]  # type: ignore[attr-defined]


def test_the_jerk_term_is_the_log_of_jerk_per_speed_whatever_the_size() -> None:
    terms = make(make_policy(), objective=GradientObjective(jerk=1.0, skate=0.0)).algorithm.terms  # type: ignore[attr-defined]
    draw = torch.Generator().manual_seed(0)
    joints = torch.randn(1, 12, 22, 3, generator=draw).cumsum(1)

    def term(joints: Tensor, count: int) -> Tensor:
        lengths = torch.full((count,), 12)
        physics = physics_sums(joints, lengths, fps=20.0, feet=HUMANML.feet)
        return terms.physics(
            SimpleNamespace(joints=joints, lengths=lengths, fps=20.0, skeleton=HUMANML, physics=physics)
        )

    third = joints[0, 3:] - 3 * joints[0, 2:-1] + 3 * joints[0, 1:-2] - joints[0, :-3]
    limbs = joints[0] - joints[0, :, :1]
    first = limbs[1:] - limbs[:-1]
    expected = (third.norm(dim=-1).mean() * 20**3).log() - (first.norm(dim=-1).mean() * 20).log()
    assert float(term(joints, 1)) == pytest.approx(float(expected), rel=1e-3)
    assert float(term(5 * joints, 1)) == pytest.approx(float(expected), rel=1e-3)
    # A motion that is not finite neither counts nor spoils the gradient of the others.
    both = torch.cat([joints, torch.full_like(joints, torch.nan)]).requires_grad_()
    found = term(both, 2)
    (gradient,) = torch.autograd.grad(found, both)
    assert float(found.detach()) == pytest.approx(float(expected), rel=1e-3)
    assert gradient[0].abs().sum() > 0
    assert not gradient[1].any()


def test_the_hold_keeps_predictions_near_the_reference() -> None:
    def moved(hold: float) -> float:
        grpo = make(make_policy(), objective=GradientObjective(jerk=0.0, skate=0.0, anchor=0.0, hold=hold))
        with torch.no_grad():
            before = grpo._sample(PROMPTS).rollout.x0
            for _ in range(8):
                with torch.enable_grad():
                    grpo.step(PROMPTS)
            grpo.updates = 0
            return float((grpo._sample(PROMPTS).rollout.x0 - before).square().mean())

    assert moved(1000.0) < 0.3 * moved(0.0)


def test_the_reference_of_the_hold_follows_in_steps() -> None:
    for lora in (LoraSettings(), LoraSettings(enabled=True, r=2, alpha=4)):
        objective = GradientObjective(jerk=0.0, skate=0.0, sync_every=2)
        grpo = make(make_policy(), objective=objective, lora=lora)
        found = [grpo.step(PROMPTS)["loss/anchor"] for _ in range(4)]
        assert [value < 1e-9 for value in found] == [True, False, True, False]


def test_the_learning_rate_falls_along_a_cosine() -> None:
    grpo = make(make_policy(), updates=10)
    rates = [grpo.step(PROMPTS)["optim/learning_rate"] for _ in range(10)]
    assert rates == sorted(rates, reverse=True)
    assert rates[-1] == pytest.approx(0.05 * 2e-2, rel=1e-6)


def test_the_spread_of_two_motions_has_its_analytic_value_and_gradient() -> None:
    draw = torch.Generator().manual_seed(0)
    motions = torch.randn(4, 6, 5, generator=draw).requires_grad_()
    mask = mask_of([Prompt(("rise",), (length,), "x") for length in (6, 6, 3, 3)], 6)
    batch = SimpleNamespace(rollout=SimpleNamespace(x0=motions), mask=mask)
    spread = log_spread(batch, 2)  # type: ignore[arg-type]
    (found,) = torch.autograd.grad(spread.sum(), motions)
    for prompt, length in enumerate((6, 3)):
        first, second = motions[2 * prompt, :length].detach(), motions[2 * prompt + 1, :length].detach()
        square = (first - second).square().sum()
        # The variance of two values is half the square of their difference.
        assert float(spread[prompt].detach()) == pytest.approx(
            float((square / (2 * length * 5)).sqrt().log()), rel=1e-5
        )
        torch.testing.assert_close(found[2 * prompt, :length], (first - second) / square, rtol=1e-4, atol=1e-6)
        assert torch.equal(found[2 * prompt + 1], -found[2 * prompt])
        assert not found[2 * prompt, length:].any()


def test_diversity_keeps_the_motions_of_a_prompt_apart() -> None:
    def spread(diversity: float) -> float:
        objective = GradientObjective(jerk=0.0, skate=0.0, anchor=0.0, hold=0.0, diversity=diversity)
        grpo = make(make_policy(), rollout=GradientRollout(samples=2), objective=objective)
        for _ in range(6):
            metrics = grpo.step(PROMPTS)
        assert ("loss/diversity" in metrics) == (diversity > 0)
        grpo.updates = 0
        done = grpo._sample(PROMPTS)
        return float(sample_spread(done.rollout.x0.detach().unflatten(0, (4, 2)), done.mask[::2]).mean())

    assert spread(1.0) > 1.2 * spread(0.0)


def test_diversity_needs_two_motions_and_is_off_in_the_control() -> None:
    def made(samples: int, *, shuffle: bool = False) -> GRPO:
        objective = GradientObjective(diversity=0.1)
        return make(make_policy(), shuffle=shuffle, rollout=GradientRollout(samples=samples), objective=objective)

    assert made(2).algorithm.diversity == 0.1  # type: ignore[attr-defined]
    assert made(2, shuffle=True).algorithm.diversity == 0.0  # type: ignore[attr-defined]
    with pytest.raises(MotionkitError, match="two motions"):
        made(1)


def test_every_update_has_its_own_timesteps() -> None:
    class Noting(TablePolicy):
        def predict(self, x: Tensor, timestep: Tensor, *args: object, **options: object) -> Tensor:
            seen.append(int(timestep[0]))
            return super().predict(x, timestep, *args, **options)  # type: ignore[arg-type]

    def visited(first: int, *, jitter: bool = True) -> list[list[int]]:
        grpo = make(Noting(), sampler=GradientSampler(jitter=jitter))
        found = []
        for number in range(first, 4):
            grpo.updates = number
            seen.clear()
            grpo._sample(PROMPTS)
            found.append(list(seen))
        return found

    seen: list[int] = []
    plain = visited(0, jitter=False)
    assert plain == [[49, 47, 41, 31, 18]] * 4
    drawn = visited(0)
    assert len({tuple(steps) for steps in drawn}) == 4
    assert drawn[2:] == visited(2)  # a run that resumes there draws the same


def test_the_hold_takes_every_second_sample_in_turn() -> None:
    class Noting(TablePolicy):
        def predict(self, x: Tensor, timestep: Tensor, condition: object, lengths: Tensor, **options: float) -> Tensor:
            seen.append(lengths.tolist())
            return super().predict(x, timestep, condition, lengths, **options)  # type: ignore[arg-type]

    seen: list[list[int]] = []
    grpo = make(Noting(), objective=GradientObjective(jerk=0.0, skate=0.0))
    lengths = [prompt.length for prompt in PROMPTS]
    for number in range(2):
        seen.clear()
        grpo.step(PROMPTS)
        assert [len(asked) for asked in seen] == [4] * 5 + [2] * (len(seen) - 5)
        assert seen[5] == lengths[number::2]
    with torch.enable_grad():
        rough, far = grpo.algorithm.terms.hold(grpo._sample(PROMPTS[:1]), 1)  # type: ignore[attr-defined]
    assert rough.isfinite()  # one sample is every second one
    assert far.isfinite()


def test_the_peak_learning_rate_is_its_own() -> None:
    rate = {lora: make(make_policy(), lora=LoraSettings(enabled=lora), optim=None).learner.rate(9) for lora in (1, 0)}
    assert rate == {1: 5e-3, 0: 1e-4}


def test_two_processes_follow_and_hold_as_one_does() -> None:
    """The timesteps of the chain, and those of the hold with their noise, belong to samples and not to processes."""
    objective = GradientObjective(jerk=0.0, skate=0.0)  # their mean leaves out motions by process
    two_do_as_one(lambda **world: make(make_policy(), objective=objective, **world), 3)


def test_runs_from_before_a_default_go_on_at_their_own_rate() -> None:
    old = {"algorithm": "reward-gradient", "optim": {"learning_rate": 0.0, "warmup_steps": 0}}
    assert GrpoSettings.recorded(old)["optim"]["lora_learning_rate"] == 3e-3
    new = {**old, "optim": {**old["optim"], "lora_learning_rate": 5e-3}}
    assert GrpoSettings.recorded(new)["optim"] == new["optim"]
    assert "lora_learning_rate" not in GrpoSettings.recorded({**old, "algorithm": "awm"})["optim"]
    assert GradientOptim().peak(lora=True) == 5e-3
    assert GradientOptim(lora_learning_rate=3e-3).peak(lora=True) == 3e-3
    assert GradientOptim(learning_rate=1e-3).peak(lora=True) == 1e-3
    assert GradientOptim().peak(lora=False) == 1e-4
