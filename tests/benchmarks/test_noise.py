"""Counter-based noise against the generator of torch, for one rollout step of 64 samples."""

from __future__ import annotations

import pytest
import torch

from motionkit.rl import gaussian, noise_key

from .ratios import Ratios

GROUP = "Noise of one step (64 samples of 196 frames x 263 features)"
COUNT, SHAPE = 64, (196, 263)


@pytest.mark.benchmark(group=GROUP)
@pytest.mark.parametrize("row", ["torch.randn", "counter-based"])
def test_noise(row: str, benchmark, ratios: Ratios) -> None:
    prompts, samples = torch.arange(COUNT) // 8, torch.arange(COUNT) % 8
    if row == "torch.randn":
        drawn = benchmark(lambda: torch.randn(COUNT, *SHAPE))
    else:
        drawn = benchmark(lambda: gaussian(noise_key(0, 1, 2, prompts, samples), SHAPE))
    ratios.add(GROUP, row, float(benchmark.stats.stats.min))
    assert drawn.shape == (COUNT, *SHAPE)
    assert abs(float(drawn.std()) - 1) < 0.01
