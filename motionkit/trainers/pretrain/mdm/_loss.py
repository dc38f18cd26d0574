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
