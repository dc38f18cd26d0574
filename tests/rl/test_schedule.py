"""Schedules: recorded tables, sensitivities, respacing."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

from motionkit.errors import MotionkitError
from motionkit.rl import DDIM, DDPM, Schedule, StepPlan

TABLES = (
    "betas",
    "alphas_cumprod",
    "sqrt_alphas_cumprod",
    "sqrt_one_minus_alphas_cumprod",
)


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
    with pytest.raises(MotionkitError, match="betas"):
        Schedule.linear(10)
    with pytest.raises(MotionkitError, match="unknown noise schedule"):
        Schedule.named("sigmoid", 50)
    with pytest.raises(MotionkitError, match="51 sampling steps"):
        StepPlan.build(Schedule.cosine(50), steps=51)
    with pytest.raises(MotionkitError, match="window"):
        StepPlan.build(Schedule.cosine(50), steps=10, window=range(5, 11))
    with pytest.raises(MotionkitError, match="eta"):
        DDIM(1.5)


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
