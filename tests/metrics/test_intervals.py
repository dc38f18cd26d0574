"""Every interval that is printed holds the figure that it stands beside, for skewed data, few items and all sizes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch import Tensor

from motionkit.metrics import interval
from motionkit.metrics.paired import compare
from motionkit.text_to_motion.evaluation.sensitivity.audit import Columns
from motionkit.text_to_motion.evaluation.set_figures import pair_distances, pair_kinetic_fid, pair_npss
from motionkit_predictor.encoder.probe import Probe, Sums
from motionkit_success.classification import average_precision, classifier_auroc, episode_interval
from motionkit_success.true_success import change_of, rate_interval

Held = tuple[str, float, float, float]


def pairs(draw: np.random.Generator, n: int) -> Iterator[Held]:
    for name, values in (("skewed", draw.lognormal(0, 3, (n, 1))), ("heavy", draw.standard_t(1.2, (n, 1)))):
        found = compare(np.zeros((n, 1)), values, resamples=1000)
        yield f"change, {name}", found.delta, *found.ci95
    one, two = (draw.lognormal(0, 2, (n, 1, 2)) for _ in range(2))
    if (npss := pair_npss(one, two)) is not None:
        yield "NPSS", npss.delta, *npss.ci95
    real = torch.from_numpy(draw.normal(size=(40, 3)))
    one = draw.normal(size=(n + 4, 1, 3))
    kinetic = pair_kinetic_fid(one, one * draw.lognormal(0, 0.5) + draw.normal(size=one.shape), real)
    assert kinetic is not None
    yield "kinetic FID", kinetic.delta, *kinetic.ci95


def shares(draw: np.random.Generator, n: int) -> Iterator[Held]:
    for hits in (0, 1, n // 2, n - 1, n):
        yield f"rate of {hits} in {n}", hits / n, *rate_interval(hits, n)
    flags = draw.random((2, n)) < 0.3
    change = change_of(flags[0], flags[1])
    low, high = change["ci95"]  # type: ignore[misc]
    yield "change of a rate", float(change["delta"]), low, high  # type: ignore[arg-type]
    figure = Columns(draw.normal(1, 1, n), draw.normal(0.5, 1, n), draw.normal(0, 1, n)).figure()
    yield "seen", figure.seen, *figure.ci95
    mean, half = interval(torch.from_numpy(draw.lognormal(0, 3, n)))
    yield "replications", mean, mean - half, mean + half


def scores(draw: np.random.Generator, n: int) -> Iterator[Held]:
    episodes = torch.arange(n).repeat_interleave(5)
    values, labels = torch.from_numpy(draw.normal(size=5 * n)), torch.from_numpy(draw.random(5 * n) < 0.15).float()
    if 0 < labels.sum() < len(labels):
        found = episode_interval(values, labels, episodes)
        yield "AUROC", float(classifier_auroc(values, labels)), *found["auroc"]
        yield "average precision", float(average_precision(values, labels)), *found["average_precision"]


def probes(draw: np.random.Generator, n: int) -> Iterator[Held]:
    def part(*size: int) -> Tensor:
        return torch.from_numpy(draw.random(size))

    seen = torch.from_numpy((draw.random((n, 4)) < 0.4) * draw.integers(1, 50, (n, 4))).double()
    ones = torch.full((n,), 9.0, dtype=torch.float64)
    sums = (Sums(torch.stack([part(n) * 9, ones], -1), seen * part(n, 4), seen, torch.stack([part(n), ones], -1))
            for _ in range(3))  # fmt: skip
    probe = Probe(*sums)
    figures = probe.figures()
    for name, (low, high) in probe.intervals().items():
        own = name.rpartition("_")[0]
        if name in figures:
            yield name, figures[own] - figures[name], low, high


@pytest.mark.parametrize("seed", range(30))
def test_an_interval_holds_its_figure(seed: int) -> None:
    draw = np.random.default_rng(seed)
    n = int(draw.integers(2, 40))
    for kind in (pairs, shares, scores, probes):
        for name, point, low, high in kind(draw, n):
            if np.isfinite([point, low, high]).all():
                assert low <= point <= high, (name, n, point, low, high)


def test_a_distance_whose_resamples_are_biased_holds_it_too() -> None:
    """Motions that are drawn twice have less spread, so a resampled FID lies above its figure: it is put right."""
    draw = np.random.default_rng(0)
    first, second = (torch.from_numpy(draw.normal(size=(30, 20))) for _ in range(2))
    second = 0.2 * second

    def spread(rows: Tensor) -> tuple[float, float]:
        return tuple(float(torch.logdet(torch.cov(of[rows].T) + 1e-3 * torch.eye(20))) for of in (first, second))  # type: ignore[return-value]

    whole = spread(torch.arange(30))
    raw = [spread(torch.from_numpy(draw.integers(0, 30, 30)))[1] for _ in range(200)]
    assert not np.quantile(raw, 0.025) <= whole[1] <= np.quantile(raw, 0.975), "the resamples themselves do not hold it"
    found = pair_distances(spread, 30, 30)
    assert found.ci95[0] <= found.delta <= found.ci95[1]
