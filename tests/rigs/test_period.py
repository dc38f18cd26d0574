from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from motionkit.errors import MotionkitError
from motionkit.rigs import soft_period


def slow_edges(scores: np.ndarray) -> np.ndarray:
    """Phase of one foot, frame by frame, from the words of the definition."""
    rises = [t for t in range(1, len(scores)) if scores[t] > 0.5 and not scores[t - 1] > 0.5]
    phase = np.zeros(len(scores))
    for t in range(len(scores)):
        before = [rise for rise in rises if rise <= t]
        after = [rise for rise in rises if rise > t]
        if not rises:
            phase[t] = 2 * math.pi * t / len(scores)
        elif not before:
            phase[t] = -2 * math.pi + 2 * math.pi * t / rises[0]
        else:
            end = after[0] if after else len(scores)
            phase[t] = 2 * math.pi * (t - before[-1]) / (end - before[-1])
    return phase


@pytest.mark.parametrize("seed", range(5))
def test_edges_follow_the_definition(seed: int) -> None:
    scores = np.random.default_rng(seed).uniform(size=(37, 2)) ** (1 + seed % 3)
    period, _ = soft_period(torch.from_numpy(scores), method="edges")
    left, right = slow_edges(scores[:, 0]), slow_edges(scores[:, 1])
    expected = np.stack([np.sin(left), np.sin(right), np.cos(left), np.cos(right)], axis=1)
    np.testing.assert_allclose(period.numpy(), expected, atol=1e-12)


def test_edges_by_hand() -> None:
    contacts = torch.zeros(12, 2, dtype=torch.float64)
    contacts[2:4, 0] = contacts[6:9, 0] = 0.9  # down at 2 and 6; the right foot never
    period, confidence = soft_period(contacts)
    quarter = [math.sin(0.5 * math.pi * k) for k in range(4)]
    np.testing.assert_allclose(period[2:6, 0], quarter, atol=1e-12)
    np.testing.assert_allclose(period[:2, 2], [1.0, -1.0], atol=1e-12)  # -2 pi, -pi
    np.testing.assert_allclose(period[:, 1], np.sin(2 * np.pi * np.arange(12) / 12), atol=1e-12)
    assert confidence[:, 0].tolist() == [0.5] * 2 + [1.0] * 4 + [0.5] * 6
    assert confidence[:, 1].tolist() == [0.0] * 12


def test_a_clip_that_starts_on_the_foot_has_no_edge_there() -> None:
    contacts = torch.ones(8, 2)
    period, confidence = soft_period(contacts)
    torch.testing.assert_close(period[:, 0], torch.sin(2 * math.pi * torch.arange(8) / 8))
    assert not confidence.any()


@pytest.mark.parametrize("frames", [120, 121])
@pytest.mark.parametrize("height", [0.5, 0.2])
def test_hilbert_finds_the_phase_of_a_sine(frames: int, height: float) -> None:
    """Also where no score reaches 0.5 from below: 0.2 + 0.2 sin stays under it."""
    angle = 2 * math.pi * 3 * torch.arange(frames, dtype=torch.float64) / frames + 0.4
    contacts = torch.stack([height + height * torch.sin(angle), height - height * torch.sin(angle)], -1)
    period, confidence = soft_period(contacts, method="hilbert", fps=30.0)
    expected = torch.stack([angle.sin(), -angle.sin(), angle.cos(), -angle.cos()], -1)
    torch.testing.assert_close(period, expected, atol=1e-9, rtol=0)
    torch.testing.assert_close(confidence, torch.full_like(confidence, 2 * height))


def test_hilbert_leaves_out_what_flickers() -> None:
    place = torch.arange(120, dtype=torch.float64) / 60.0
    gait = torch.sin(2 * math.pi * place)
    flicker = 0.3 * torch.sin(2 * math.pi * 20.0 * place)
    contacts = torch.stack([0.5 + 0.4 * gait + flicker, 0.5 - 0.4 * gait], -1)
    period, _ = soft_period(contacts, method="hilbert", fps=60.0)
    torch.testing.assert_close(period[:, 0], gait, atol=1e-9, rtol=0)


def test_both_methods_agree_about_a_steady_walk() -> None:
    place = torch.arange(240, dtype=torch.float64) / 60.0
    left, right = (0.5 + 0.4 * torch.sin(2 * math.pi * place - shift) for shift in (0.7, 0.7 + math.pi))
    contacts = torch.stack([left, right], dim=-1)
    edges, sure = soft_period(contacts)
    smooth, _ = soft_period(contacts, method="hilbert", fps=60.0)
    one_frame = 2 * math.pi / 60.0
    assert float((edges - smooth)[(sure == 1).all(-1)].abs().max()) < one_frame


def test_nobody_moves() -> None:
    period, confidence = soft_period(torch.full((10, 2), 0.9), method="hilbert")
    assert torch.isfinite(period).all()
    assert float(confidence.abs().max()) < 1e-6


def test_hilbert_has_gradients() -> None:
    contacts = torch.rand(40, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    period, _ = soft_period(contacts, method="hilbert")
    period.sum().backward()
    assert contacts.grad is not None
    assert torch.isfinite(contacts.grad).all()
    assert contacts.grad.abs().sum() > 0


def test_three_feet_are_refused() -> None:
    with pytest.raises(MotionkitError, match=r"\[4, 3\]"):
        soft_period(torch.zeros(4, 3))
