"""Sums over clips against numpy and circular statistics by hand."""

from __future__ import annotations

import cmath
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from motionkit.clips.profile.measure import Bins, Circle, Moments
from motionkit.geometry import unwrap

numbers = st.lists(st.floats(-100, 100), min_size=1, max_size=30)


@given(numbers, numbers)
def test_moments_of_two_sets_are_those_of_both_together(first: list[float], second: list[float]) -> None:
    both = Moments.of(torch.tensor(first)) + Moments.of(torch.tensor(second))
    values = np.array(first + second, dtype=np.float32).astype(np.float64)
    assert both.count == len(values)
    assert both.mean == pytest.approx(values.mean(), abs=1e-9)
    assert both.std == pytest.approx(values.std(), abs=1e-5)
    assert (both.least, both.most) == (values.min(), values.max())


def test_no_values_have_no_mean() -> None:
    assert Moments.of(torch.zeros(0)).mean is None
    assert Moments().std is None
    assert Circle().mean_deg is None
    assert Circle().std_deg is None


@given(st.lists(st.floats(-10, 10), min_size=1, max_size=20))
def test_circular_mean_and_std_are_of_the_mean_vector(angles: list[float]) -> None:
    circle = Circle.of(torch.tensor(angles[:3], dtype=torch.float64)) + Circle.of(
        torch.tensor(angles[3:], dtype=torch.float64)
    )
    vector = sum(cmath.exp(1j * angle) for angle in angles) / len(angles)
    if abs(vector) > 1e-6:
        assert circle.length == pytest.approx(abs(vector))
        assert math.cos(math.radians(circle.mean_deg or 0.0) - cmath.phase(vector)) == pytest.approx(1.0)
        expected = math.degrees(math.sqrt(max(-2 * math.log(min(abs(vector), 1.0)), 0.0)))
        assert circle.std_deg == pytest.approx(expected, abs=1e-5)


def test_directions_on_both_sides_of_straight_back_agree() -> None:
    circle = Circle.of(torch.deg2rad(torch.tensor([170.0, -170.0], dtype=torch.float64)))
    assert abs(circle.mean_deg or 0.0) == pytest.approx(180.0)
    assert (circle.std_deg or 0.0) < 11.0


def test_bins_count_every_value_once_and_give_quantiles_back() -> None:
    bins = Bins(-1.0, 0.1, 20)
    values = torch.from_numpy(np.random.default_rng(0).normal(0, 0.4, (3, 5000)))
    counts = bins.tally(values)
    assert counts.sum(1).tolist() == [5000] * 3
    expected = np.histogram(np.clip(values[1].numpy(), -1, 0.9999), np.linspace(-1, 1, 21))[0]
    assert np.abs(counts[1] - expected).max() <= 1  # an edge may fall either way
    for part in (0.05, 0.5, 0.95):
        exact = np.quantile(np.clip(values.numpy(), -1, 1), part, axis=1)
        assert bins.quantile(counts, part) == pytest.approx(exact.tolist(), abs=0.02)


@given(st.lists(st.floats(-3, 3), min_size=1, max_size=40))
def test_unwrapping_undoes_wrapping(steps: list[float]) -> None:
    angle = torch.tensor(steps, dtype=torch.float64).cumsum(0)
    wrapped = torch.atan2(angle.sin(), angle.cos())
    expected = np.unwrap(wrapped.numpy())
    assert unwrap(wrapped).tolist() == pytest.approx(expected.tolist(), abs=1e-9)
