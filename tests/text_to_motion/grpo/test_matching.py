"""awm, nft and dpo: gradients by hand, what must not change them, that they learn and their controls do not."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.text_to_motion.generating import Samples
from motionkit.text_to_motion.grpo.algorithms.credit import assign_credit, frame_weights
from motionkit.text_to_motion.grpo.algorithms.dpo import find_pairs
from motionkit.text_to_motion.grpo.step import GRPO
from motionkit.text_to_motion.rewards.mix import Scored
from motionkit.text_to_motion.settings import LoraSettings

from .matching import OBJECTIVES, Random, frozen, gain, gradient, make, unclipped
from .test_algorithm import Changed
from .toy import PROMPTS, Height, TablePolicy, learns, make_policy, resumes, same, weights

ALL = tuple(OBJECTIVES)
LORA = LoraSettings(enabled=True, r=2, alpha=4)


def spoilt_policy() -> TablePolicy:
    """Return a policy whose predictions are off, so that no error is zero by symmetry."""
    policy = TablePolicy()
    torch.nn.init.normal_(policy.network[0].weight, std=0.3, generator=torch.Generator().manual_seed(1))  # type: ignore[arg-type]
    return policy


def watched(grpo: GRPO) -> list[tuple[Samples, Scored]]:
    """Return a list that the next updates of `grpo` write their batches into."""
    kept: list[tuple[Samples, Scored]] = []
    update = grpo.algorithm.update

    def keep(batch: Samples, scored: Scored, number: int) -> Any:
        kept.append((batch, scored))
        return update(batch, scored, number)

    grpo.algorithm.update = keep  # type: ignore[method-assign]
    return kept


def by_hand(grpo: GRPO, batch: Samples, frames: Tensor, draws: int) -> Tensor:
    """Return the gradient of ``mean w_f |f - x|_f^2 / sg(mean_f |f - x|_f^2)`` in the table of poses, in loops.

    The denoiser is linear: ``f = pose (1 - gain sqrt(abar)) + gain x_t``.
    """
    policy = grpo.policy
    noised = grpo.algorithm.noised(batch, 0)  # type: ignore[attr-defined]
    table = policy.network[0].weight.detach().double()  # type: ignore[index]
    found = torch.zeros_like(table)
    count = len(batch.lengths)
    for draw in range(draws):
        for i in range(count):
            states = noised.at(torch.tensor([i]), torch.tensor([draw]))
            kept = policy.schedule.alphas_cumprod[states.timestep[0]]
            gain = kept.sqrt() * 0.25 / (kept * 0.25 + 1 - kept)
            length = int(batch.lengths[i])
            texts = batch.condition.rows[i, :length]  # type: ignore[attr-defined]
            clean = batch.rollout.x0[i, :length].double()
            off = table[texts] * (1 - gain * kept.sqrt()) + gain * states.x[0, :length].double() - clean
            level = off.square().mean()
            for f in range(length):
                slope = 2 * off[f] * (1 - gain * kept.sqrt()) / 263
                found[texts[f]] += frames[i, f].double() * slope / (length * level * count * draws)
    return found.flatten()


@pytest.mark.parametrize("credit", ["sample", "segment"])
def test_the_gradient_of_awm_is_the_one_by_hand(credit: str) -> None:
    grpo = unclipped(make("awm", spoilt_policy(), options={"credit": credit, "draws": 3}))
    kept = watched(grpo)
    grpo.step(PROMPTS)
    ((batch, scored),) = kept
    found = assign_credit(scored, batch, grpo.algorithm.settings, 0, world=grpo.world)  # type: ignore[attr-defined]
    expected = by_hand(grpo, batch, frame_weights(found.values, found.bounds, batch.mask), 3)
    assert float((gradient(grpo) - expected).norm() / expected.norm()) < 3e-6
    assert float(expected.norm()) > 1e-3


@pytest.mark.parametrize("beta", [0.3, 1.0])
def test_nft_is_awm_with_clipped_advantages_while_the_samples_are_the_policys_own(beta: float) -> None:
    found = []
    for name, options in (("awm", {"advantage_clip": 1.0}), ("nft", {"nft_beta": beta})):
        grpo = unclipped(make(name, make_policy(), options=dict(options)))
        grpo.step(PROMPTS)
        found.append(gradient(grpo))
    assert float((found[0] - found[1]).norm() / found[0].norm()) < 1e-5


def test_nft_away_from_the_sampling_policy_is_the_formula() -> None:
    """Two passes: the second has f_old of before the first."""
    grpo = make("nft", spoilt_policy(), options={"inner_epochs": 2, "draws": 1, "nft_beta": 0.5, "credit": "sample"})
    kept = watched(grpo)
    old = spoilt_policy()
    metrics = grpo.step(PROMPTS)
    ((batch, scored),) = kept
    advantage = assign_credit(scored, batch, grpo.algorithm.settings, 0, world=grpo.world)  # type: ignore[attr-defined]
    # The loss of the second pass, with the weights between the passes, which Adam's first step made.
    again = make("nft", spoilt_policy(), options={"draws": 1, "credit": "sample"})
    again.step(PROMPTS)
    between = again.policy
    assert not same(weights(again), weights(grpo))
    noised = grpo.algorithm.noised(batch, 0)  # type: ignore[attr-defined]
    everyone = torch.arange(len(batch.lengths))
    states = noised.at(everyone, torch.ones_like(everyone))
    asked = (states.x, states.timestep, batch.condition, batch.lengths)
    with torch.no_grad():
        f_old, f = old.predict(*asked), between.predict(*asked)  # type: ignore[arg-type]
    total = 0.0
    for i in range(len(everyone)):
        rows = slice(0, int(batch.lengths[i]))
        x, before, now = batch.rollout.x0[i, rows], f_old[i, rows], f[i, rows]
        r = 0.5 + 0.5 * float(advantage.values[i].clamp(-1, 1))
        better = (0.5 * before + 0.5 * now - x).square().mean()
        worse = (1.5 * before - 0.5 * now - x).square().mean()
        total += float((r * better + (1 - r) * worse) / (0.5 * (now - x).square().mean()))
    assert metrics["loss/policy"] == pytest.approx(total / len(everyone), rel=1e-4)


def test_dpo_starts_at_log_two_with_half_beta_times_the_gradient_of_the_difference() -> None:
    grpo = unclipped(make("dpo", spoilt_policy(), options={"credit": "sample", "draws": 1, "dpo_beta": 7.0}))
    kept = watched(grpo)
    metrics = grpo.step(PROMPTS)
    assert metrics["loss/policy"] == pytest.approx(math.log(2), rel=1e-6)
    assert (metrics["pair/accuracy"], metrics["pair/left_out"]) == (0.0, 0.0)
    ((batch, scored),) = kept
    noised = grpo.algorithm.noised(batch, 0)  # type: ignore[attr-defined]
    difference = torch.zeros(())
    gaps = []
    for group in range(4):
        totals = scored.total[8 * group : 8 * group + 8]
        both = 8 * group + torch.stack([totals.argmax(), totals.argmin()])
        gaps.append(float(totals.max() - totals.min()))
        states = noised.at(both, torch.zeros(2, dtype=torch.int64))
        assert states.timestep[0] == states.timestep[1]
        x0 = grpo.policy.predict(states.x, states.timestep, batch.condition.select(both), batch.lengths[both])
        length = int(batch.lengths[both[0]])
        error = (x0 - batch.rollout.x0[both])[:, :length].square().mean((1, 2))
        difference = difference + (error[0] - error[1]) / error.detach().mean() / 4
    (expected,) = torch.autograd.grad(difference, [p for _, p in grpo.learner.trained])
    assert float((gradient(grpo) - 3.5 * expected.flatten()).norm() / (3.5 * expected).norm()) < 3e-6
    assert metrics["pair/gap"] == pytest.approx(sum(gaps) / 4, rel=1e-5)


@pytest.mark.parametrize("name", ALL)
def test_a_constant_reward_leaves_the_weights_alone_to_the_bit(name: str) -> None:
    grpo = make(name, make_policy(), Changed(torch.ones_like), options={"anchor": 20.0, "hold": 8.0})
    before = weights(grpo)
    metrics = [grpo.step(PROMPTS) for _ in range(2)][-1]
    assert same(before, weights(grpo))
    assert metrics["grad/norm"] == 0.0
    assert metrics["pair/left_out" if name == "dpo" else "group/zero_variance"] == 1.0


@pytest.mark.parametrize("name", ALL)
def test_the_micro_batch_does_not_change_the_gradient(name: str) -> None:
    found = []
    for size in (1, 3, 1000):
        grpo = frozen(make(name, make_policy(), rollout={"micro_batch": size}, options={"anchor": 20.0, "hold": 8.0}))
        loss = grpo.step(PROMPTS)["loss/total"]
        found.append((loss, gradient(grpo)))
    (loss, slope), *others = found
    for other_loss, other in others:
        assert other_loss == pytest.approx(loss, abs=1e-6)
        assert float((other - slope).norm() / slope.norm()) < 1e-5


@pytest.mark.parametrize("name", ALL)
def test_padding_changes_nothing(name: str) -> None:
    found = []
    for spoil in (False, True):
        grpo = frozen(make(name, make_policy(), options={"anchor": 20.0, "hold": 8.0}))
        update = grpo.algorithm.update

        def spoilt(batch: Samples, scored: Scored, number: int, update: Callable[..., Any] = update) -> Any:
            x0 = batch.rollout.x0.masked_fill(~batch.mask[..., None], torch.nan)
            assert bool(x0.isnan().any())
            return update(replace(batch, rollout=replace(batch.rollout, x0=x0)), scored, number)

        if spoil:
            grpo.algorithm.update = spoilt  # type: ignore[method-assign]
        grpo.step(PROMPTS)
        found.append(gradient(grpo))
    assert torch.equal(found[0], found[1])
    assert float(found[0].norm()) > 0


@pytest.mark.parametrize("name", ["awm", "nft", "dpo"])
def test_real_rewards_are_learnt_and_random_ones_are_not(name: str) -> None:
    learns(partial(make, name), gain, apart=0.3)


@pytest.mark.parametrize("name", ["awm", "nft", "dpo"])
def test_rewards_without_information_give_a_gradient_of_mean_zero(name: str) -> None:
    """Along fixed directions, within three standard errors; with a reward that means something it is far from it."""

    def worst(reward: object, count: int) -> float:
        grpo = unclipped(make(name, spoilt_policy(), reward, options={"draws": 1}, rollout={"group_size": 4}))
        found = []
        for _ in range(count):
            grpo.step(PROMPTS)
            found.append(gradient(grpo).clone())
        random = torch.randn(5, 526, generator=torch.Generator().manual_seed(0))
        height = torch.zeros(2, 263)  # the pose that Height asks for: fall down, rise up
        height[0, 3], height[1, 3] = -1.0, 1.0
        along = torch.stack(found) @ torch.cat([random, height.view(1, -1)]).T  # [count, 6]
        return float((along.mean(0) / (along.std(0) / len(found) ** 0.5)).abs().max())

    assert worst(Random(), 40) < 3
    assert worst(Height(), 20) > 6


def test_states_are_noised_samples_at_the_timesteps_of_the_window() -> None:
    grpo = make("awm", spoilt_policy(), options={"draws": 4, "noisiest": 0.2})
    kept = watched(grpo)
    grpo.step(PROMPTS)
    ((batch, _),) = kept
    rule = grpo.algorithm
    assert rule.window == (40, 50)  # type: ignore[attr-defined]
    sample = torch.arange(32).repeat(4)
    draw = torch.arange(4).repeat_interleave(32)
    noise, timesteps = [], []
    for number in range(20):
        noised = rule.noised(batch, number)  # type: ignore[attr-defined]
        states = noised.at(sample, draw)
        alone = noised.at(sample[70:71], draw[70:71])
        torch.testing.assert_close(alone.x, states.x[70:71], rtol=0, atol=0)
        kept_signal = grpo.policy.schedule.alphas_cumprod[states.timestep].float()[:, None, None]
        eps = (states.x - kept_signal.sqrt() * noised.clean[sample]) / (1 - kept_signal).sqrt()
        noise.append(eps)
        timesteps.append(states.timestep.view(4, 32))
    eps, times = torch.stack(noise), torch.stack(timesteps)
    assert abs(float(eps.mean())) < 5 / (eps.numel() / 8) ** 0.5
    assert float(eps.std()) == pytest.approx(1.0, abs=0.004)
    # The samples of a group share the noise and the timestep of a draw; groups and draws do not.
    flat = eps[0].flatten(1)
    alike = (flat @ flat.T / flat.shape[1]).view(16, 8, 16, 8).permute(0, 2, 1, 3)  # [draw and group, twice, 8, 8]
    together = alike[torch.arange(16), torch.arange(16)]
    assert float(together.min()) > 0.9
    apart = alike.clone()
    apart[torch.arange(16), torch.arange(16)] = 0
    assert float(apart.abs().max()) < 0.1
    groups = times.view(20, 4, 4, 8)
    assert bool((groups == groups[..., :1]).all())
    counts = torch.bincount(groups[..., 0].flatten() - 40).float()
    assert float((counts - 32).square().sum() / 32) < 27.9  # chi-square of 9 degrees of freedom, 1 in 1000
    # The draws of one sample lie 2 or 3 of the 10 timesteps apart.
    assert sorted({int(gap) for gap in torch.remainder(times[:, 1:] - times[:, :-1], 10).flatten()}) == [2, 3]


def test_pairs_of_groups_and_segments() -> None:
    scores = torch.tensor([[1.0, 5.0], [3.0, 4.0], [2.0, 4.9], [1.0, 0.0], [1.0, 0.0], [1.0, 0.0]])
    valid = torch.tensor([[True, True]] * 2 + [[True, False]] + [[True, False]] * 3)
    owned = torch.zeros(6, 2, 4, dtype=torch.bool)
    owned[:, 0, :2], owned[:3, 1, 2:] = True, True
    pairs = find_pairs(scores, valid, owned, 3, 1.5)
    assert pairs.best.tolist()[:2] == [1, 0]
    assert pairs.worst.tolist()[:2] == [0, 1]
    assert pairs.weight.tolist() == [1.0, 0.0, 0.0, 0.0]  # a gap of 1 is too small; equal scores; no such segment
    assert pairs.gap.tolist() == [2.0, 1.0, 0.0, 0.0]
    assert pairs.mask.int().tolist() == [[1, 1, 0, 0], [0, 0, 1, 1], [1, 1, 0, 0], [0, 0, 0, 0]]
    assert find_pairs(scores, valid, owned, 3, 0.0).weight.tolist() == [1.0, 1.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("name", "options", "rollout", "lora", "ema"),
    [
        ("awm", {"kl_coef": 0.1, "anchor": 20.0, "hold": 8.0}, {}, LoraSettings(), 0.0),
        ("awm", {"sync_every": 3, "kl_coef": 0.1}, {}, LoraSettings(), 0.0),
        ("nft", {"inner_epochs": 2}, {"averaged": True}, LoraSettings(), 0.8),
        ("dpo", {"sync_every": 3}, {}, LORA, 0.9),
    ],
)
def test_a_resumed_run_ends_in_the_same_bits(
    name: str, options: dict[str, object], rollout: dict[str, object], lora: LoraSettings, ema: float
) -> None:
    rollout = {**rollout, "group_size": 4}
    resumes(lambda: make(name, make_policy(), options=options, rollout=rollout, lora=lora, ema=ema), steps=4)


def test_the_average_samples_where_it_is_asked_for() -> None:
    grpo = make("nft", make_policy(), rollout={"averaged": True}, ema=0.9)
    for _ in range(3):
        grpo.step(PROMPTS)
    kept = watched(grpo)
    live = weights(grpo)
    with torch.no_grad():
        with grpo.averaged():
            averaged = grpo._sample(PROMPTS).rollout.x0
        own = grpo._sample(PROMPTS).rollout.x0
    frozen(grpo).step(PROMPTS)
    ((batch, _),) = kept
    assert torch.equal(batch.rollout.x0, averaged)
    assert not torch.equal(batch.rollout.x0, own)
    assert same(live, weights(grpo))


def test_nft_is_pulled_back_to_the_policy_that_samples() -> None:
    """Without information in the rewards its gradient is that of ``beta |f - f_old|^2 / v``; at f_old it is none."""
    for averaged in (True, False):
        grpo = make("nft", make_policy(), rollout={"averaged": averaged}, options={"nft_beta": 0.5}, ema=0.9)
        for _ in range(3):
            grpo.step(PROMPTS)
        grpo.rewards.terms = ((Changed(torch.ones_like), 1.0),)
        kept, sampler = watched(grpo), make_policy()
        with grpo.averaged():
            sampler.load_tensors({name: value.clone() for name, value in grpo.policy.tensors().items()})
        metrics = unclipped(grpo).step(PROMPTS)
        if not averaged:
            assert metrics["grad/norm"] == 0.0
            continue
        found = gradient(grpo)
        ((batch, _),) = kept
        noised = grpo.algorithm.noised(batch, 3)  # type: ignore[attr-defined]
        states = noised.at(torch.arange(32).repeat(2), torch.arange(2).repeat_interleave(32))
        mask, lengths = batch.mask.repeat(2, 1)[..., None], batch.lengths.repeat(2)
        with torch.no_grad():
            f_old = sampler.predict(states.x, states.timestep, batch.condition.select(states.sample), lengths)
        f = noised.predict(states)
        pull = ((f - f_old) * mask).square().sum((1, 2))
        error = ((f - noised.clean[states.sample]) * mask).square().sum((1, 2)).detach()
        slopes = torch.autograd.grad(0.5 * (pull / error).mean(), [p for _, p in grpo.learner.trained])
        expected = torch.cat([slope.flatten() for slope in slopes])
        assert float((found - expected).norm() / expected.norm()) < 1e-4


@pytest.mark.parametrize("lora", [LoraSettings(), LORA], ids=["all weights", "adapters"])
def test_the_reference_follows_in_steps(lora: LoraSettings) -> None:
    def distances(sync_every: int) -> list[float]:
        options = {"sync_every": sync_every, "kl_coef": 1e-3}
        grpo = make("awm", make_policy(), options=options, lora=lora, rollout={"group_size": 4})
        return [grpo.step(PROMPTS)["kl/nats_per_dim"] for _ in range(5)]

    following, staying = distances(2), distances(0)
    assert [value == 0.0 for value in following] == [True, False, True, False, True]
    assert [value == 0.0 for value in staying] == [True, False, False, False, False]


def test_what_cannot_follow_or_be_averaged_is_refused() -> None:
    for name, given, word in (
        ("dpo", {"options": {"sync_every": 2}, "reference": make_policy(seed=5)}, "cannot follow"),
        ("nft", {"rollout": {"averaged": True}, "ema": 0.0}, "ema.decay"),
    ):
        with pytest.raises(MotionkitError) as error:
            make(name, make_policy(), **given)
        assert word in error.value.sentence()


def test_the_kl_holds_the_policy_back() -> None:
    free, held = (make("awm", make_policy(), options={"kl_coef": weight}, rate=1e-2) for weight in (1e-9, 10.0))
    for _ in range(6):
        loose, tight = free.step(PROMPTS), held.step(PROMPTS)
    assert tight["kl/nats_per_dim"] < 0.5 * loose["kl/nats_per_dim"]


def test_the_hold_keeps_the_late_steps_near_the_reference() -> None:
    found = []
    for weight in (0.0, 1000.0):
        grpo = make("awm", make_policy(), options={"hold": weight}, rate=1e-2)
        for _ in range(6):
            grpo.step(PROMPTS)
        start = make_policy()
        x = torch.randn(4, 20, 263, generator=torch.Generator().manual_seed(0))
        lengths = torch.tensor([prompt.length for prompt in PROMPTS])
        asked = (x, torch.full((4,), 10), start.condition(PROMPTS), lengths)
        with torch.no_grad():
            moved = grpo.policy.predict(*asked) - start.predict(*asked)
        found.append(float(moved.square().mean()))
    assert found[1] < 0.5 * found[0]


@pytest.mark.parametrize("name", ALL)
def test_one_sample_that_is_not_a_number_touches_no_other(name: str) -> None:
    grpo = make(name, make_policy())
    update = grpo.algorithm.update

    def spoil(batch: Samples, scored: Scored, number: int) -> Any:
        x0, finite = batch.rollout.x0.clone(), scored.finite.clone()
        x0[5], finite[5] = torch.nan, False
        zero = scored.total.new_zeros(())
        scored = replace(
            scored,
            finite=finite,
            total=torch.where(finite, scored.total, zero),
            segments=torch.where(finite[:, None], scored.segments, zero),
        )
        return update(replace(batch, rollout=replace(batch.rollout, x0=x0)), scored, number)

    grpo.algorithm.update = spoil  # type: ignore[method-assign]
    metrics = grpo.step(PROMPTS)
    assert metrics["grad/norm"] > 0
    assert math.isfinite(metrics["loss/total"])
    assert all(bool(value.isfinite().all()) for value in weights(grpo).values())
