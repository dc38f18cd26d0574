"""Flow-GRPO and what it shares with GRPO, on toy policies: it learns, its control does not, it resumes."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch

from motionkit import plugins
from motionkit.errors import MotionkitError
from motionkit.rl import DDIM, FlowSDE, NoiseSource, Schedule, StepPlan
from motionkit.text_to_motion.generating import sample
from motionkit.text_to_motion.grpo.algorithms.grpo import KLCoefficient, Plans
from motionkit.text_to_motion.grpo.algorithms.options import (
    FlowSampler,
    GrpoObjective,
    GrpoRollout,
    GrpoSampler,
    WindowSampler,
)
from motionkit.text_to_motion.grpo.settings import GrpoOptimSettings
from motionkit.text_to_motion.grpo.step import GRPO
from motionkit.text_to_motion.settings import LoraSettings

from .toy import PROMPTS, Height, engine, learns, make_policy, resumes, rise, same, weights

SCHEDULE = Schedule.cosine(50)


def make(policy: object = None, **groups: Any) -> GRPO:
    options: dict[str, Any] = {
        "algorithm": "flow-grpo",
        "rollout": GrpoRollout(prompts=4, group_size=8, antithetic=False, shared_noise=False),
        "sampler": FlowSampler(),
        "optim": GrpoOptimSettings(learning_rate=2e-2),
        **groups,
    }
    return engine(policy, **options)


def test_real_advantages_learn_and_shuffled_ones_do_not() -> None:
    learns(partial(make, sampler=FlowSampler(kind="flow-sde")))


@pytest.mark.parametrize("kind", ["dance-sde", "cps"])
def test_other_ways_to_add_noise_learn_too(kind: Any) -> None:
    assert rise(make(sampler=FlowSampler(kind=kind))) > 0.12


def test_the_first_update_has_ratio_one() -> None:
    metrics = make(make_policy()).step(PROMPTS)
    assert metrics["audit/first_ratio_per_dim"] <= 1e-6
    assert metrics["ratio/mean"] == pytest.approx(1.0, abs=1e-6)


def test_a_resumed_run_ends_in_the_same_bits() -> None:
    """With everything that changes from update to update: a window that moves, a coefficient that adapts."""
    options: dict[str, Any] = {
        "sampler": FlowSampler(window="sliding", window_size=2, window_every=3),
        "objective": GrpoObjective(inner_epochs=2, kl_target=1e-3, clip_high=0.28, advantage="dr-grpo"),
        "rollout": GrpoRollout(prompts=4, group_size=4, low_pass=3.0),
    }
    curve = resumes(lambda: make(make_policy(), **options))
    assert len({metrics["kl/coefficient"] for metrics in curve}) > 1


@pytest.mark.parametrize("algorithm", [entry.name for entry in plugins.available("algorithms") if entry.builtin])
def test_measuring_is_the_same_before_and_after_an_algorithm_was_built(algorithm: str) -> None:
    def samples(policy: object) -> torch.Tensor:
        with torch.no_grad():
            plan = StepPlan.build(SCHEDULE, DDIM(0.0), steps=SCHEDULE.early(5))
            return sample(policy, PROMPTS, plan, NoiseSource(0), step=-1).rollout.x0  # type: ignore[arg-type]

    policy = make_policy()
    before = samples(policy)
    engine = GRPO(policy, Height(), algorithm=algorithm, lora=LoraSettings())
    assert torch.equal(samples(policy), before)
    start = weights(engine)
    engine.step(PROMPTS)
    with torch.no_grad():
        policy.load_tensors(make_policy().tensors())
    assert same(weights(engine), start)
    assert torch.equal(samples(policy), before)


def positions(plans: Plans, updates: int) -> list[tuple[int, ...]]:
    return [plans.at(number).trainable for number in range(updates)]


def test_a_fixed_window_stays() -> None:
    plans = Plans(SCHEDULE, DDIM(1.0), WindowSampler(window_start=1, window_size=2))
    assert set(positions(plans, 60)) == {(1, 2)}


def test_a_sliding_window_goes_from_noisy_to_clean_and_starts_over() -> None:
    settings = WindowSampler(window="sliding", train_timesteps=10, window_size=3, window_shift=2, window_every=2)
    found = positions(Plans(SCHEDULE, FlowSDE(0.7), settings, ode_steps=3), 8)
    assert found == [(0, 1, 2)] * 2 + [(2, 3, 4)] * 2 + [(4, 5, 6)] * 2 + [(0, 1, 2)] * 2


@pytest.mark.parametrize(("share", "expected"), [(0.001, 0), (0.002, 1), (0.05, 2), (0.2, 3), (1.0, 4)])
def test_an_snr_window_holds_the_noisiest_steps_up_to_its_share(share: float, expected: int) -> None:
    settings = WindowSampler(window="snr", window_share=share)
    if not expected:
        with pytest.raises(MotionkitError) as error:
            Plans(SCHEDULE, DDIM(1.0), settings)
        assert "sampler.window_share" in error.value.fix
        return
    trained = Plans(SCHEDULE, DDIM(1.0), settings).at(0).trainable
    assert trained == tuple(range(expected))
    snr = SCHEDULE.snr[SCHEDULE.early(5)]  # of ancestral steps, s^2 is what the signal-to-noise ratio gains
    information = (snr[1:] - snr[:-1]) / (snr[-1] - snr[0])
    assert information[: len(trained)].sum() <= share + 1e-12
    assert len(trained) == 4 or information[: len(trained) + 1].sum() > share


@pytest.mark.parametrize(
    "settings",
    [
        WindowSampler(window="sliding", window_size=5),
        WindowSampler(window="sliding", window_start=4, window_size=1),
        WindowSampler(window_size=3),
        WindowSampler(window_start=9),
    ],
)
def test_a_window_that_does_not_fit_is_refused(settings: WindowSampler) -> None:
    with pytest.raises(MotionkitError, match="window"):
        Plans(SCHEDULE, FlowSDE(0.7), settings, ode_steps=3)


def test_the_coefficient_of_the_kl_follows_schulman() -> None:
    kl = KLCoefficient(0.5, target=0.1)
    found = []
    for measured in (0.16, 0.14, 0.05, 0.0, float("nan")):
        kl.adapt(measured)
        found.append(kl.value)
    assert found == [1.0, 1.0, 0.5, 0.25, 0.25]
    fixed = KLCoefficient(0.5, target=0.0)
    fixed.adapt(9.0)
    assert (fixed.value, fixed.adaptive, KLCoefficient(0.0, target=0.1).value) == (0.5, False, 1.0)


def test_a_kl_target_holds_the_policy_back() -> None:
    free, held = make(), make(objective=GrpoObjective(kl_coef=1e4, kl_target=1e-6))
    for _ in range(12):
        loose, tight = free.step(PROMPTS), held.step(PROMPTS)
    assert tight["kl/coefficient"] > 1e4
    assert tight["kl/nats_per_dim"] < 0.7 * loose["kl/nats_per_dim"]


def test_low_pass_exploration_learns_too() -> None:
    rollout = GrpoRollout(prompts=4, group_size=8, low_pass=3.0)
    sampler = GrpoSampler(spacing="even", window_size=4)
    assert rise(make(algorithm="grpo", rollout=rollout, sampler=sampler)) > 0.12
