"""Draws from a categorical distribution with numbers that are given."""

from __future__ import annotations

from torch import Tensor


def categorical(logits: Tensor, uniform: Tensor) -> Tensor:
    """Draw one class of each row: the first whose cumulative probability is above the row's number.

    A row's class depends on nothing but the row, so that a batch may be cut at will.

    Args:
        logits: ``[N, K]``; a class with minus infinity is never drawn.
        uniform: ``[N]`` numbers from 0 to 1, 1 excluded.

    Returns:
        ``[N]`` int64.
    """
    chances = logits.double().softmax(-1)
    total = chances.cumsum(-1)
    # Rounding may leave the last sum below 1: the number is taken as a share of it.
    found = (total <= uniform[:, None].double() * total[:, -1:]).sum(-1)
    last = chances.shape[-1] - 1 - (chances.flip(-1) > 0).int().argmax(-1)
    return found.minimum(last)
