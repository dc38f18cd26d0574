"""GRPO on toy policies: it learns, its controls do not, and nothing but the reward moves the weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import pytest
import torch
from torch import Tensor

from motionkit.contracts.reward import RewardScores
from motionkit.errors import MotionkitError
from motionkit.motion import MotionBatch, Normalizer
from motionkit.rl import NoiseSource, roughness
from motionkit.text import Prompt
from motionkit.text_to_motion.generating import Samples, sample
from motionkit.text_to_motion.grpo.algorithms.options import GrpoObjective, GrpoRollout, GrpoSampler
from motionkit.text_to_motion.grpo.settings import EmaSettings, GrpoOptimSettings
from motionkit.text_to_motion.grpo.step import GRPO
from motionkit.text_to_motion.rewards.mix import RewardMix
from motionkit.text_to_motion.settings import LoraSettings

from .toy import PROMPTS, Height, TablePolicy, engine, hand_over, learns, make_policy, resumes, rise, same, weights


class Changed(Height):
    """The height reward after a change."""

    def __init__(self, change: Callable[[Tensor], Tensor]) -> None:
        self.change = change

    def score(self, motions: MotionBatch, prompts: Sequence[Prompt]) -> RewardScores:
        scores = super().score(motions, prompts)
        assert scores.segments is not None
        return RewardScores(self.change(scores.total), segments=self.change(scores.segments))


def make(policy: object = None, reward: object = None, **groups: object) -> GRPO:
    options: dict[str, object] = {
        "rollout": GrpoRollout(prompts=4, group_size=8, antithetic=False, shared_noise=False),
        "sampler": GrpoSampler(spacing="even", window_size=4),
        "optim": GrpoOptimSettings(learning_rate=2e-2),
        **groups,
    }
    return engine(policy, reward, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("credit", ["sample", "segment"])
def test_real_advantages_learn_and_shuffled_ones_do_not(credit: str) -> None:
    learns(partial(make, objective=GrpoObjective(credit=credit)))  # type: ignore[arg-type]


def test_a_reversed_reward_is_reversed() -> None:
    grpo = make(reward=Changed(torch.neg))
    assert rise(grpo) > 0.12  # what is maximised is minus the height
    grpo.rewards.terms = ((Height(), 1.0),)
    assert grpo.step(PROMPTS)["reward/mean"] < -0.1


@pytest.mark.parametrize("advantage", ["group-std", "global-std", "leave-one-out"])
def test_a_constant_reward_leaves_the_weights_alone_to_the_bit(advantage: str) -> None:
    objective = GrpoObjective(advantage=advantage)  # type: ignore[arg-type]
    grpo = make(reward=Changed(torch.ones_like), objective=objective)
    before = weights(grpo)
    metrics = [grpo.step(PROMPTS) for _ in range(3)][-1]
    assert same(before, weights(grpo))
    assert metrics["group/zero_variance"] == 1.0
    assert metrics["grad/norm"] == 0.0


def test_the_micro_batch_does_not_change_the_gradient() -> None:
    found = []
    for size in (1, 3, 4 * 8 * 4):
        policy = make_policy()
        grpo = make(policy, rollout=GrpoRollout(prompts=4, group_size=8, micro_batch=size))
        grpo.learner.optimizer.step = lambda *_: None  # type: ignore[method-assign,assignment]
        loss = grpo.step(PROMPTS)["loss/total"]
        found.append((loss, torch.cat([parameter.grad.flatten() for parameter in policy.network.parameters()])))  # type: ignore[union-attr]
    (loss, gradient), *others = found
    for other_loss, other in others:
        assert other_loss == pytest.approx(loss, abs=1e-6)
        assert (other - gradient).norm() / gradient.norm() < 1e-5


def test_the_same_seed_gives_the_same_bits_and_another_seed_does_not() -> None:
    runs = []
    for seed in (3, 3, 4):
        grpo = make(make_policy(), seed=seed)
        grpo.step(PROMPTS)
        runs.append(weights(grpo))
    assert same(runs[0], runs[1])
    assert not same(runs[0], runs[2])


@pytest.mark.parametrize("kind", ["full", "lora", "ema", "epochs"])
def test_a_resumed_run_ends_in_the_same_bits(kind: str) -> None:
    groups: dict[str, dict[str, object]] = {
        "full": {},
        "lora": {"lora": LoraSettings(enabled=True, r=2, alpha=4)},
        "ema": {"ema": EmaSettings(decay=0.9)},
        "epochs": {"objective": GrpoObjective(inner_epochs=2, kl_coef=0.1)},
    }
    resumes(lambda: make(make_policy(), **groups[kind]))


def test_the_first_update_has_ratio_one_and_says_so() -> None:
    metrics = make(make_policy()).step(PROMPTS)
    assert metrics["audit/first_ratio_per_dim"] <= 1e-6
    assert metrics["ratio/mean"] == pytest.approx(1.0, abs=1e-6)
    assert "audit/first_ratio_per_dim" not in make().step(PROMPTS) or metrics["ratio/clip_fraction"] == 0.0


def test_a_policy_that_draws_dropout_is_refused() -> None:
    policy = TablePolicy(dropout=0.3)
    grpo = make(policy)
    policy.network.train()
    with pytest.raises(MotionkitError, match="training mode"):
        grpo.step(PROMPTS)


def test_a_rollout_that_differs_from_training_stops_the_run() -> None:
    grpo = make(make_policy())
    honest, calls = grpo.policy.predict, iter(range(1000))

    def drifting(*args: object, **kwargs: object) -> Tensor:
        return honest(*args, **kwargs) + 0.02 * (next(calls) % 2)  # type: ignore[arg-type]

    grpo.policy.predict = drifting  # type: ignore[method-assign,assignment]
    with pytest.raises(MotionkitError, match="log-ratio") as caught:
        grpo.step(PROMPTS)
    assert caught.value.code == 1


def test_inner_epochs_clip_and_stop() -> None:
    several = make(objective=GrpoObjective(inner_epochs=4, clip_range=0.01), optim=GrpoOptimSettings(learning_rate=0.1))
    metrics = several.step(PROMPTS)
    assert metrics["ratio/clip_fraction"] > 0.2
    stopping = make(objective=GrpoObjective(inner_epochs=4, kl_stop=1e-9), optim=GrpoOptimSettings(learning_rate=0.1))
    moved = make(optim=GrpoOptimSettings(learning_rate=0.1))
    stopping.step(PROMPTS)
    moved.step(PROMPTS)
    torch.testing.assert_close(weights(stopping)["0.weight"], weights(moved)["0.weight"], rtol=1e-3, atol=1e-4)


def test_one_sample_that_is_not_a_number_touches_no_other() -> None:
    class Spoilt(Height):
        def score(self, motions: MotionBatch, prompts: Sequence[Prompt]) -> RewardScores:
            scores = super().score(motions, prompts)
            assert scores.segments is not None
            total, segments = scores.total.clone(), scores.segments.clone()
            total[5], segments[5] = torch.nan, torch.nan
            return RewardScores(total, segments=segments)

    grpo = make(reward=Spoilt())
    metrics = grpo.step(PROMPTS)
    assert metrics["reward/nan"] == 1.0
    assert all(bool(value.isfinite().all()) for value in weights(grpo).values())
    assert metrics["grad/norm"] > 0


class Silent(Height):
    """Gives no sample a finite score from a call on."""

    name = "silent"

    def __init__(self, after: int = 0) -> None:
        self.left = after

    def score(self, motions: MotionBatch, prompts: Sequence[Prompt]) -> RewardScores:
        self.left -= 1
        scores = super().score(motions, prompts)
        return scores if self.left >= 0 else RewardScores(torch.full_like(scores.total, torch.nan))


@pytest.mark.parametrize("company", [[], [(Height(), 1.0)]])
def test_a_reward_without_a_finite_score_in_the_first_step_stops_the_run(company: list[tuple[Height, float]]) -> None:
    grpo = make(reward=[(Silent(), 1.0), *company])
    before = weights(grpo)
    with pytest.raises(MotionkitError, match="silent") as error:
        grpo.step(PROMPTS)
    assert error.value.code == 1
    assert same(before, weights(grpo))


def test_a_reward_that_falls_silent_is_left_out_of_the_step() -> None:
    both, alone = make(reward=[(Silent(after=1), 1.0), (Height(), 1.0)]), make(reward=[(Height(), 2.0)])
    first = [grpo.step(PROMPTS) for grpo in (both, alone)]
    assert first[0]["reward/left_out"] == 0.0
    alone.rewards.terms = ((Height(), 1.0),)
    metrics = both.step(PROMPTS)
    assert metrics["reward/left_out"] == 1.0
    assert metrics["reward/nan"] == 0.0
    assert metrics["reward/mean"] == alone.step(PROMPTS)["reward/mean"]
    assert same(weights(both), weights(alone))


def test_no_reward_left_leaves_the_weights_alone() -> None:
    grpo = make(reward=Silent(after=1))
    grpo.step(PROMPTS)
    before = weights(grpo)
    metrics = grpo.step(PROMPTS)
    assert metrics["reward/nan"] == 32.0
    assert same(before, weights(grpo))


def test_a_gradient_that_is_not_finite_is_left_out_and_the_third_in_a_row_stops_the_run() -> None:
    policy = TablePolicy()
    spoilt, honest = {1, 3, 4}, policy.predict

    def predict(*args: object, **kwargs: object) -> Tensor:
        out = honest(*args, **kwargs)  # type: ignore[arg-type]
        return out * torch.inf if torch.is_grad_enabled() and grpo.updates in spoilt else out

    policy.predict = predict  # type: ignore[method-assign,assignment]
    grpo = make(policy)
    moved = []
    for _ in range(5):
        before = weights(grpo)
        metrics = grpo.step(PROMPTS)
        moved.append((not same(before, weights(grpo)), metrics["grad/left_out"]))
    assert moved == [(True, 0.0), (False, 1.0), (True, 0.0), (False, 1.0), (False, 1.0)]
    last = grpo
    # A run that goes on from here has had two in a row.
    policy = TablePolicy()
    grpo = make(policy)
    policy.predict = lambda *args, **kwargs: TablePolicy.predict(policy, *args, **kwargs) * torch.inf  # type: ignore[method-assign,assignment]
    hand_over(last, grpo)
    before = weights(grpo)
    with pytest.raises(MotionkitError) as error:
        grpo.step(PROMPTS)
    assert error.value.code == 1
    assert "--learning-rate below 0.02" in error.value.fix
    assert same(before, weights(grpo))


def test_a_pass_that_was_left_out_is_counted_whatever_the_next_one_does() -> None:
    policy = TablePolicy()
    passes, honest = [0], policy.predict

    def predict(*args: object, **kwargs: object) -> Tensor:
        out = honest(*args, **kwargs)  # type: ignore[arg-type]
        return out * torch.inf if torch.is_grad_enabled() and passes[0] == 3 else out

    policy.predict = predict  # type: ignore[method-assign,assignment]
    grpo = make(policy, objective=GrpoObjective(inner_epochs=2))
    forget = grpo.learner.zero_grad

    def counted() -> None:
        passes[0] += 1
        forget()

    grpo.learner.zero_grad = counted  # type: ignore[method-assign]
    assert [grpo.step(PROMPTS)["grad/left_out"] for _ in range(3)] == [0.0, 1.0, 0.0]


def test_a_learning_rate_beyond_reason_ends_in_words() -> None:
    grpo = make(make_policy(), optim=GrpoOptimSettings(learning_rate=1e30))

    def go() -> None:
        for _ in range(8):
            grpo.step(PROMPTS)

    with pytest.raises(MotionkitError) as error:
        go()
    assert (error.value.code, "--learning-rate below 1e+30" in error.value.fix) == (1, True)
    assert all(bool(value.isfinite().all()) for value in weights(grpo).values())


def test_kl_is_zero_at_the_start_and_holds_the_policy_back() -> None:
    for lora in (LoraSettings(), LoraSettings(enabled=True, r=2, alpha=4)):
        first = make(make_policy(), lora=lora).step(PROMPTS)
        assert first["kl/nats_per_dim"] == pytest.approx(0.0, abs=1e-3)
    free, held = make(), make(objective=GrpoObjective(kl_coef=10.0))
    for _ in range(8):
        loose, tight = free.step(PROMPTS), held.step(PROMPTS)
    assert tight["kl/nats_per_dim"] < 0.5 * loose["kl/nats_per_dim"]


def test_kl_of_zero_initialised_adapters_is_exactly_zero() -> None:
    grpo = make(make_policy(), lora=LoraSettings(enabled=True, r=2, alpha=4), objective=GrpoObjective(kl_coef=1.0))
    assert grpo.step(PROMPTS)["kl/nats_per_dim"] == 0.0


def test_a_reference_of_another_kind_is_refused() -> None:
    adapters = LoraSettings(enabled=True, r=2, alpha=4)
    other = make_policy()
    other.normalizer = Normalizer(other.normalizer.mean + 1, other.normalizer.std)
    for reference, lora, said in (
        (make_policy(latent_dim=32), LoraSettings(), "another size"),
        (make_policy(latent_dim=32), adapters, "another size"),
        (make_policy(diffusion_steps=20), LoraSettings(), "diffusion steps"),
        (other, LoraSettings(), "other feature statistics"),
    ):
        with pytest.raises(MotionkitError, match=said):
            make(make_policy(), reference=reference, lora=lora)
    make(make_policy(), reference=make_policy(seed=5), lora=adapters).step(PROMPTS)


def test_a_window_without_noise_is_refused() -> None:
    for sampler in (GrpoSampler(window_size=0), GrpoSampler(eta=0.0)):
        with pytest.raises(MotionkitError, match="nothing to train"):
            make(sampler=sampler)


def test_nothing_sampled_carries_a_graph() -> None:
    grpo = make(make_policy())
    kept: list[Samples] = []
    update = grpo.algorithm.update
    grpo.algorithm.update = lambda batch, *rest: (kept.append(batch), update(batch, *rest))[1]  # type: ignore[method-assign]
    grpo.step(PROMPTS)
    (batch,) = kept
    visited = batch.rollout.trajectory
    assert visited is not None
    for tensor in (visited.x_t, visited.eps, visited.x0_old, batch.motions.features):
        assert not tensor.requires_grad


def test_the_average_is_measured_and_the_live_weights_come_back_to_the_bit() -> None:
    grpo = make(ema=EmaSettings(decay=0.9))
    for _ in range(3):
        grpo.step(PROMPTS)
    live = weights(grpo)
    with grpo.averaged():
        assert not same(live, weights(grpo))
    assert same(live, weights(grpo))


def test_the_anchor_is_nothing_at_the_start_and_keeps_the_policy_from_trembling() -> None:
    first = make(make_policy(), objective=GrpoObjective(anchor=20.0)).step(PROMPTS)
    assert first["loss/anchor"] == pytest.approx(0.0, abs=1e-9)
    found = []
    for anchor in (0.0, 1000.0):
        grpo = make(make_policy(), objective=GrpoObjective(anchor=anchor), optim=GrpoOptimSettings(learning_rate=1e-2))
        start = make(make_policy()).policy
        for _ in range(6):
            grpo.step(PROMPTS)
        with torch.no_grad():
            rule = grpo.algorithm
            batch = sample(
                grpo.policy,
                PROMPTS,
                rule.plan,
                grpo.noise,
                samples=2,
                step=99,
                walk=lambda predict, start, noise, rule=rule: rule.rollout(predict, start, noise, 0),
            )
        visited = batch.rollout.trajectory
        assert visited is not None
        asked = (visited.x_t[0], visited.timesteps[0].expand(8), batch.condition, batch.lengths)
        with torch.no_grad():
            moved = grpo.policy.predict(*asked) - start.predict(*asked)
        found.append(float(roughness(moved, batch.mask).mean()))
    assert found[1] < 0.5 * found[0]


def test_the_start_is_put_back_to_the_bit_where_adapters_are_trained() -> None:
    @torch.no_grad()
    def motions(grpo: GRPO) -> Tensor:
        return sample(grpo.policy, PROMPTS, grpo.algorithm.plan, NoiseSource(7)).rollout.x0

    grpo = make(
        make_policy(), lora=LoraSettings(enabled=True, r=2, alpha=4), optim=GrpoOptimSettings(learning_rate=0.1)
    )
    before = motions(grpo)
    for _ in range(2):
        grpo.step(PROMPTS)
    after = motions(grpo)
    assert grpo.started is not None
    with grpo.started():
        assert torch.equal(motions(grpo), before)
    assert torch.equal(motions(grpo), after)
    assert not torch.equal(after, before)
    assert make(make_policy(), lora=LoraSettings()).started is None  # all weights are trained: a copy would be needed


class Noise:
    """A reward a thousand times as large as the other, of the sample's number: nothing can be learnt from it."""

    name = "noise"

    def score(self, motions: MotionBatch, prompts: Sequence[Prompt]) -> RewardScores:
        """Score."""
        return RewardScores(1000.0 * torch.sin(1e4 * motions.features[:, 0, 5]))


def test_a_small_reward_is_learnt_beside_a_large_one_when_both_are_normalised() -> None:
    """The reward of `Height` alone, before and after; the plain sum drowns it."""
    gains = {}
    for normalize in ("off", "group"):
        mix = RewardMix([(Height(), 1.0), (Noise(), 1.0)], normalize=normalize)  # type: ignore[arg-type]
        grpo = make(reward=mix)
        curve = [grpo.step(PROMPTS) for _ in range(20)]
        gains[normalize] = sum(row["reward/height/mean"] for row in curve[-3:]) / 3 - curve[0]["reward/height/mean"]
        assert abs(curve[0]["reward/correlation/height/noise"]) <= 1
        assert curve[0]["reward/std"] > 100, "the reward is reported as it is"
    assert gains["group"] > 0.2
    assert gains["off"] < 0.1


@pytest.mark.parametrize("algorithm", ["reward-gradient", "easytune", "mixed"])
def test_algorithms_by_gradient_refuse_normalised_rewards(algorithm: str) -> None:
    with pytest.raises(MotionkitError, match="follows the gradient"):
        GRPO(make_policy(), RewardMix([(Height(), 1.0)], normalize="group"), algorithm=algorithm)
