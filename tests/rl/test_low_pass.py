"""Low-pass exploration: the projection, and that every sample keeps its standard normal noise."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from motionkit.errors import MotionkitError
from motionkit.rl import LowPass, NoiseSource, Objective, Surrogate, length_mask

from .toys import transitions

LOW = LowPass(3.0, fps=20.0)
LENGTHS = torch.tensor([40, 40, 29, 29, 17, 17])
PROMPTS = torch.tensor([5, 5, 6, 6, 7, 7])
SAMPLES = torch.tensor([0, 1] * 3)
SHAPE = (40, 3)


def drawn(source: NoiseSource) -> torch.Tensor:
    return source.steps(2, PROMPTS, SAMPLES, SHAPE, LENGTHS)(30)


def test_it_keeps_the_first_rows_of_the_cosine_transform() -> None:
    values = torch.randn(6, *SHAPE, generator=torch.Generator().manual_seed(0))
    values[2:4, 29:] = torch.nan  # padding
    found = LOW(values, LENGTHS)
    for row, length in enumerate(LENGTHS.tolist()):
        # The nearest sum of half-wave cosines that end at a crest, which is what the first rows of the DCT-II are.
        waves = np.cos(np.pi * np.outer(np.arange(length) + 0.5, np.arange(round(0.3 * length))) / length)
        target = values[row, :length].double().numpy()
        slow = waves @ np.linalg.lstsq(waves, target, rcond=None)[0]
        np.testing.assert_allclose(found[row, :length].numpy(), slow, atol=2e-6)
        assert not found[row, length:].any()


def test_it_is_a_projection() -> None:
    values = torch.randn(6, *SHAPE, generator=torch.Generator().manual_seed(0))
    once = LOW(values, LENGTHS)
    torch.testing.assert_close(LOW(once, LENGTHS), once, rtol=0, atol=2e-6)
    other = torch.randn(6, *SHAPE, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close((LOW(values, LENGTHS) * other).sum(), (values * LOW(other, LENGTHS)).sum())


def test_samples_of_a_prompt_differ_below_the_frequency_only() -> None:
    noise = drawn(NoiseSource(0, low_pass=LOW))
    fast = noise - LOW(noise, LENGTHS)
    for first, length in ((0, 40), (2, 29), (4, 17)):
        torch.testing.assert_close(fast[first, :length], fast[first + 1, :length], rtol=0, atol=1e-5)
        assert (noise[first, :length] - noise[first + 1, :length]).abs().mean() > 0.3
    assert (fast[0, :17] - fast[4, :17]).abs().mean() > 0.3  # prompts differ in all


def test_pairs_are_opposite_below_the_frequency() -> None:
    noise = LOW(drawn(NoiseSource(0, antithetic=True, low_pass=LOW)), LENGTHS)
    torch.testing.assert_close(noise[0::2], -noise[1::2], rtol=0, atol=5e-6)


@pytest.mark.parametrize("antithetic", [False, True])
def test_every_sample_alone_is_standard_normal(antithetic: bool) -> None:
    """Covariance over time of one sample of many prompts, for even and odd numbers."""
    count, length = 40_000, 12
    low, source = LowPass(4.0, fps=20.0), NoiseSource(3, antithetic=antithetic)
    source = NoiseSource(3, antithetic=antithetic, low_pass=low)
    prompts = torch.arange(count)
    for number in (0, 1):
        noise = source.steps(0, prompts, torch.full((count,), number), (length, 1), torch.full((count,), length))(7)
        flat = noise[..., 0]
        covariance = flat.T @ flat / count
        error = 5 / count**0.5
        torch.testing.assert_close(covariance, torch.eye(length), rtol=0, atol=1.5 * error)
        assert flat.mean(0).abs().max() < error
        assert (flat**4).mean().item() == pytest.approx(3.0, abs=0.1)


@pytest.mark.parametrize("on_policy", [True, False])
def test_the_log_ratio_is_that_of_the_part_that_was_explored(on_policy: bool) -> None:
    """Density of the slow part of the next state under both policies, by hand."""
    generator = torch.Generator().manual_seed(0)
    x_t, eps, old, new = (torch.randn(6, *SHAPE, generator=generator, dtype=torch.float64) for _ in range(4))
    new = old + 0.1 * new
    low = LowPass(3.0, fps=20.0)
    mask = length_mask(LENGTHS, SHAPE[0])
    sigma, c_x0 = 0.7, 0.4
    scale = torch.full((6,), c_x0, dtype=torch.float64)
    rows = transitions(x_t, eps, old, sensitivity=scale / sigma, c_x0=scale)

    def slow(values: torch.Tensor) -> torch.Tensor:
        return low(values.float(), LENGTHS).double()

    objective = Objective(ratio_norm="none", surrogate=Surrogate(on_policy=on_policy))
    terms = objective(rows, new, torch.ones(6), mask, total=6, explored=slow)
    after = slow(rows.mean(old) + sigma * eps)
    log = [-(after - slow(rows.mean(x0))).square().sum((1, 2)) / (2 * sigma**2) for x0 in (new, old)]
    along = (c_x0 / sigma * slow(eps) * (new - old)).sum((1, 2))
    expected = (
        log[0] - log[1]
        if not on_policy
        else along - (c_x0 / sigma) ** 2 / 2 * ((new - old).square() * mask[..., None]).sum((1, 2))
    )
    found = terms.log_ratio_per_dim * mask.sum(1) * SHAPE[1]
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def test_without_a_frequency_nothing_changes() -> None:
    plain = NoiseSource(0)
    assert torch.equal(drawn(plain), plain.at(2, PROMPTS, SAMPLES, 30, SHAPE))


@pytest.mark.parametrize("frequency", [0.0, -1.0, 10.0, float("nan")])
def test_frequencies_that_motions_do_not_have(frequency: float) -> None:
    with pytest.raises(MotionkitError, match="low-pass"):
        LowPass(frequency, fps=20.0)
