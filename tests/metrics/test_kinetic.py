"""Kinetic features against analytic values and a slow loop."""

from __future__ import annotations

import math

import pytest
import torch

from motionkit.metrics import kinetic_features, kinetic_fid


def test_a_throw_has_its_energies_and_its_acceleration() -> None:
    fps, count = 20.0, 41
    time = torch.arange(count, dtype=torch.float64) / fps
    fall = torch.stack([3.0 * time, 2.0 * time - 9.81 / 2 * time**2, -4.0 * time], dim=-1)
    found = kinetic_features(fall[None, :, None], torch.tensor([count]), fps)[0]
    inner = 2.0 - 9.81 * time[1:-1]  # central differences of a parabola are exact
    torch.testing.assert_close(found, torch.tensor([25.0, float((inner**2).mean()), 9.81], dtype=torch.float64))


def test_features_are_those_of_a_slow_loop_and_padding_counts_for_nothing() -> None:
    draw = torch.Generator().manual_seed(0)
    joints, lengths, fps = torch.randn(3, 9, 2, 3, generator=draw), torch.tensor([9, 4, 2]), 12.5
    padded = joints.clone()
    padded[1, 4:], padded[2, 2:] = torch.nan, torch.nan
    found = kinetic_features(padded, lengths, fps)
    assert found.shape == (3, 6)
    assert found[2].isnan().all()
    for row, length in enumerate(lengths.tolist()[:2]):
        for joint in range(2):
            terms = []
            for frame in range(1, length - 1):
                before, here, after = (joints[row, frame + step, joint].tolist() for step in (-1, 0, 1))
                velocity = [(a - b) * fps / 2 for a, b in zip(after, before, strict=True)]
                push = [(a - 2 * h + b) * fps**2 for a, h, b in zip(after, here, before, strict=True)]
                terms.append((velocity[0] ** 2 + velocity[2] ** 2, velocity[1] ** 2, math.hypot(*push)))
            for place in range(3):
                mean = sum(term[place] for term in terms) / len(terms)
                assert float(found[row, 2 * place + joint]) == pytest.approx(mean, rel=1e-4)


def test_distance_is_that_of_gaussians_in_units_of_the_real_deviation() -> None:
    draw = torch.Generator().manual_seed(1)
    real = torch.randn(500, 3, generator=draw, dtype=torch.float64) * torch.tensor([1.0, 100.0, 0.01])
    assert kinetic_fid(real, real) < 1e-9
    shifted = real + 2 * real.std(0)
    assert kinetic_fid(shifted, real) == pytest.approx(3 * 4.0, rel=1e-6)
    assert kinetic_fid(torch.zeros_like(real), real) == pytest.approx(3.0, rel=0.02)  # means 0, variances 1 against 0
