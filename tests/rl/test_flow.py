"""Flow samplers and schedules: equations of the papers, recorded tables, what they leave of Gaussian data."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.rl import (
    CPS,
    DDIM,
    DDPM,
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


TABLES = ("betas", "alphas_cumprod", "sqrt_alphas_cumprod", "sqrt_one_minus_alphas_cumprod")


@pytest.mark.parametrize(
    ("name", "steps"), [("cosine", 10), ("cosine", 50), ("cosine", 1000), ("linear", 50), ("linear", 1000)]
)
def test_tables_equal_the_recorded_ones(shared: Path, name: str, steps: int) -> None:
    recorded = np.load(shared / "fixtures/mdm/diffusion_tables.npz")
    schedule = Schedule.named(name, steps)
    for table in TABLES:
        np.testing.assert_allclose(
            getattr(schedule, table).numpy(), recorded[f"{name}{steps}.{table}"], rtol=1e-12, atol=1e-15
        )
    plan = StepPlan.build(schedule, DDPM())
    for got, table in (
        (plan.c_x0, "posterior_mean_coef1"),
        (plan.c_xt, "posterior_mean_coef2"),
        (plan.sigma**2, "posterior_variance"),
    ):
        np.testing.assert_allclose(
            got.flip(0).numpy(), recorded[f"{name}{steps}.{table}"], rtol=1e-9, atol=1e-15, err_msg=table
        )


@pytest.mark.parametrize("schedule", [Schedule.cosine(50), Schedule.cosine(1000), Schedule.linear(1000)])
def test_sensitivity_is_the_root_of_the_snr_gain(schedule: Schedule) -> None:
    plan = StepPlan.build(schedule, DDPM())
    t = plan.timesteps[:-1]
    expected = (schedule.snr[t - 1] - schedule.snr[t]).sqrt()
    torch.testing.assert_close(plan.sensitivity[:-1], expected, rtol=1e-10, atol=0)


def test_sensitivity_range_of_the_50_step_cosine_schedule() -> None:
    s = StepPlan.build(Schedule.cosine(50)).sensitivity[:-1]
    assert s.min().item() == pytest.approx(0.031164, abs=1e-6)
    assert s.max().item() == pytest.approx(19.69975, abs=1e-5)
    assert (s.max() / s.min()).item() == pytest.approx(632.1412, abs=1e-3)


def test_ddim_eta_one_on_all_steps_is_ddpm() -> None:
    schedule = Schedule.cosine(50)
    ddim, ddpm = StepPlan.build(schedule, DDIM(1.0)), StepPlan.build(schedule, DDPM())
    torch.testing.assert_close(ddim.c_x0, ddpm.c_x0, rtol=0, atol=1e-12)
    torch.testing.assert_close(ddim.c_xt, ddpm.c_xt, rtol=0, atol=1e-12)
    torch.testing.assert_close(ddim.sigma**2, ddpm.sigma**2, rtol=0, atol=1e-14)
    t = ddpm.timesteps
    now, beta = schedule.alphas_cumprod, schedule.betas  # Ho et al. 2020, eq. 7
    before = torch.cat([torch.ones(1, dtype=torch.float64), now[:-1]])
    torch.testing.assert_close(ddpm.c_x0, (beta * before.sqrt() / (1 - now))[t], rtol=0, atol=1e-12)
    torch.testing.assert_close(ddpm.c_xt, ((1 - before) * (1 - beta).sqrt() / (1 - now))[t], rtol=0, atol=1e-12)
    torch.testing.assert_close(ddpm.sigma**2, (beta * (1 - before) / (1 - now))[t], rtol=0, atol=1e-14)


@pytest.mark.parametrize("eta", [0.0, 0.3, 1.0])
def test_every_step_keeps_the_marginals(eta: float) -> None:
    """A DDIM step must carry N(sqrt(ab_t) x0, 1 - ab_t) to N(sqrt(ab_s) x0, 1 - ab_s) for any eta and subset."""
    schedule = Schedule.cosine(50)
    plan = StepPlan.build(schedule, DDIM(eta), steps=[49, 40, 31, 7, 2])
    now = schedule.alphas_cumprod[plan.timesteps]
    then = torch.cat([now[1:], torch.ones(1, dtype=torch.float64)])
    torch.testing.assert_close(plan.c_x0 + plan.c_xt * now.sqrt(), then.sqrt(), rtol=0, atol=1e-13)
    torch.testing.assert_close(plan.c_xt**2 * (1 - now) + plan.sigma**2, 1 - then, rtol=0, atol=1e-13)


def test_flow_map_round_trip() -> None:
    """Facts 1.3: x_flow = x / c, t_flow = sqrt(1 - ab) / c, c = sqrt(ab) + sqrt(1 - ab); velocity is eps - x0."""
    ab = Schedule.cosine(50).alphas_cumprod[:, None]
    generator = torch.Generator().manual_seed(0)
    x0, eps = (torch.randn(50, 7, dtype=torch.float64, generator=generator) for _ in range(2))
    x = ab.sqrt() * x0 + (1 - ab).sqrt() * eps
    c = ab.sqrt() + (1 - ab).sqrt()
    x_flow, t_flow = x / c, (1 - ab).sqrt() / c
    torch.testing.assert_close(x_flow, (1 - t_flow) * x0 + t_flow * eps, rtol=0, atol=1e-14)
    torch.testing.assert_close((x_flow - x0) / t_flow, eps - x0, rtol=0, atol=1e-13)
    torch.testing.assert_close(x_flow * c, x, rtol=0, atol=1e-14)


@pytest.mark.parametrize("count", [1, 2, 7, 10, 25, 50])
def test_respaced_plans_visit_trained_integers_only(count: int) -> None:
    schedule = Schedule.cosine(50)
    plan = StepPlan.build(schedule, DDIM(1.0), steps=count)
    visited = plan.timesteps.tolist()
    assert plan.timesteps.dtype == torch.int64
    assert len(visited) == count == len(set(visited))
    assert visited == sorted(visited, reverse=True)
    assert set(visited) <= set(range(50))
    assert visited[0] == 49


def test_noised_follows_the_tables() -> None:
    schedule = Schedule.cosine(50)
    x0, x_t = torch.ones(3, 4, 2), torch.full((3, 4, 2), 2.0)
    t = torch.tensor([0, 7, 49])
    noised = schedule.noised(x0, t, x_t)
    expected = schedule.sqrt_alphas_cumprod[t] + 2 * schedule.sqrt_one_minus_alphas_cumprod[t]
    torch.testing.assert_close(noised[:, 0, 0].double(), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("steps", [[50], [-1, 3], [4, 4], []])
def test_untrained_timesteps_are_refused(steps: list[int]) -> None:
    with pytest.raises(MotionkitError, match="timesteps"):
        Schedule.cosine(50).checked(steps)


def test_bad_settings_are_refused() -> None:
    for call, word in (
        (lambda: Schedule.linear(10), "betas"),
        (lambda: Schedule.named("sigmoid", 50), "noise schedule"),
        (lambda: StepPlan.build(Schedule.cosine(50), steps=51), "51 sampling steps"),
        (lambda: StepPlan.build(Schedule.cosine(50), steps=10, window=range(5, 11)), "window"),
        (lambda: DDIM(1.5), "eta"),
        (lambda: FlowSDE(-0.1), "noise scale"),
        (lambda: DanceSDE(math.nan), "noise scale"),
        (lambda: CPS(1.01), "noise scale"),
    ):
        with pytest.raises(MotionkitError, match=word):
            call()


def test_early_steps_are_dense_where_it_is_noisy() -> None:
    schedule = Schedule.cosine(50)
    assert schedule.early(5) == [49, 47, 41, 31, 18]
    for count in (1, 2, 7, 10, 25, 50):
        steps = schedule.early(count)
        assert steps[0] == 49
        assert len(steps) == count
        assert all(a > b >= 0 for a, b in pairwise(steps))
    assert schedule.early(50) == schedule.spaced(50)
    with pytest.raises(MotionkitError):
        schedule.early(51)


@pytest.mark.parametrize("steps", [[49, 47, 41, 31, 18], [49, 37, 24, 12, 0], [49], list(range(49, -1, -1))])
def test_timesteps_are_drawn_around_those_of_a_spacing(steps: list[int]) -> None:
    draw = np.random.default_rng(0)
    found = np.array([Schedule.drawn_around(steps, draw) for _ in range(400)])
    assert (np.diff(found, axis=1) < 0).all()
    assert (found[:, 0] == steps[0]).all()
    for k in range(1, len(steps)):
        above = (steps[k - 1] + steps[k]) // 2
        below = (steps[k] + (steps[k + 1] if k + 1 < len(steps) else 0)) // 2
        assert set(found[:, k]) == set(range(min(below + 1, steps[k]), above + 1))


@pytest.mark.parametrize(("name", "steps"), [("cosine", 10), ("cosine", 50), ("linear", 1000)])
def test_a_shift_multiplies_the_noise_beside_the_signal(name: str, steps: int) -> None:
    plain = Schedule.named(name, steps)
    shifted = plain.shifted(4.0)
    ratio = shifted.sqrt_one_minus_alphas_cumprod / shifted.sqrt_alphas_cumprod
    before = plain.sqrt_one_minus_alphas_cumprod / plain.sqrt_alphas_cumprod
    torch.testing.assert_close(ratio, 4.0 * before, rtol=1e-6, atol=0)
    assert torch.equal(plain.shifted(1.0).betas, plain.betas)
    torch.testing.assert_close(plain.shifted(2.0).shifted(2.0).betas, shifted.betas, rtol=1e-6, atol=0)
    # 16 values that show the same thing show it, together, as clearly as one of them did before.
    draw = torch.Generator().manual_seed(0)
    t = torch.full((4000,), steps // 2)
    noisy = shifted.noised(torch.ones(4000, 1, 16), t, torch.randn(4000, 1, 16, generator=draw)).mean(-1)
    seen = float(noisy.mean() ** 2 / noisy.var())
    assert seen == pytest.approx(float(plain.snr[steps // 2]), rel=0.15)
