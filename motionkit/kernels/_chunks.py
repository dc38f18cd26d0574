"""Large batches piece by piece, so that the temporaries of the plain-torch definitions stay small."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

CHUNK = 64
"""Samples at a time: above it the temporaries leave the caches, and nothing is gained."""


def in_chunks(function: Callable[..., tuple[Tensor, ...]], *tensors: Tensor | None) -> tuple[Tensor, ...]:
    """Return ``function(*tensors)``, computed for at most `CHUNK` samples at a time.

    When a gradient is asked for, a piece keeps its inputs only and is computed once more in the backward pass: what is
    alive at once does not grow with the batch beyond inputs, outputs and gradients, for about a third more time.

    Args:
        function: Tensors with the batch in dimension 0 to a tuple of such tensors, every sample by itself.
        tensors: The first must be a tensor; None is passed on.
    """
    first = tensors[0]
    assert first is not None, "the first argument gives the batch"
    if first.shape[0] <= CHUNK:
        return function(*tensors)
    pieces: list[Sequence[Tensor | None]] = []
    for start in range(0, first.shape[0], CHUNK):
        pieces.append([None if tensor is None else tensor[start : start + CHUNK] for tensor in tensors])
    if torch.is_grad_enabled() and first.requires_grad:
        done = [checkpoint(function, *piece, use_reentrant=False, preserve_rng_state=False) for piece in pieces]
    else:
        done = [function(*piece) for piece in pieces]
    return tuple(torch.cat(columns) for columns in zip(*done, strict=True))
