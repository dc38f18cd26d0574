"""Normalised power spectrum similarity of sequences."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def npss_terms(predicted: Tensor, truth: Tensor) -> tuple[Tensor, Tensor]:
    """Return what NPSS is the quotient of: distance times power, and power, summed over features.

    For each feature the power spectrum over time is brought to a sum of 1; the distance is the earth mover's between
    the spectra of prediction and truth, in bins, weighted by the power of the truth: Gopalakrishnan et al., "A Neural
    Temporal Model for Human Motion Prediction" (CVPR 2019). ``terms[0].sum() / terms[1].sum()`` is NPSS of a set.

    Args:
        predicted: ``[N, T, D]``.
        truth: The same.

    Returns:
        ``[N]`` each, at least 0.
    """

    def spectrum(values: Tensor) -> tuple[Tensor, Tensor]:
        power = torch.fft.fft(values, dim=1).abs().square()
        total = power.sum(1, keepdim=True)
        # Without any power, as of a value that is 0 throughout, all of it stands in the first bin.
        shares = torch.where(total > 0, power / total.clamp_min(torch.finfo(total.dtype).tiny), 0.0)
        shares[:, :1] = torch.where(total > 0, shares[:, :1], 1.0)
        return shares, total[:, 0]

    shares, power = spectrum(truth)
    moved = (shares.cumsum(1) - spectrum(predicted)[0].cumsum(1)).abs().sum(1)
    return (moved * power).sum(-1), power.sum(-1)


def npss_rows(made: Sequence[Tensor], truths: Sequence[Tensor | None]) -> tuple[Tensor, Tensor]:
    """Return `npss_terms` of N sequences that differ in length.

    Args:
        made: N sequences ``[T, D]``.
        truths: N sequences, or None where there is no truth.

    Returns:
        ``[N]`` each; NaN without a truth that is as long.
    """
    moved, power = (torch.full((len(made),), torch.nan) for _ in range(2))
    if made:
        moved, power = moved.to(made[0]), power.to(made[0])
    for row, (one, truth) in enumerate(zip(made, truths, strict=True)):
        if truth is not None and len(truth) == len(one):
            first, second = npss_terms(one[None], truth[None].to(one))
            moved[row], power[row] = first[0], second[0]
    return moved, power
