"""Normalised power spectrum similarity of sequences."""

from __future__ import annotations

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
