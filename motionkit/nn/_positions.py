"""Sinusoidal position encodings (Vaswani et al. 2017, section 3.5), sine and cosine interleaved."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def sinusoid(positions: Tensor, width: int) -> Tensor:
    """Encode positions.

    Args:
        positions: ``[...]``, any numeric type.
        width: Even number of features.

    Returns:
        ``[..., width]`` float32; even columns are sines, odd ones cosines, base 10000.
    """
    rates = torch.exp(
        torch.arange(0, width, 2, dtype=torch.float32, device=positions.device) * (-math.log(10000.0) / width)
    )
    angles = positions.to(torch.float32).unsqueeze(-1) * rates
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2)


def sinusoidal_table(length: int, width: int) -> Tensor:
    """Return the encodings of positions 0 to `length` - 1 as ``[length, width]``."""
    if torch.get_default_device().type == "meta":
        # Only the shape counts there, and torch.arange would import torch._dynamo, which takes as long as torch itself.
        return torch.empty(length, width)
    return sinusoid(torch.arange(length), width)
