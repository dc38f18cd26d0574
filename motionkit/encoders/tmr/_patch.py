"""Joins several frames into one token, which makes the same network several times cheaper.

A released TMR reads one frame per token. A motion encoder whose input is p times as wide as a frame reads p frames.
"""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F


def fold(x: Tensor, mask: Tensor, patch: int) -> tuple[Tensor, Tensor]:
    """Join `patch` frames into one token; a last token that is not full is filled with zeros.

    Args:
        x: ``[N, T, F]``; masked frames may hold anything.
        mask: ``[N, T]`` bool, True = valid, valid frames first.
        patch: Frames per token.

    Returns:
        ``[N, ceil(T / patch), patch * F]`` and its mask; a token is valid when it has a valid frame.
    """
    if patch == 1:
        return x, mask
    x = x.masked_fill(~mask[..., None], 0.0)
    # Frames missing in the last token.
    spare = -x.shape[1] % patch
    x, mask = F.pad(x, (0, 0, 0, spare)), F.pad(mask, (0, spare))
    count, width = x.shape[1] // patch, patch * x.shape[2]
    # [N, S p, F] -> [N, S, p F]: the features of p frames side by side.
    return x.reshape(x.shape[0], count, width), mask.reshape(x.shape[0], count, patch).any(-1)


def unfold(x: Tensor, mask: Tensor, patch: int) -> Tensor:
    """Undo `fold` on decoded tokens ``[N, S, patch * F]``: ``[N, T, F]``, zeros where ``mask [N, T]`` is False."""
    frames = x.reshape(x.shape[0], -1, x.shape[2] // patch)[:, : mask.shape[1]]
    return frames.masked_fill(~mask[..., None], 0.0)
