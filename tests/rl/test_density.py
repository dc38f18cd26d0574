"""Log-probabilities, ratios and KL against torch.distributions and Monte Carlo."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.distributions import Normal, kl_divergence

from motionkit.rl import DDIM, NoiseSource, Schedule, StepPlan, length_mask, log_ratio_frames, rollout, valid_dims

from .toys import kl_nats, log_prob_nats, log_ratio_nats

LENGTHS = torch.tensor([7, 3, 5])
MASK = length_mask(LENGTHS, 7)


def normal(*shape: int, seed: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def poisoned(values: Tensor) -> Tensor:
    return torch.where(MASK[..., None], values, torch.nan)


def test_padding_is_invisible_to_the_bit_in_values_and_gradients() -> None:
    x, eps, old, sigma = normal(3, 7, 4, seed=0), normal(3, 7, 4, seed=1), normal(3, 7, 4, seed=2), torch.rand(3) + 0.1
    new = normal(3, 7, 4, seed=3)

    def everything(x: Tensor, eps: Tensor, old: Tensor, new: Tensor) -> tuple[list[Tensor], Tensor]:
        leaf = new.clone().requires_grad_()
        values = [
            log_prob_nats(x, leaf, sigma, MASK),
            log_ratio_nats(leaf, old, eps, sigma, MASK),
            kl_nats(leaf, old, sigma, MASK),
        ]
        torch.stack(values).sum().backward()
        assert leaf.grad is not None
        return [value.detach() for value in values], leaf.grad

    clean, clean_grad = everything(x, eps, old, new)
    dirty, dirty_grad = everything(poisoned(x), poisoned(eps), poisoned(old), poisoned(new))
    for one, other in zip(clean, dirty, strict=True):
        assert torch.equal(one, other)
    assert torch.equal(clean_grad, dirty_grad)
    assert bool((dirty_grad[~MASK] == 0).all())


def test_exact_ratio_equals_the_difference_of_densities() -> None:
    plan = StepPlan.build(Schedule.cosine(50), DDIM(0.7), steps=12)
    for position in plan.trainable:
        c_x0, c_xt, sigma = (table[position].expand(3) for table in (plan.c_x0, plan.c_xt, plan.sigma))
        x_t, eps, old = (normal(3, 7, 4, seed=seed, dtype=torch.float64) for seed in range(3))
        new = old + 0.05 * normal(3, 7, 4, seed=9, dtype=torch.float64)

        def mean(x0: Tensor, c_x0: Tensor = c_x0, c_xt: Tensor = c_xt, x_t: Tensor = x_t) -> Tensor:
            return c_x0.view(-1, 1, 1) * x0 + c_xt.view(-1, 1, 1) * x_t

        x_next = mean(old) + sigma.view(-1, 1, 1) * eps
        slow = log_prob_nats(x_next, mean(new), sigma, MASK) - log_prob_nats(x_next, mean(old), sigma, MASK)
        exact = log_ratio_nats(new, old, eps, plan.sensitivity[position].expand(3), MASK)
        torch.testing.assert_close(exact, slow, rtol=1e-9, atol=1e-10)


def test_recorded_transitions_carry_the_same_ratio_in_float32() -> None:
    ids, lengths = torch.arange(3), torch.tensor([6, 4, 5])
    plan = StepPlan.build(Schedule.cosine(50), steps=10, window=range(6))
    source, mask = NoiseSource(0), length_mask(lengths, 6)
    start = source.start(0, ids, ids, (6, 4))
    trajectory = rollout(lambda x, t: 0.8 * x, plan, start, source.steps(0, ids, ids, (6, 4))).trajectory
    assert trajectory is not None
    rows = trajectory.pairs(torch.arange(trajectory.num_pairs))
    new, where = 0.81 * rows.x_t, mask[rows.sample]
    dims = valid_dims(where, 4)
    exact = log_ratio_nats(new, rows.x0_old, rows.eps, rows.sensitivity, where)
    now, then = (log_prob_nats(rows.x_next, rows.mean(x0), rows.sigma, where) for x0 in (new, rows.x0_old))
    torch.testing.assert_close(exact / dims, (now - then) / dims, rtol=1e-4, atol=1e-6)


def test_valid_dims_count_frames_times_features() -> None:
    assert valid_dims(MASK, 4).tolist() == [28, 12, 20]


def test_kl_is_exactly_zero_for_equal_predictions() -> None:
    x0 = normal(3, 7, 4, seed=0)
    assert torch.equal(kl_nats(x0, x0.clone(), torch.tensor([19.7, 1.0, 0.03]), MASK), torch.zeros(3))


def test_kl_equals_torch_distributions() -> None:
    plan = StepPlan.build(Schedule.cosine(50))
    new, reference, x_t = (normal(1, 7, 4, seed=seed, dtype=torch.float64) for seed in range(3))
    mask = MASK[:1]
    for position in (0, 20, 40, 48):
        c_x0, c_xt, sigma, s = (table[position] for table in (plan.c_x0, plan.c_xt, plan.sigma, plan.sensitivity))
        one, other = (Normal(c_x0 * x0 + c_xt * x_t, sigma) for x0 in (new, reference))
        got = kl_nats(new, reference, s.expand(1), mask)[0]
        torch.testing.assert_close(got, kl_divergence(one, other).sum(), rtol=1e-6, atol=0)
        torch.testing.assert_close(kl_nats(reference, new, s.expand(1), mask)[0], got, rtol=1e-12, atol=0)


def standard_errors(samples: Tensor) -> tuple[float, float]:
    return samples.mean().item(), samples.std().item() / len(samples) ** 0.5


def test_monte_carlo_estimators_agree_with_the_closed_form() -> None:
    """k1 = -log r and k3 = r - 1 - log r under samples of the policy (r = reference / policy)."""
    move, s = 0.3, 1.5
    eps = normal(1_000_000, seed=0, dtype=torch.float64)
    # Samples of the policy; the reference's prediction lies `move` away, so log(ref / policy) is the exact ratio form.
    log_r = s * eps * move - 0.5 * s**2 * move**2
    one = torch.ones(1, 1, dtype=torch.bool)
    zero = torch.zeros(1, 1, 1, dtype=torch.float64)
    exact = kl_nats(zero, zero + move, torch.tensor([s], dtype=torch.float64), one).item()
    for samples in (-log_r, log_r.expm1() - log_r):
        mean, error = standard_errors(samples)
        assert abs(mean - exact) < 3 * error


def test_gradient_of_the_closed_form_and_why_k1_is_no_loss() -> None:
    """Policy N(theta, 1), reference N(0, 1), theta = 0.5: the true gradient is 0.5; k2 has it, k1's mean is 0."""
    theta = 0.5
    eps = normal(1_000_000, seed=1, dtype=torch.float64)
    leaf = torch.full((1, 1, 1), theta, dtype=torch.float64, requires_grad=True)
    one = torch.ones(1, 1, dtype=torch.bool)
    kl_nats(leaf, torch.zeros_like(leaf), torch.ones(1, dtype=torch.float64), one).sum().backward()
    assert leaf.grad is not None
    analytic = leaf.grad.item()
    assert analytic == pytest.approx(0.5, abs=1e-12)
    x = theta + eps
    score, log_ratio = x - theta, 0.5 * x**2 - 0.5 * (x - theta) ** 2
    k1, k1_error = standard_errors(score)
    k2, k2_error = standard_errors(log_ratio * score)
    assert abs(k2 - analytic) < 3 * k2_error
    assert abs(k1) < 3 * k1_error
    assert k1_error < 0.01 * analytic


def test_written_out_gradients() -> None:
    """The closed-form backward pass against finite differences, padding included."""
    old, eps, new = (normal(3, 7, 2, seed=seed, dtype=torch.float64) for seed in range(3))
    s = torch.tensor([0.5, 1.0, 2.0], dtype=torch.float64)
    leaf = new.requires_grad_()
    assert torch.autograd.gradcheck(lambda x: log_ratio_frames(x, old, eps, s, MASK), leaf)
    assert torch.autograd.gradcheck(lambda x: kl_nats(x, old, s, MASK), leaf)
    assert torch.autograd.gradcheck(lambda x: log_prob_nats(old, x, s, MASK), leaf)


def test_half_precision_predictions_are_scored_in_float32() -> None:
    old, eps, s = normal(3, 7, 4, seed=0), normal(3, 7, 4, seed=1), torch.ones(3)
    leaf = normal(3, 7, 4, seed=2).to(torch.bfloat16).requires_grad_()
    ratio = log_ratio_nats(leaf, old, eps, s, MASK)
    assert ratio.dtype == torch.float32
    torch.testing.assert_close(ratio, log_ratio_nats(leaf.detach().float(), old, eps, s, MASK))
    ratio.sum().backward()
    assert leaf.grad is not None
    assert leaf.grad.dtype == torch.bfloat16
