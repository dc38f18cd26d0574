"""MDM's training loss."""

from __future__ import annotations

from torch import Tensor


def diffusion_loss(predicted: Tensor, x0: Tensor, mask: Tensor) -> Tensor:
    """Return the mean squared error of x0 over valid entries, per sample (Tevet et al. 2022, eq. 2).

    Args:
        predicted: ``[B, T, D]``.
        x0: ``[B, T, D]`` normalised.
        mask: ``[B, T]`` bool, at least one True per row.

    Returns:
        ``[B]`` float32: sum of squares over valid frames / (D * number of valid frames).
    """
    squares = (predicted.float() - x0).square().sum(-1).masked_fill(~mask, 0.0)
    return squares.sum(1) / (mask.sum(1) * x0.shape[-1])


def velocity_loss(predicted: Tensor, x0: Tensor, mask: Tensor) -> Tensor:
    """Return the mean squared error of frame-to-frame differences over valid pairs, per sample (MDM, eq. 5).

    An error that alternates between frames costs four times its square here and one that is constant costs nothing,
    so this is what keeps a small network from jittering. Taken in feature space, where it needs no body.

    Args:
        predicted: ``[B, T, D]``.
        x0: ``[B, T, D]`` normalised.
        mask: ``[B, T]`` bool.

    Returns:
        ``[B]`` float32; 0 for motions of one frame.
    """
    pairs = mask[:, 1:] & mask[:, :-1]
    error = (predicted.float() - x0).masked_fill(~mask[..., None], 0.0)
    squares = (error[:, 1:] - error[:, :-1]).square().sum(-1).masked_fill(~pairs, 0.0)
    return squares.sum(1) / (pairs.sum(1).clamp(min=1) * x0.shape[-1])
