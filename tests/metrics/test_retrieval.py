"""Retrieval protocols against recorded values and against plain sorting."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from motionkit.errors import MotionkitError
from motionkit.metrics import guo_batches, ranks, retrieval, retrieval_guo, retrieval_subset


@pytest.fixture(scope="module")
def recorded(shared):
    folder = shared / "fixtures" / "tmr" / "metrics"
    arrays = np.load(folder / "contrastive64.npz")
    return {name: torch.from_numpy(arrays[name]) for name in arrays.files}, json.loads(
        (folder / "contrastive64.json").read_text()
    )


def rounded(result):
    return {name: round(value, 2) for name, value in result.items()}


def test_recorded_protocols(recorded):
    arrays, expected = recorded
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


def test_recorded_ranks(recorded):
    arrays, _ = recorded
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


def test_recorded_batches(recorded):
    arrays, expected = recorded
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


def test_too_few_items_for_batches():
    with pytest.raises(MotionkitError, match="at least 32"):
        retrieval_guo(torch.zeros(8, 8))
    with pytest.raises(MotionkitError, match="square"):
        retrieval(torch.zeros(8, 9))
