"""Rollouts: windows, the ODE path, what is recorded, moments on Gaussian data."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.rl import DDIM, DDPM, NoiseSource, Schedule, StepPlan, rollout

SCHEDULE = Schedule.cosine(50)
PROMPTS, SAMPLES = torch.tensor([3, 3, 8]), torch.tensor([0, 1, 0])
SHAPE = (5, 4)


def predict(x: Tensor, timestep: Tensor) -> Tensor:
    return torch.tanh(0.7 * x + 0.01 * timestep.view(-1, 1, 1).float())


def draw(plan: StepPlan, *, record: bool = False) -> Tensor:
    source = NoiseSource(0)
    start = source.start(0, PROMPTS, SAMPLES, SHAPE)
    return rollout(predict, plan, start, source.steps(0, PROMPTS, SAMPLES, SHAPE), record=record).x0


def ode(start: Tensor, steps: list[int]) -> Tensor:
    """DDIM's deterministic sampler, written on its own."""
    x = start
    for i, t in enumerate(steps):
        now = SCHEDULE.alphas_cumprod[t]
        then = SCHEDULE.alphas_cumprod[steps[i + 1]] if i + 1 < len(steps) else torch.ones((), dtype=torch.float64)
        keep = ((1 - then) / (1 - now)).sqrt()
        x = (then.sqrt() - keep * now.sqrt()).item() * predict(x, torch.full((len(x),), t)) + keep.item() * x
    return x


def test_eta_zero_and_an_empty_window_are_the_ode_to_the_bit() -> None:
    start = NoiseSource(0).start(0, PROMPTS, SAMPLES, SHAPE)
    steps = SCHEDULE.spaced(10)
    expected = ode(start, steps)
    for sampler, window in ((DDIM(0.0), None), (DDIM(1.0), ()), (DDIM(0.5), []), (DDPM(), ())):
        assert torch.equal(draw(StepPlan.build(SCHEDULE, sampler, steps=10, window=window)), expected)
    assert not torch.equal(draw(StepPlan.build(SCHEDULE, DDIM(1.0), steps=10, window=[0])), expected)


@pytest.mark.parametrize(("eta", "window"), [(0.0, None), (1.0, ()), (1.0, [9])])
def test_nothing_to_train_is_an_explicit_error(eta: float, window: list[int] | None) -> None:
    plan = StepPlan.build(SCHEDULE, DDIM(eta), steps=10, window=window)
    assert plan.trainable == ()
    with pytest.raises(MotionkitError, match="nothing to train"):
        draw(plan, record=True)


def test_the_last_step_adds_no_noise_and_is_never_scored() -> None:
    for sampler in (DDPM(), DDIM(1.0)):
        plan = StepPlan.build(SCHEDULE, sampler)
        assert plan.trainable == tuple(range(49))
        assert (plan.c_x0[-1], plan.c_xt[-1], plan.sigma[-1], plan.sensitivity[-1]) == (1, 0, 0, 0)


def test_a_window_scores_its_own_steps_only() -> None:
    plan = StepPlan.build(SCHEDULE, DDIM(1.0), steps=10, window=range(2, 5))
    assert plan.trainable == (2, 3, 4)
    source = NoiseSource(0)
    result = rollout(predict, plan, source.start(0, PROMPTS, SAMPLES, SHAPE), source.steps(0, PROMPTS, SAMPLES, SHAPE))
    trajectory = result.trajectory
    assert trajectory is not None
    assert trajectory.x_t.shape == (3, 3, *SHAPE)
    assert trajectory.timesteps.tolist() == plan.timesteps[2:5].tolist()
    for step, t in enumerate(trajectory.timesteps.tolist()):
        assert torch.equal(trajectory.eps[step], source.at(0, PROMPTS, SAMPLES, t, SHAPE))
        assert torch.equal(trajectory.x0_old[step], predict(trajectory.x_t[step], torch.full((3,), t)))
    assert torch.equal(trajectory.x_next[:2], trajectory.x_t[1:])


@pytest.mark.parametrize("graph", [False, True])
def test_recording_changes_nothing_and_the_caller_decides_on_a_graph(graph: bool) -> None:
    plan = StepPlan.build(SCHEDULE, DDIM(1.0), steps=10)
    assert torch.equal(draw(plan), draw(plan, record=True))
    weight = torch.ones((), requires_grad=True)
    source = NoiseSource(0)
    with torch.set_grad_enabled(graph):
        result = rollout(
            lambda x, t: weight * predict(x, t),
            plan,
            source.start(0, PROMPTS, SAMPLES, SHAPE),
            source.steps(0, PROMPTS, SAMPLES, SHAPE),
        )
    assert result.trajectory is not None
    assert not result.trajectory.eps.requires_grad
    kept = (result.x0, result.trajectory.x_t, result.trajectory.x0_old, result.trajectory.x_next)
    assert all(tensor.requires_grad == graph for tensor in kept)


def test_pairs_gather_mixed_steps() -> None:
    plan = StepPlan.build(SCHEDULE, DDIM(1.0), steps=6)
    source = NoiseSource(1)
    result = rollout(predict, plan, source.start(0, PROMPTS, SAMPLES, SHAPE), source.steps(0, PROMPTS, SAMPLES, SHAPE))
    trajectory = result.trajectory
    assert trajectory is not None
    assert trajectory.num_pairs == 15
    rows = trajectory.pairs(torch.tensor([14, 0, 4]))
    assert rows.sample.tolist() == [2, 0, 1]
    assert rows.timestep.tolist() == trajectory.timesteps[[4, 0, 1]].tolist()
    assert torch.equal(rows.x_t, torch.stack([trajectory.x_t[4, 2], trajectory.x_t[0, 0], trajectory.x_t[1, 1]]))
    assert torch.equal(rows.sensitivity, trajectory.sensitivity[[4, 0, 1]])


@pytest.mark.parametrize(("scale", "expected"), [(1.0, 0.955), (0.02, None)])
def test_moments_on_gaussian_data(scale: float, expected: float | None) -> None:
    """With the exact posterior mean of N(0, scale^2) data, the sample std follows a closed-form recursion."""
    plan = StepPlan.build(SCHEDULE, DDPM())
    gain = {}
    for t in range(50):
        ab = SCHEDULE.alphas_cumprod[t].item()
        gain[t] = ab**0.5 * scale**2 / (ab * scale**2 + 1 - ab)
    std = 1.0
    for t, c_x0, c_xt, sigma in zip(
        plan.timesteps.tolist(), plan.c_x0.tolist(), plan.c_xt.tolist(), plan.sigma.tolist(), strict=True
    ):
        std = ((c_x0 * gain[t] + c_xt) ** 2 * std**2 + sigma**2) ** 0.5
    if expected is not None:
        assert std == pytest.approx(expected, abs=2e-3)
    ids, shape = torch.arange(200), (1000, 1)
    source = NoiseSource(5)
    table = torch.tensor([gain[t] for t in range(50)])
    result = rollout(
        lambda x, t: table[t].view(-1, 1, 1) * x,
        plan,
        source.start(0, ids, ids, shape),
        source.steps(0, ids, ids, shape),
        record=False,
    )
    assert result.x0.std().item() == pytest.approx(std, rel=0.01)
    assert result.x0.mean().item() == pytest.approx(0.0, abs=4 * std / 200000**0.5)
