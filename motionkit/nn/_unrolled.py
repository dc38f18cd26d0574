"""A linear layer that is applied step after step, whose weight gets the gradient of all steps at once.

Step by step, the gradient of a weight is made and added once a step, and each time the whole weight goes through memory
for a product of a few rows. Here the steps' inputs and gradients are kept, and one product is made of all rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn


class UnrolledLinear(nn.Linear):
    """`torch.nn.Linear`, with the same weights by the same names; see `unrolled`."""

    _steps: _Steps | None = None

    def forward(self, input: Tensor) -> Tensor:
        """Return ``[..., out]`` of ``[..., in]``."""
        if self._steps is None:
            return super().forward(input)
        found = self._steps.next(input)
        return super().forward(input) if found is None else found


@contextmanager
def unrolled(module: nn.Module, steps: int) -> Iterator[None]:
    """Let all `UnrolledLinear` layers of a module gather the gradients of their weights over the steps inside.

    Outputs are the same; gradients are the same but for rounding. A layer may be applied up to `steps` times, always
    to rows of one shape; further or other calls are those of a plain layer, and so are all where no graph is built.
    """
    layers = [layer for layer in module.modules() if isinstance(layer, UnrolledLinear)]
    if torch.is_grad_enabled() and not torch.is_autocast_enabled():
        for layer in layers:
            layer._steps = _Steps(layer, steps) if layer.weight.requires_grad else None
    try:
        yield
    finally:
        for layer in layers:
            layer._steps = None


class _Steps:
    """The taps of one layer: its bias once for each step, added to its outputs, with the gradient of the outputs."""

    def __init__(self, layer: nn.Linear, steps: int) -> None:
        self._layer, self._count = layer, steps
        self._weight = layer.weight.detach().T
        self._inputs: list[Tensor] = []
        self._taps: tuple[Tensor, ...] = ()
        self._shape: torch.Size | None = None

    def next(self, input: Tensor) -> Tensor | None:
        """Return the outputs of the next step; None where it does not fit those before."""
        if len(self._inputs) == self._count or self._shape not in (None, input.shape):
            return None
        rows = input.flatten(0, -2)
        if self._shape is None:
            self._shape = input.shape
            taps: Tensor = _Gather.apply(  # type: ignore[no-untyped-call]
                self._layer.weight, self._layer.bias, self._inputs, (self._count, len(rows))
            )
            self._taps = taps.unbind(0)
        self._inputs.append(rows.detach())
        found = torch.addmm(self._taps[len(self._inputs) - 1], rows, self._weight)
        return found.view(*input.shape[:-1], -1)


class _Gather(torch.autograd.Function):
    """Gives the bias of all steps; its gradient becomes that of weight and bias."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, bias: Tensor | None, inputs: list[Tensor], shape: tuple[int, ...]) -> Tensor:
        ctx.inputs, ctx.biased = inputs, bias is not None  # the list grows during the roll-out
        return weight.new_zeros(*shape, len(weight)) if bias is None else bias.repeat(*shape, 1)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        gradient = grads[0][: len(ctx.inputs)].flatten(0, 1)
        rows = torch.cat(ctx.inputs)
        return gradient.T @ rows, gradient.sum(0) if ctx.biased else None, None, None


# Attention of a frame to the last frames before it, itself included; keys and values of a frame are made once.


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
