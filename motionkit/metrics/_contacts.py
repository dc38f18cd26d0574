"""Foot contacts as a classification, and what the feet do while they stand."""

from __future__ import annotations

import torch
from torch import Tensor

CONTACT = 0.5
"""Soft contact above which a foot stands."""


def f1_terms(predicted: Tensor, truth: Tensor) -> tuple[Tensor, Tensor]:
    """Return what F1 is the quotient of: twice the frames that both call contact, and the sum of what each does.

    Args:
        predicted: ``[N, ...]`` soft contacts in [0, 1].
        truth: The same.

    Returns:
        ``[N]`` each; their sums over a set give its F1.
    """
    said, true = (predicted > CONTACT).flatten(1), (truth > CONTACT).flatten(1)
    return 2.0 * (said & true).sum(1).double(), (said.sum(1) + true.sum(1)).double()


LEVELS = 1025
"""Steps that scores are counted in for `auroc`."""


def score_levels(scores: Tensor) -> Tensor:
    """Return the step of each soft contact in [0, 1], int64 below `LEVELS`; no step holds scores on both sides of 0.5.

    Example:
        >>> score_levels(torch.tensor([0.0, 0.5, 0.5001, 1.0]))
        tensor([   0,  512,  513, 1024])
    """
    return (scores * (LEVELS - 1)).ceil().long().clamp(0, LEVELS - 1)


def auroc(contact: Tensor, none: Tensor) -> Tensor:
    """Return the chance that a frame with contact scores above one without, equal steps counting half.

    Args:
        contact: ``[..., L]`` number of frames with contact at each step of the score, ascending.
        none: ``[..., L]`` the same of frames without.

    Returns:
        ``[...]``; NaN where there is no frame of one kind.

    Example:
        >>> auroc(torch.tensor([0.0, 1.0, 1.0]), torch.tensor([1.0, 1.0, 0.0]))
        tensor(0.8750)
    """
    below = none.cumsum(-1) - none
    pairs = contact.sum(-1) * none.sum(-1)
    return (contact * (below + none / 2)).sum(-1) / torch.where(pairs > 0, pairs, torch.nan)


def slide_terms(feet: Tensor, contacts: Tensor, fps: float) -> tuple[Tensor, Tensor]:
    """Return what foot skate is the quotient of: how far feet slide while they stand, per second, and how long.

    Args:
        feet: ``[N, T + 1, 2, 3]`` metres, left and right, Y up; the frame before the first is the first row.
        contacts: ``[N, T, 2]`` soft contacts.
        fps: Frames per second.

    Returns:
        ``[N]`` each: metres per second summed over the steps to frames with contact, and the number of those.
    """
    speed = fps * feet[..., ::2].diff(dim=1).norm(dim=-1)
    stands = contacts > CONTACT
    return (speed * stands).flatten(1).sum(1), stands.flatten(1).sum(1).to(speed)


def lower_slide(feet: Tensor, fps: float) -> Tensor:
    """Return how fast the lower foot goes along the ground, mean over time. No contact is read.

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
    found: Tensor = speed.gather(-1, lower)[..., 0].mean(1)
    return found
