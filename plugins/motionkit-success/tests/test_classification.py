"""Figures of classifiers against slow versions that share no code with them."""

from __future__ import annotations

import math

import pytest
import torch

from motionkit_success.classification import (
    AtThreshold,
    Calibration,
    Reliability,
    average_precision,
    calibration_error,
    classifier_auroc,
    episode_interval,
    fit_calibration,
    pr_curve,
    roc_curve,
    threshold_for_f,
    threshold_for_precision,
)


def made(seed, count=60, ties=True):
    generator = torch.Generator().manual_seed(seed)
    scores = torch.rand(count, generator=generator)
    labels = (torch.rand(count, generator=generator) < scores).float()
    return (scores * 8).round() / 8 if ties else scores, labels


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("ties", [True, False])
def test_auroc_is_the_share_of_pairs_in_order(seed, ties):
    scores, labels = made(seed, ties=ties)
    ups, downs = scores[labels > 0.5].tolist(), scores[labels < 0.5].tolist()
    pairs = [1.0 if up > down else 0.5 if up == down else 0.0 for up in ups for down in downs]
    assert classifier_auroc(scores, labels) == pytest.approx(sum(pairs) / len(pairs), abs=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_average_precision_adds_precision_times_gained_recall(seed):
    scores, labels = made(seed)
    total, before, area = int(labels.sum()), 0.0, 0.0
    for level in sorted(set(scores.tolist()), reverse=True):
        said = [truth for score, truth in zip(scores.tolist(), labels.tolist(), strict=True) if score >= level]
        area += (sum(said) / total - before) * (sum(said) / len(said))
        before = sum(said) / total
    assert average_precision(scores, labels) == pytest.approx(area, abs=1e-12)


def test_roc_area_under_the_drawn_curve_is_the_auroc():
    scores, labels = made(5)
    x, y = roc_curve(scores, labels)
    assert (float(x[0]), float(y[0]), float(x[-1]), float(y[-1])) == (0, 0, 1, 1)
    assert float(torch.trapezoid(y, x)) == pytest.approx(classifier_auroc(scores, labels), abs=1e-12)


def test_every_point_of_the_pr_curve_is_what_its_threshold_gives():
    scores, labels = made(6)
    for recall, precision, level in zip(*(part.tolist() for part in pr_curve(scores, labels)), strict=True):
        at = AtThreshold.of(scores, labels, level)
        assert (at.recall, at.precision) == pytest.approx((recall, precision))


def test_figures_at_a_threshold():
    at = AtThreshold.of(torch.tensor([0.9, 0.8, 0.5, 0.4, 0.1]), torch.tensor([1, 0, 1, 1, 0]), 0.5)
    assert (at.true_positive, at.false_positive, at.false_negative, at.true_negative) == (2, 1, 1, 1)
    assert at.precision == pytest.approx(2 / 3)
    assert at.recall == pytest.approx(2 / 3)
    assert at.accuracy == pytest.approx(3 / 5)
    assert AtThreshold(1, 3, 0, 0).f_beta(0.5) == pytest.approx(1.25 * 0.25 * 1 / (0.25 * 0.25 + 1))


@pytest.mark.parametrize("seed", range(5))
def test_threshold_for_precision_has_it_and_no_lower_one_does(seed):
    scores, labels = made(seed)
    target = 0.8
    found = threshold_for_precision(scores, labels, target)
    good = [level for level in scores.tolist() if AtThreshold.of(scores, labels, level).precision >= target]
    assert found == (min(good) if good else None)


def test_no_threshold_reaches_a_precision_that_is_nowhere():
    assert threshold_for_precision(torch.tensor([0.9, 0.1]), torch.tensor([0, 1]), 0.9) is None


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("beta", [0.5, 1.0, 2.0])
def test_threshold_for_f_has_the_highest(seed, beta):
    scores, labels = made(seed)
    best = max(AtThreshold.of(scores, labels, level).f_beta(beta) for level in set(scores.tolist()))
    assert AtThreshold.of(scores, labels, threshold_for_f(scores, labels, beta)).f_beta(beta) == pytest.approx(best)


def test_calibration_error_of_two_bins_by_hand():
    probabilities, labels = torch.tensor([0.1, 0.1, 0.9, 0.9]), torch.tensor([0, 1, 1, 1])
    assert calibration_error(probabilities, labels, bins=2) == pytest.approx((2 * 0.4 + 2 * 0.1) / 4)
    bins = Reliability.of(torch.tensor([1.0]), torch.tensor([1]), bins=4)
    assert bins.count.tolist() == [0, 0, 0, 1]
    assert math.isnan(float(bins.was[0]))


def test_calibration_finds_the_temperature_and_the_bias_that_made_the_labels():
    generator = torch.Generator().manual_seed(0)
    true = torch.randn(20_000, generator=generator, dtype=torch.float64) * 2
    labels = (torch.rand(20_000, generator=generator) < torch.sigmoid(true)).float()
    found = fit_calibration(3 * (true - 0.7), labels)  # the logits are three times too sure, and shifted
    assert found.temperature == pytest.approx(3, rel=0.05)
    assert found.bias == pytest.approx(0.7, abs=0.05)
    sure = torch.sigmoid(3 * (true - 0.7))
    assert calibration_error(found(3 * (true - 0.7)), labels) < 0.02 < 0.05 < calibration_error(sure, labels)


def test_calibration_stays_finite_where_classes_are_separable_and_does_nothing_without_one():
    found = fit_calibration(torch.tensor([-2.0, -1.0, 1.0, 2.0]), torch.tensor([0, 0, 1, 1]))
    assert 0.05 <= found.temperature <= 20
    assert fit_calibration(torch.tensor([1.0, 2.0]), torch.tensor([1, 1])) == Calibration()
    assert fit_calibration(torch.tensor([2.0, 1.0, -1.0, -2.0]), torch.tensor([0, 0, 1, 1])) == Calibration()


def test_interval_is_over_episodes_and_holds_the_figure():
    scores, labels = made(3, count=400, ties=False)
    alone = episode_interval(scores, labels, torch.arange(400))
    low, high = alone["auroc"]
    assert low < classifier_auroc(scores, labels) < high
    # Each item ten times over in one episode says no more than once, where frames would seem ten times as many.
    tenfold = episode_interval(scores.repeat(10), labels.repeat(10), torch.arange(400).repeat(10))
    assert tenfold["auroc"] == pytest.approx(alone["auroc"], abs=1e-9)
    frames = episode_interval(scores.repeat(10), labels.repeat(10), torch.arange(4000))["auroc"]
    assert frames[1] - frames[0] < 0.5 * (high - low)


def test_one_class_has_no_area():
    assert math.isnan(classifier_auroc(torch.tensor([0.1, 0.2]), torch.tensor([1, 1])))
    low, _ = episode_interval(torch.tensor([0.1, 0.2]), torch.tensor([1, 1]), torch.arange(2))["auroc"]
    assert math.isnan(low)
