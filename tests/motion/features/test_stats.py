from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from motionkit.errors import MotionkitError
from motionkit.motion import HUMANML, Normalizer, feature_layout, feature_stats


def test_statistics_by_hand():
    rng = np.random.default_rng(0)
    clips = [rng.normal(3.0, rng.uniform(0.5, 2.0, 263), (frames, 263)) for frames in (7, 40, 13)]
    mean, std = feature_stats([torch.from_numpy(clip) for clip in clips], HUMANML)
    rows = np.concatenate(clips)
    np.testing.assert_allclose(mean, rows.mean(axis=0), rtol=1e-6)
    for block in feature_layout(HUMANML).blocks:
        np.testing.assert_allclose(std[block], rows.std(axis=0)[block].mean(), rtol=1e-6)


def test_public_std_is_averaged_by_the_same_blocks(shared: Path):
    std = np.load(shared / "fixtures/mdm/features_012314.npz")["Std"]
    values = [np.unique(std[block]) for block in feature_layout(HUMANML).blocks]
    assert [len(value) for value in values] == [1] * 7
    assert len(np.unique(std)) == 7


def test_large_steady_values_keep_their_spread():
    rows = 1e6 + torch.randn(1000, 263, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) * 1e-3
    _, std = feature_stats([rows[:10], rows[10:]], HUMANML)
    assert float(std[100]) == pytest.approx(1e-3, rel=0.01)


def test_a_block_that_never_varies_gets_one():
    rows = torch.randn(50, 263)
    rows[:, 259:] = 1.0
    _, std = feature_stats([rows], HUMANML)
    assert std[259:].tolist() == [1.0] * 4


def test_no_frames():
    with pytest.raises(MotionkitError, match="no frames"):
        feature_stats([], HUMANML)


def test_normalizer_inverts():
    normalizer = Normalizer(torch.randn(263), torch.rand(263) + 0.1)
    rows = torch.randn(4, 9, 263)
    torch.testing.assert_close(normalizer.denormalize(normalizer.normalize(rows)), rows, atol=1e-5, rtol=1e-5)
    assert normalizer.to("cpu").width == 263


@pytest.mark.parametrize("std", [torch.zeros(4), torch.full((4,), float("nan")), torch.ones(3)])
def test_normalizer_refuses(std):
    with pytest.raises(MotionkitError):
        Normalizer(torch.zeros(4), std)
