"""Computes large batches in chunks, to keep the temporaries of the plain-torch definitions small."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

CHUNK = 64
"""Samples per chunk; with more, the temporaries no longer fit the CPU's caches."""


def in_chunks(function: Callable[..., tuple[Tensor, ...]], *tensors: Tensor | None) -> tuple[Tensor, ...]:
    """Return ``function(*tensors)``, computed for at most `CHUNK` samples at a time.

    When a gradient is needed, a chunk keeps its inputs only and is recomputed in the backward pass: apart from inputs,
    outputs and gradients, memory does not grow with the batch. It costs about a third more time.

    Args:
        function: Maps tensors with the batch in dimension 0 to a tuple of such tensors, sample by sample.
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
