"""Attention of a frame to the last frames before it, itself included; keys and values of a frame are made once."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from motionkit.nn._unrolled import UnrolledLinear


class WindowAttention(nn.Module):
    """Multi-head attention of one query per frame over a window of frames, with a learned bias by age.

    Values count relative to that of the frame that asks.

    A roll-out adds a frame's keys and values once (`remember`) and asks for each new frame (`forward`).

    Args:
        features: Features of a frame, which keys and values are made of.
        width: Features of what asks, and of the result.
        inner: Features of keys and values, a multiple of `heads`.
        heads: Number of heads.
        window: Most frames W that a query sees.
    """

    def __init__(self, features: int, width: int, inner: int, *, heads: int, window: int) -> None:
        super().__init__()
        self.heads, self.window = heads, window
        self.key, self.value = UnrolledLinear(features, inner), UnrolledLinear(features, inner)
        self.query, self.out = UnrolledLinear(width, inner), UnrolledLinear(inner, width)
        self.age = nn.Parameter(torch.zeros(window, heads))

    def remember(self, frames: Tensor) -> tuple[Tensor, Tensor]:
        """Return keys and values ``[N, T, inner]`` of frames ``[N, T, features]``."""
        return self.key(frames), self.value(frames)

    def forward(self, hidden: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Let each query see its window.

        Args:
            hidden: ``[N, F, width]``: what asks, at the last F of the frames that were remembered.
            keys: ``[N, T, inner]``, T at least F.
            values: The same.

        Returns:
            ``[N, F, width]``, and weights ``[N, F, heads, W']``, the newest frame last, with W' the smaller of W and T.
        """
        count, total = hidden.shape[1], keys.shape[1]
        reach = min(self.window, total)
        # Frame f asks at place total - count + f of the frames that were remembered; ages of the frames it may see.
        asks = torch.arange(total - count, total, device=keys.device)
        ages = asks[:, None] - torch.arange(total, device=keys.device)  # [F, T]
        asked, told, read = (
            one.unflatten(-1, (self.heads, -1)).transpose(1, 2) for one in (self.query(hidden), keys, values)
        )
        bias = self.age[(self.window - 1 - ages).clamp(0, self.window - 1)]  # [F, T, heads]
        scores = asked @ told.mT / math.sqrt(asked.shape[-1]) + bias.permute(2, 0, 1)
        if count > 1 or total > self.window:
            scores = scores.masked_fill((ages < 0) | (ages >= self.window), -torch.inf)
        weights = scores.softmax(dim=-1)  # [N, heads, F, T]
        # Values relative to the frame that asks: a window that stands still says nothing.
        found = (weights @ read - read[..., total - count :, :]).transpose(1, 2).flatten(-2)
        return self.out(found), _newest(weights, asks, reach).transpose(1, 2)


def _newest(weights: Tensor, asks: Tensor, reach: int) -> Tensor:
    """Return the weights ``[N, heads, F, W']`` of the last frames up to each that asks; 0 before the first frame."""
    places = asks[:, None] - torch.arange(reach - 1, -1, -1, device=weights.device)
    picked = weights.gather(-1, places.clamp_min(0).expand(*weights.shape[:2], -1, -1))
    return picked * (places >= 0)
