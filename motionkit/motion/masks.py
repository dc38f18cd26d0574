"""Runs of frames of which something is true."""

from __future__ import annotations

import torch
from torch import Tensor

Ranges = tuple[tuple[int, int], ...]
"""Half-open runs of frames, in order."""


def ranges(marked: Tensor) -> Ranges:
    """Return the half-open ranges in which a ``[T]`` mask is True."""
    steps = torch.nn.functional.pad(marked.to(torch.int8), (1, 1)).diff()
    starts, stops = torch.nonzero(steps == 1)[:, 0].tolist(), torch.nonzero(steps == -1)[:, 0].tolist()
    return tuple(zip(starts, stops, strict=True))
