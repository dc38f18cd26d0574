"""Figures of predicted motions: foot contacts and foot slide, angles to the reference motion, power spectrum (NPSS).

Functions whose name ends in ``_terms`` return a numerator and a denominator for each motion; the quotient of their sums
over a set of motions is the figure of the set.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from motionkit.geometry import angle_between

CONTACT = 0.5  # soft contact above which a foot is in contact
LEVELS = 1025  # bins of the scores for `auroc`


def f1_terms(predicted: Tensor, truth: Tensor) -> tuple[Tensor, Tensor]:
    """Return numerator and denominator of F1: twice the true positives, and predicted plus true contacts.

    Args:
        predicted: ``[N, ...]`` soft contacts in [0, 1].
        truth: The same.

    Returns:
        ``[N]`` each; the quotient of their sums over a set is its F1.
    """
    contact, true = (predicted > CONTACT).flatten(1), (truth > CONTACT).flatten(1)
    return 2.0 * (contact & true).sum(1).double(), (contact.sum(1) + true.sum(1)).double()


def score_levels(scores: Tensor) -> Tensor:
    """Return the bin of each soft contact in [0, 1], int64 below `LEVELS`; no bin has scores on both sides of 0.5.

    Example:
        >>> score_levels(torch.tensor([0.0, 0.5, 0.5001, 1.0]))
        tensor([   0,  512,  513, 1024])
    """
    return (scores * (LEVELS - 1)).ceil().long().clamp(0, LEVELS - 1)


def auroc(contact: Tensor, none: Tensor) -> Tensor:
    """Return the chance that a frame with contact scores above one without, equal bins counting half.

    Args:
        contact: ``[..., L]`` number of frames with contact in each bin of the score, ascending.
        none: ``[..., L]`` the same of frames without.

    Returns:
        ``[...]``; NaN if a class is missing.

    Example:
        >>> auroc(torch.tensor([0.0, 1.0, 1.0]), torch.tensor([1.0, 1.0, 0.0]))
        tensor(0.8750)
    """
    below = none.cumsum(-1) - none
    pairs = contact.sum(-1) * none.sum(-1)
    return (contact * (below + none / 2)).sum(-1) / torch.where(pairs > 0, pairs, torch.nan)


def slide_terms(feet: Tensor, contacts: Tensor, fps: float) -> tuple[Tensor, Tensor]:
    """Return numerator and denominator of foot skate: speed of the feet in contact, summed, and the frames of it.

    Args:
        feet: ``[N, T + 1, 2, 3]`` metres, left and right, Y up; the frame before the first is the first row.
        contacts: ``[N, T, 2]`` soft contacts.
        fps: Frames per second.

    Returns:
        ``[N]`` each: metres per second summed over frames with contact, and the number of these frames.
    """
    speed = fps * feet[..., ::2].diff(dim=1).norm(dim=-1)
    stands = contacts > CONTACT
    return (speed * stands).flatten(1).sum(1), stands.flatten(1).sum(1).to(speed)


def lower_slide(feet: Tensor, fps: float) -> Tensor:
    """Return the mean horizontal speed of the lower foot, whether it is in contact or not.

    Args:
        feet: ``[N, T + 1, 2, 3]`` metres, left and right, Y up.
        fps: Frames per second.

    Returns:
        ``[N]`` metres per second.

    Example:
        >>> feet = torch.zeros(1, 4, 2, 3)
        >>> feet[0, :, 1, 1] = 0.2  # the right foot is in the air and the left one glides ahead
        >>> feet[0, :, :, 2] = torch.stack([torch.arange(4) * 0.1, torch.arange(4) * 0.5], dim=-1)
        >>> lower_slide(feet, 10.0)
        tensor([1.])
    """
    speed = fps * feet[..., ::2].diff(dim=1).norm(dim=-1)  # [N, T, 2]
    lower = (feet[:, 1:, :, 1] + feet[:, :-1, :, 1]).argmin(-1, keepdim=True)
    slide: Tensor = speed.gather(-1, lower)[..., 0].mean(1)
    return slide


def geodesic_degrees(first: Tensor, second: Tensor) -> Tensor:
    """Return the angle of the rotation from one to the other, ``[...]`` in degrees, 0 to 180.

    By `angle_between`, which is exact for small angles; ``acos`` of the trace is 0.08 degrees off there.

    Args:
        first: ``[..., 3, 3]`` rotation matrices.
        second: The same; broadcasts.
    """
    return torch.rad2deg(angle_between(first, second))


def yaw_degrees(first: Tensor, second: Tensor) -> Tensor:
    """Return the smallest angle between directions ``[...]`` in radians, in degrees, 0 to 180.

    Example:
        >>> yaw_degrees(torch.tensor(3.1), torch.tensor(-3.1)) < 5
        tensor(True)
    """
    turn = first - second
    return torch.rad2deg((torch.remainder(turn + math.pi, 2 * math.pi) - math.pi).abs())


def npss_terms(predicted: Tensor, truth: Tensor) -> tuple[Tensor, Tensor]:
    """Return numerator and denominator of NPSS: distance times power, and power, summed over features.

    For each feature the power spectrum over time is normalised to a sum of 1; the distance is the earth mover's between
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
        # A constant 0 has no power: its share is 1 in the first bin.
        shares = torch.where(total > 0, power / total.clamp_min(torch.finfo(total.dtype).tiny), 0.0)
        shares[:, :1] = torch.where(total > 0, shares[:, :1], 1.0)
        return shares, total[:, 0]

    shares, power = spectrum(truth)
    moved = (shares.cumsum(1) - spectrum(predicted)[0].cumsum(1)).abs().sum(1)
    return (moved * power).sum(-1), power.sum(-1)


def npss_rows(made: Sequence[Tensor], truths: Sequence[Tensor | None]) -> tuple[Tensor, Tensor]:
    """Return `npss_terms` ``[N]`` of N sequences ``[T, D]`` of any lengths; NaN without a truth that is as long."""
    moved, power = (torch.full((len(made),), torch.nan) for _ in range(2))
    if made:
        moved, power = moved.to(made[0]), power.to(made[0])
    for row, (sequence, truth) in enumerate(zip(made, truths, strict=True)):
        if truth is not None and len(truth) == len(sequence):
            first, second = npss_terms(sequence[None], truth[None].to(sequence))
            moved[row], power[row] = first[0], second[0]
    return moved, power
