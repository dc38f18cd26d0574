"""Counter-based noise: independence of the batch, golden stream, distribution, variants, below a frequency."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from motionkit.errors import MotionkitError
from motionkit.rl import LowPass, NoiseSource, Objective, Surrogate, gaussian, length_mask, noise_key, stable_hash

from .toys import transitions

PROMPTS = torch.tensor([stable_hash(f"prompt {i // 4}") for i in range(23)])
SAMPLES = torch.arange(23) % 4
GOLDEN_HASH = -3261847469724367676
GOLDEN_KEYS = [2500916899315527062, -5075748281081666397]
GOLDEN_NORMALS = [
    1.41826,
    0.6868294,
    1.5105435,
    -1.6991736,
    -1.5426173,
    -0.3910905,
    -1.2423986,
    -1.2004162,
    0.9283909,
    0.19315,
    -0.1953803,
    0.242746,
]


def test_golden_stream() -> None:
    """The CPU stream is part of the contract: published runs must stay reproducible."""
    assert stable_hash("a person walks") == GOLDEN_HASH
    keys = noise_key(7, 3, 49, torch.tensor([GOLDEN_HASH, 1]), torch.tensor([0, 5]))
    assert keys.tolist() == GOLDEN_KEYS
    drawn = gaussian(keys, (2, 3))
    torch.testing.assert_close(drawn.flatten(), torch.tensor(GOLDEN_NORMALS), rtol=0, atol=2e-6)


def test_key_equals_an_independent_splitmix64() -> None:
    mask = (1 << 64) - 1

    def absorb(key: int, value: int) -> int:
        z = (key + value + 0x9E3779B97F4A7C15) & mask
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        return z ^ (z >> 31)

    for seed, step, timestep, prompt, sample in (
        (0, 0, 0, 0, 0),
        (3, 9, -1, -(2**62), 7),
        (2**40, 5, 49, 2**63 - 1, 31),
    ):
        key = 0
        for value in (seed, step, timestep, prompt, sample):
            key = absorb(key, value)
        got = noise_key(seed, step, timestep, torch.tensor([prompt]), torch.tensor([sample])).item()
        assert got % 2**64 == key


@pytest.mark.parametrize("threads", [1, 2])
def test_a_sample_is_the_same_whatever_the_batch(threads: int) -> None:
    source, before = NoiseSource(11), torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        whole = source.at(2, PROMPTS, SAMPLES, 30, (61, 17))
        for size in (1, 2, 3, 5, 8, 13, 22):
            assert torch.equal(source.at(2, PROMPTS[:size], SAMPLES[:size], 30, (61, 17)), whole[:size])
        order = torch.randperm(23, generator=torch.Generator().manual_seed(0))
        assert torch.equal(source.at(2, PROMPTS[order], SAMPLES[order], 30, (61, 17)), whole[order])
    finally:
        torch.set_num_threads(before)


def test_padding_to_a_longer_batch_does_not_change_the_first_frames() -> None:
    source = NoiseSource(11)
    long = source.start(2, PROMPTS, SAMPLES, (196, 263))
    assert torch.equal(source.start(2, PROMPTS, SAMPLES, (41, 263)), long[:, :41])


def test_every_part_of_the_key_matters() -> None:
    base = NoiseSource(0).at(0, PROMPTS[:1], SAMPLES[:1], 5, (4, 4))
    others = [
        NoiseSource(1).at(0, PROMPTS[:1], SAMPLES[:1], 5, (4, 4)),
        NoiseSource(0).at(1, PROMPTS[:1], SAMPLES[:1], 5, (4, 4)),
        NoiseSource(0).at(0, PROMPTS[4:5], SAMPLES[:1], 5, (4, 4)),
        NoiseSource(0).at(0, PROMPTS[:1], SAMPLES[1:2], 5, (4, 4)),
        NoiseSource(0).at(0, PROMPTS[:1], SAMPLES[:1], 6, (4, 4)),
        NoiseSource(0).start(0, PROMPTS[:1], SAMPLES[:1], (4, 4)),
    ]
    for other in others:
        assert not torch.isclose(base, other).any()


def test_distribution() -> None:
    ids = torch.arange(64)
    x = NoiseSource(3).at(0, ids, ids * 0, 9, (100, 100)).double().view(64, -1)
    n = x.numel()
    assert x.mean().abs().item() < 4 / n**0.5
    assert x.var().item() == pytest.approx(1, abs=4 * (2 / n) ** 0.5)
    assert (x**3).mean().abs().item() < 4 * (15 / n) ** 0.5
    assert (x**4).mean().item() == pytest.approx(3, abs=4 * (96 / n) ** 0.5)
    quantiles = torch.tensor([0.001, 0.05, 0.5, 0.95, 0.999], dtype=torch.float64)
    expected = torch.special.ndtri(quantiles)
    got = (x.flatten()[:, None] < expected).double().mean(0)
    assert bool(((got - quantiles).abs() < 4 * (quantiles * (1 - quantiles) / n).sqrt()).all())
    correlation = torch.corrcoef(x)
    off = correlation[~torch.eye(64, dtype=torch.bool)]
    assert off.abs().max().item() < 5.5 / 100
    for lag in (1, 2, 63, 64, 65, 128):
        assert (x[:, lag:] * x[:, :-lag]).mean().abs().item() < 4 / n**0.5


def test_antithetic_pairs_and_shared_starts() -> None:
    step = NoiseSource(0, antithetic=True).at(0, PROMPTS, SAMPLES, 5, (3, 2))
    assert torch.equal(step[0], -step[1])
    assert torch.equal(step[2], -step[3])
    assert not torch.isclose(step[0].abs(), step[2].abs()).any()
    assert not torch.isclose(step[0].abs(), step[4].abs()).any()

    def start(initial: str) -> torch.Tensor:
        return NoiseSource(0, initial=initial).start(0, PROMPTS, SAMPLES, (3, 2))  # type: ignore[arg-type]  # parametrised

    group, mirrored = start("group"), start("antithetic")
    assert torch.equal(group[0], group[3])
    assert not torch.equal(group[3], group[4])
    assert torch.equal(mirrored[0], -mirrored[1])
    with pytest.raises(MotionkitError, match="initial noise"):
        start("same")


def test_hash_is_signed_64_bit_and_stable() -> None:
    values = {stable_hash(f"text {i}") for i in range(1000)}
    assert len(values) == 1000
    assert all(-(2**63) <= value < 2**63 for value in values)
    assert torch.tensor(list(values)).dtype == torch.int64


LOW = LowPass(3.0, fps=20.0)
LENGTHS = torch.tensor([40, 40, 29, 29, 17, 17])
ASKED = torch.tensor([5, 5, 6, 6, 7, 7])
DRAWN = torch.tensor([0, 1] * 3)
SHAPE = (40, 3)


def drawn(source: NoiseSource) -> torch.Tensor:
    return source.steps(2, ASKED, DRAWN, SHAPE, LENGTHS)(30)


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
    assert torch.equal(drawn(plain), plain.at(2, ASKED, DRAWN, 30, SHAPE))


@pytest.mark.parametrize("frequency", [0.0, -1.0, 10.0, float("nan")])
def test_frequencies_that_motions_do_not_have(frequency: float) -> None:
    with pytest.raises(MotionkitError, match="low-pass"):
        LowPass(frequency, fps=20.0)
