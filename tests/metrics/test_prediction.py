"""Figures of motion predictors, against analytic values and slow versions."""

from __future__ import annotations

import math

import pytest
import roma
import torch

from motionkit.geometry import matrix_from_6d, matrix_to_6d
from motionkit.metrics import (
    LEVELS,
    auroc,
    f1_terms,
    geodesic_degrees,
    joint_jerk,
    npss_rows,
    npss_terms,
    score_levels,
    slide_terms,
    yaw_degrees,
)


@pytest.mark.parametrize("angle", [1e-6, 1e-3, 1.0, 3.0])
def test_geodesic_is_the_length_of_the_logarithm_down_to_a_millionth(angle: float) -> None:
    base = roma.random_rotmat(16, dtype=torch.float64)
    vector = torch.nn.functional.normalize(torch.randn(16, 3, dtype=torch.float64), dim=-1) * angle
    turned = base @ roma.rotvec_to_rotmat(vector)
    found = geodesic_degrees(base, turned)
    torch.testing.assert_close(found, torch.full_like(found, math.degrees(angle)), rtol=1e-7, atol=1e-9)
    log = roma.rotmat_to_rotvec(base.transpose(-1, -2) @ turned)
    torch.testing.assert_close(found, torch.rad2deg(log.norm(dim=-1)), rtol=1e-7, atol=1e-9)


def test_six_numbers_and_back_is_the_rotation_itself() -> None:
    rotations = roma.random_rotmat(64, dtype=torch.float64)
    assert float(geodesic_degrees(matrix_from_6d(matrix_to_6d(rotations)), rotations).max()) < 1e-6


def test_yaw_goes_the_short_way_round() -> None:
    first = torch.tensor([0.0, math.pi - 0.1, -3 * math.pi, 0.5], dtype=torch.float64)
    second = torch.tensor([0.2, -math.pi + 0.1, math.pi, 0.5 + 2 * math.pi], dtype=torch.float64)
    torch.testing.assert_close(
        yaw_degrees(first, second), torch.rad2deg(torch.tensor([0.2, 0.2, 0.0, 0.0], dtype=torch.float64))
    )


def test_npss_moves_the_whole_power_of_a_sine_by_the_difference_of_the_frequencies() -> None:
    time = torch.arange(32, dtype=torch.float64)[None, :, None] / 32
    one, three = (torch.sin(2 * math.pi * count * time) for count in (1, 3))
    moved, power = npss_terms(three, one)
    # Each sine has two lines, at k and 32 - k; half of the power moves by two bins at both ends.
    torch.testing.assert_close(moved / power, torch.tensor([2.0], dtype=torch.float64))
    both = torch.cat([one, 2 * one], dim=-1)  # the second feature has four times the power
    moved, power = npss_terms(torch.cat([three, 2 * one], dim=-1), both)
    torch.testing.assert_close(moved / power, torch.tensor([2.0 / 5.0], dtype=torch.float64))
    still = torch.zeros(1, 8, 2, dtype=torch.float64)
    assert [float(value) for value in npss_terms(still, still)] == [0.0, 0.0]


def test_npss_of_sequences_of_their_own_lengths_is_that_of_each() -> None:
    draw = torch.Generator().manual_seed(0)
    made = [torch.randn(length, 3, generator=draw) for length in (8, 12, 12, 9)]
    truths = [torch.randn(8, 3, generator=draw), made[1], torch.randn(11, 3, generator=draw), None]
    moved, power = npss_rows(made, truths)
    first, second = npss_terms(made[0][None], truths[0][None])  # type: ignore[index]
    assert float(moved[0]) == float(first)
    assert float(power[0]) == float(second)
    assert float(moved[1]) == 0.0 < float(power[1])
    assert moved.isnan().tolist() == power.isnan().tolist() == [False, False, True, True]
    assert [one.shape for one in npss_rows([], [])] == [(0,), (0,)]


def test_f1_and_auroc_are_those_of_counting() -> None:
    generator = torch.Generator().manual_seed(0)
    truth = torch.rand(3, 40, 2, generator=generator)
    scores = (truth + 0.3 * torch.randn(truth.shape, generator=generator)).clamp(0, 1)
    above, below = f1_terms(scores, truth)
    said, true = (scores > 0.5).flatten(), (truth > 0.5).flatten()
    precision, recall = (said & true).sum() / said.sum(), (said & true).sum() / true.sum()
    assert float(above.sum() / below.sum()) == pytest.approx(float(2 * precision * recall / (precision + recall)))

    levels = score_levels(scores).flatten()
    counts = [torch.bincount(levels[kind], minlength=LEVELS).double() for kind in (true, ~true)]
    pairs = levels[true][:, None] - levels[~true][None]
    slow = ((pairs > 0).double() + (pairs == 0).double() / 2).mean()
    assert float(auroc(counts[0], counts[1])) == pytest.approx(float(slow))
    exact = scores.flatten()[true][:, None] > scores.flatten()[~true][None]
    assert float(slow) == pytest.approx(float(exact.double().mean()), abs=2e-3)
    assert math.isnan(float(auroc(counts[0], torch.zeros(LEVELS))))


def test_scores_that_are_the_truth_are_perfect_even_close_to_one_half() -> None:
    truth = torch.tensor([0.5, 0.5000001, 0.4999999, 0.6], dtype=torch.float64)
    levels, stands = score_levels(truth), truth > 0.5
    counts = [torch.bincount(levels[kind], minlength=LEVELS).double() for kind in (stands, ~stands)]
    assert float(auroc(counts[0], counts[1])) == 1.0


def test_a_foot_slides_as_fast_as_it_moves_while_it_stands() -> None:
    feet = torch.zeros(1, 5, 2, 3, dtype=torch.float64)
    feet[0, :, 0, 0] = torch.arange(5) * 0.03  # 3 cm a frame along x
    feet[0, :, 0, 2] = torch.arange(5) * 0.04  # and 4 along z
    feet[0, :, 1, 1] = torch.arange(5)  # straight up: no slide
    contacts = torch.tensor([[1.0, 1.0], [1.0, 0.0], [0.0, 0.0], [0.0, 0.0]], dtype=torch.float64)[None]
    above, below = slide_terms(feet, contacts, fps=20.0)
    assert float(above) == pytest.approx(2 * 20 * 0.05)
    assert float(below) == 3.0


def test_jerk_of_a_cubic_is_its_third_derivative() -> None:
    time = torch.arange(8, dtype=torch.float64) / 10
    joints = torch.stack([time**3, 2 * time**2, torch.ones_like(time)], dim=-1)[None, :, None]
    torch.testing.assert_close(joint_jerk(joints, fps=10.0), torch.full((1, 5), 6.0, dtype=torch.float64))
