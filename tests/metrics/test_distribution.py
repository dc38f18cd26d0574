"""Distribution and matching metrics against recorded values and closed forms."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from motionkit.errors import MotionkitError
from motionkit.metrics import (
    KernelDistance,
    distances,
    diversity,
    frechet,
    guo_batches,
    interval,
    kid,
    matching_score,
    multimodality,
    r_precision,
    random_pairs,
    ranks,
    retrieval,
    retrieval_guo,
    retrieval_subset,
)
from motionkit.metrics._embeddings import moments


@pytest.fixture(scope="module")
def recorded(shared):
    arrays = np.load(shared / "fixtures" / "mdm" / "metrics.npz")
    return {name: torch.as_tensor(arrays[name]) for name in arrays.files}


def test_recorded_values(recorded):
    r = recorded
    assert frechet(r["gt"], r["gen"]) == pytest.approx(float(r["fid"]), rel=1e-5)
    assert frechet(r["gt"], r["gt"]) == pytest.approx(0.0, abs=1e-6)
    mean, cov = moments(r["gt"])
    torch.testing.assert_close(mean.float(), r["mu_gt"], rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(cov, r["cov_gt"], rtol=0, atol=1e-6)
    torch.testing.assert_close(r_precision(r["text"], r["gen"]), r["r_precision"], rtol=0, atol=1e-9)
    torch.testing.assert_close(matching_score(r["text"], r["gen"]), r["matching_score"], rtol=1e-5, atol=0)
    torch.testing.assert_close(distances(r["text"][:32], r["gen"][:32]), r["dist_mat_first_batch"], rtol=0, atol=1e-4)
    assert diversity(r["gen"], r["div_idx1"], r["div_idx2"]) == pytest.approx(float(r["diversity"]), rel=1e-5)
    assert multimodality(r["mm"], r["mm_idx1"], r["mm_idx2"]) == pytest.approx(float(r["multimodality"]), rel=1e-5)
    assert interval(r["rep_values"]) == pytest.approx((float(r["rep_mean"]), float(r["rep_ci"])), rel=1e-9)


@pytest.mark.parametrize(
    ("copies", "expected"), [(2, [1 / 2, 1, 1]), (3, [1 / 3, 2 / 3, 1]), (30, [1 / 30, 1 / 15, 1 / 10])]
)
def test_a_tie_counts_by_its_expectation(copies, expected):
    """Motions that are several times in their batch, each nearest to its own text: one of the copies is the own one."""
    points = 10 * torch.randn(32, 8, generator=torch.Generator().manual_seed(0))
    points = points[torch.arange(30) // copies]
    got = r_precision(points, points, batch=30)
    torch.testing.assert_close(got, torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-12)


def test_a_constant_model_has_chance():
    got = r_precision(torch.ones(64, 4), torch.zeros(64, 4))
    assert got.tolist() == [1 / 32, 2 / 32, 3 / 32]


def test_ties_against_random_orders():
    """Coarse distances with many partial ties, against the mean of orders that break each tie by chance."""
    rng = np.random.default_rng(0)
    text, motion = (torch.from_numpy(rng.integers(0, 3, (32, 2)).astype(np.float32)) for _ in range(2))
    table = distances(text, motion).numpy()
    draws, hits = 4000, np.zeros(3)
    for _ in range(draws):
        order = np.lexsort((rng.random((32, 32)), table))
        place = (order == np.arange(32)[:, None]).argmax(1)
        hits += [(place < k).mean() for k in (1, 2, 3)]
    # 32 texts x 4000 draws: a standard error of at most 0.0014.
    np.testing.assert_allclose(r_precision(text, motion).numpy(), hits / draws, atol=0.006)


def test_frechet_of_axis_aligned_gaussians():
    """With exact moments diag(a) and diag(b) the distance is |m|^2 + sum (sqrt a - sqrt b)^2."""

    def with_moments(mean, variance):
        signs = torch.tensor([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]], dtype=torch.float64)
        return signs * (torch.tensor(variance, dtype=torch.float64) * 3 / 4).sqrt() + torch.tensor(mean)

    got = frechet(with_moments([0.0, 0.0], [1.0, 4.0]), with_moments([3.0, 0.0], [4.0, 9.0]))
    assert got == pytest.approx(9.0 + 1.0 + 1.0, rel=1e-9)


def test_frechet_of_few_points_in_many_dimensions():
    points = torch.randn(20, 64, generator=torch.Generator().manual_seed(1))
    assert frechet(points, points) == pytest.approx(0.0, abs=1e-3)


def test_refusals():
    for call, word in (
        (lambda: moments(torch.zeros(1, 4)), "two embeddings"),
        (lambda: moments(torch.full((4, 4), torch.nan)), "not finite"),
        (lambda: frechet(torch.zeros(4, 3), torch.zeros(4, 2)), "width"),
        (lambda: r_precision(torch.zeros(8, 2), torch.zeros(8, 2)), "at least 32"),
        (lambda: random_pairs(10, 300, seed=0), "300 pairs"),
        (lambda: retrieval_guo(torch.zeros(8, 8)), "at least 32"),
        (lambda: retrieval(torch.zeros(8, 9)), "square"),
    ):
        with pytest.raises(MotionkitError, match=word):
            call()


def test_pairs_do_not_repeat():
    first, second = random_pairs(20, 10, seed=3)
    assert len(set(first.tolist())) == len(set(second.tolist())) == 10


@pytest.fixture(scope="module")
def recorded_run(shared):
    folder = shared / "fixtures" / "tmr" / "metrics"
    arrays = np.load(folder / "contrastive64.npz")
    return {name: torch.from_numpy(arrays[name]) for name in arrays.files}, json.loads(
        (folder / "contrastive64.json").read_text()
    )


def rounded(result):
    return {name: round(value, 2) for name, value in result.items()}


def test_recorded_protocols(recorded_run):
    arrays, expected = recorded_run
    sims, sentences = arrays["sims"], arrays["sent_emb"]
    assert rounded(retrieval(sims)) == expected["normal"]
    assert rounded(retrieval(sims, sentences=sentences)) == expected["threshold_0.95"]
    assert rounded(retrieval(sims, sentences=sentences, threshold=0.80)) == expected["threshold_0.80"]
    assert rounded(retrieval_subset(sims, arrays["nsim_idx"].tolist())) == expected["nsim"]
    assert rounded(retrieval_guo(sims)) == expected["guo"]
    assert rounded(retrieval(arrays["sims_ties"])) == expected["ties_averaging"]
    optimistic = retrieval(arrays["sims_ties"], ties="optimistic")
    assert {n: round(optimistic[f"t2m/{n}"], 2) for n in expected["ties_optimistic_t2m"]} == expected[
        "ties_optimistic_t2m"
    ]


def test_recorded_ranks(recorded_run):
    arrays, _ = recorded_run
    sims = arrays["sims"]
    similar = arrays["sent_emb"] @ arrays["sent_emb"].T > 0.90
    for got, name in (
        (ranks(sims), "normal_t2m_cols"),
        (ranks(sims.T), "normal_m2t_cols"),
        (ranks(sims, relevant=similar), "threshold_0.95_t2m_cols"),
        (ranks(sims.T, relevant=similar), "threshold_0.95_m2t_cols"),
        (ranks(arrays["sims_ties"]), "ties_averaging_t2m_cols"),
        (ranks(arrays["sims_ties"], ties="optimistic"), "ties_optimistic_t2m_cols"),
    ):
        torch.testing.assert_close(got, arrays[name], rtol=0, atol=0)


def test_recorded_batches(recorded_run):
    arrays, expected = recorded_run
    assert guo_batches(64) == arrays["guo_batches"].tolist()
    assert guo_batches(70) == arrays["guo_batches_n70"].tolist()
    test_size = guo_batches(4384)
    assert len(test_size) == expected["n_guo_batches_n4384"]
    assert test_size[0] == arrays["guo_first_batch_n4384"].tolist()


def test_ranks_equal_plain_sorting():
    sims = torch.randn(40, 40, generator=torch.Generator().manual_seed(0))
    plain = [sorted(row, reverse=True).index(row[i]) for i, row in enumerate(sims.tolist())]
    assert ranks(sims).tolist() == plain


def test_a_constant_model_is_at_chance():
    result = retrieval(torch.zeros(101, 101))
    assert result["t2m/R10"] == 0.0
    assert result["t2m/MedR"] == 51.0


def test_the_kernel_distance_of_a_part_is_that_of_the_part_alone():
    generator = torch.Generator().manual_seed(0)
    made, real = (torch.randn(count, 4, generator=generator) for count in (30, 50))
    whole = KernelDistance(made, real)
    counts = torch.zeros(30)
    counts[:20] = 1
    assert whole.of(counts) == pytest.approx(kid(made[:20], real), rel=1e-9)
    assert whole.of(torch.ones(30)) == pytest.approx(kid(made, real), rel=1e-9)
    # An item that counts twice is no pair with itself: all items twice change nothing but the weight of the diagonal.
    assert whole.of(torch.full((30,), 2.0)) == pytest.approx(kid(made, real), rel=1e-9)


def test_the_kernel_distance_is_unbiased_for_few_motions():
    generator = torch.Generator().manual_seed(0)
    draws = [kid(*torch.randn(2, 12, 8, generator=generator)) for _ in range(400)]
    assert abs(float(np.mean(draws))) < 3 * float(np.std(draws)) / 20
