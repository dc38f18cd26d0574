"""Flow samplers: the map, the equations of the papers in flow coordinates, what they leave of Gaussian data."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.rl import (
    CPS,
    DDIM,
    DanceSDE,
    FlowSDE,
    NoiseSource,
    Sampler,
    Schedule,
    StepPlan,
    excess_noise,
    flow_scale,
    flow_time,
    rollout,
    sampled_std,
)

SCHEDULE = Schedule.cosine(50)
STEPS = SCHEDULE.early(10)
NOW = SCHEDULE.alphas_cumprod[STEPS][:-1]
THEN = SCHEDULE.alphas_cumprod[STEPS][1:]
T, T_NEXT = flow_time(NOW), flow_time(THEN)
SAMPLERS = [FlowSDE(0.7), DanceSDE(0.3), CPS(0.7)]


def draws(count: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(count, len(NOW), dtype=torch.float64, generator=generator) for _ in range(3)]


def test_the_map_goes_there_and_back() -> None:
    x0, eps, _ = draws(7)
    x = NOW.sqrt() * x0 + (1 - NOW).sqrt() * eps
    x_f = x / flow_scale(NOW)
    torch.testing.assert_close(x_f, (1 - T) * x0 + T * eps, rtol=0, atol=1e-14)
    torch.testing.assert_close((x_f - x0) / T, eps - x0, rtol=0, atol=1e-13)
    torch.testing.assert_close(x_f * flow_scale(NOW), x, rtol=0, atol=1e-14)


def paper(sampler: Sampler, x_f: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and deviation of one step as the papers write them, in flow coordinates."""
    dt, x0 = T - T_NEXT, x_f - T * v
    if isinstance(sampler, CPS):
        sigma = T_NEXT * math.sin(sampler.noise_scale * math.pi / 2)
        return (1 - T_NEXT) * x0 + (T_NEXT**2 - sigma**2).sqrt() * (x_f + (1 - T) * v), sigma
    s = torch.full_like(T, sampler.noise_scale)  # type: ignore[attr-defined]
    if isinstance(sampler, FlowSDE):
        s = sampler.noise_scale * (T / (1 - T)).sqrt()
        s[0] = sampler.noise_scale * (T[0] / (1 - T[1])).sqrt()
    mean = x_f * (1 - s**2 * dt / (2 * T)) - v * (1 + s**2 * (1 - T) / (2 * T)) * dt
    return mean, s * dt.sqrt()


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_step_is_the_papers_step_in_other_coordinates(sampler: Sampler) -> None:
    x, x0, _ = draws(5)
    steps = sampler.step(NOW, THEN)
    x_f = x / flow_scale(NOW)
    mean, sigma = paper(sampler, x_f, (x_f - x0) / T)
    ours = steps.c_x0 * x0 + steps.c_xt * x
    torch.testing.assert_close(ours / flow_scale(THEN), mean, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(steps.sigma / flow_scale(THEN), sigma, rtol=1e-12, atol=0)


def test_the_kl_of_a_velocity_is_that_of_a_prediction() -> None:
    x, x0, x0_reference = draws(5)
    plan = StepPlan.build(SCHEDULE, FlowSDE(0.7), steps=STEPS)
    x_f = x / flow_scale(NOW)
    difference = ((x_f - x0) / T - (x_f - x0_reference) / T).square()
    s, dt = 0.7 * (T / (1 - T)).sqrt(), T - T_NEXT
    s[0] = 0.7 * (T[0] / (1 - T[1])).sqrt()
    # Flow-GRPO's KL, with the dt that its code leaves out.
    theirs = dt / 2 * (s * (1 - T) / (2 * T) + 1 / s).square() * difference
    ours = plan.sensitivity[:-1].square() / 2 * (x0 - x0_reference).square()
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=0)


@pytest.mark.parametrize("make", [FlowSDE, DanceSDE, CPS])
def test_without_noise_it_is_ddim(make: type[FlowSDE]) -> None:
    for ours, theirs in zip(make(0.0).step(NOW, THEN), DDIM(0.0).step(NOW, THEN), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-14)
    plan, ode = (StepPlan.build(SCHEDULE, sampler, steps=STEPS) for sampler in (make(0.0), DDIM(0.0)))
    assert plan.trainable == ()
    assert torch.equal(plan.c_x0, ode.c_x0)
    assert torch.equal(plan.c_xt, ode.c_xt)


def test_cps_keeps_the_marginals_of_a_known_motion() -> None:
    steps = CPS(0.6).step(NOW, THEN)
    torch.testing.assert_close(steps.c_x0 + steps.c_xt * NOW.sqrt(), THEN.sqrt(), rtol=0, atol=1e-13)
    torch.testing.assert_close(steps.c_xt**2 * (1 - NOW) + steps.sigma**2, 1 - THEN, rtol=0, atol=1e-13)


def test_flow_sde_stays_finite_at_the_noisiest_step_and_is_the_papers_elsewhere() -> None:
    """1 - t is that of the next step where the step is longer than twice 1 - t; upstream: at t = 1 alone."""
    alpha_bar = even(10)
    t, sigma = flow_time(alpha_bar), FlowSDE(0.7).step(alpha_bar[:-1], alpha_bar[1:]).sigma
    dt = t[:-1] - t[1:]
    expected = 0.7 * (t[:-1] / (1 - t[:-1])).sqrt() * dt.sqrt() * flow_scale(alpha_bar[1:])
    torch.testing.assert_close(sigma[1:], expected[1:], rtol=1e-12, atol=0)
    assert sigma[0].item() == pytest.approx(0.7 * (1 / 0.1) ** 0.5 * 0.1**0.5 * (0.1**2 + 0.9**2) ** -0.5, rel=1e-12)
    for steps in (SCHEDULE.early(10), SCHEDULE.early(5), SCHEDULE.spaced(10), list(range(49, -1, -1))):
        plan = StepPlan.build(SCHEDULE, FlowSDE(0.7), steps=steps)
        assert plan.sigma.max() < 1.0
        assert plan.c_xt[:-1].min() > 0.0


def even(count: int) -> Tensor:
    """Alpha-bar of evenly spaced flow times from 1 to 0."""
    t = torch.linspace(1, 0, count + 1, dtype=torch.float64)
    return (1 - t) ** 2 / ((1 - t) ** 2 + t**2)


@pytest.mark.parametrize(
    ("sampler", "std", "expected"),
    [
        (FlowSDE(0.7), 0.02, 0.0803), (DanceSDE(0.3), 0.02, 0.1075),
        (CPS(0.8), 0.02, 0.0035), (DDIM(0.0), 0.02, 0.0035),
        (FlowSDE(0.7), 1.0, 0.965), (DanceSDE(0.3), 1.0, 0.887), (CPS(0.8), 1.0, 0.724),
    ],
)  # fmt: skip
def test_what_ten_steps_leave_of_gaussian_data(sampler: Sampler, std: float, expected: float) -> None:
    """Figures measured by sampling, of which these are the closed form."""
    alpha_bar = even(10)
    found = sampled_std(alpha_bar[:-1], sampler.step(alpha_bar[:-1], alpha_bar[1:]), std)
    assert found == pytest.approx(expected, abs=10 ** -(4 if std < 1 else 3))


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_moments_of_samples_follow_the_closed_form(sampler: Sampler) -> None:
    std = 0.3
    plan = StepPlan.build(SCHEDULE, sampler, steps=SCHEDULE.spaced(10))
    alpha = SCHEDULE.alphas_cumprod
    gain = (alpha.sqrt() * std**2 / (alpha * std**2 + 1 - alpha)).float()
    ids, shape, source = torch.arange(200), (1000, 1), NoiseSource(5)
    found = rollout(
        lambda x, t: gain[t].view(-1, 1, 1) * x,
        plan,
        source.start(0, ids, ids, shape),
        source.steps(0, ids, ids, shape),
        record=False,
    ).x0
    assert found.std().item() == pytest.approx(std * excess_noise(SCHEDULE, plan, std), rel=0.01)
    assert found.mean().item() == pytest.approx(0.0, abs=4 * std / 200000**0.5)


def test_bad_noise_scales_are_refused() -> None:
    for bad in (lambda: FlowSDE(-0.1), lambda: DanceSDE(math.nan), lambda: CPS(1.01)):
        with pytest.raises(MotionkitError, match="noise scale"):
            bad()
