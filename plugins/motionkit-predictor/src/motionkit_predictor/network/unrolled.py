"""Layers of networks that a roll-out calls once per step: linear, attention over a window of frames, and modulation.

Plain autograd adds a weight's gradient once per step, each time with a pass over the whole weight for a product of a
few rows. Within `unrolled` the inputs and gradients of the steps are collected, and one product of all rows is
computed. `WindowAttention` computes keys and values of a frame once.
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
        outputs = None if self._steps is None else self._steps.next(input)
        return super().forward(input) if outputs is None else outputs


@contextmanager
def unrolled(module: nn.Module, steps: int) -> Iterator[None]:
    """Let all `UnrolledLinear` layers of a module collect the gradients of their weights over the steps inside.

    Outputs are the same; gradients are the same up to rounding. A layer may be applied up to `steps` times, always to
    rows of one shape; further or other calls are those of a plain layer, as are all calls without a graph.
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
    """Copies of one layer's bias, one per step (taps); the gradient of a tap is that of the step's outputs."""

    def __init__(self, layer: nn.Linear, steps: int) -> None:
        self._layer, self._count = layer, steps
        self._weight = layer.weight.detach().T
        self._inputs: list[Tensor] = []
        self._taps: tuple[Tensor, ...] = ()
        self._shape: torch.Size | None = None

    def next(self, input: Tensor) -> Tensor | None:
        """Return the outputs of the next step; None if its shape differs or there are too many steps."""
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
        outputs = torch.addmm(self._taps[len(self._inputs) - 1], rows, self._weight)
        return outputs.view(*input.shape[:-1], -1)


class _Gather(torch.autograd.Function):
    """Repeats the bias for all steps; its backward pass computes the gradients of weight and bias for all of them."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, bias: Tensor | None, inputs: list[Tensor], shape: tuple[int, ...]) -> Tensor:
        ctx.inputs, ctx.biased = inputs, bias is not None  # the list grows during the roll-out
        return weight.new_zeros(*shape, len(weight)) if bias is None else bias.repeat(*shape, 1)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        gradient = grads[0][: len(ctx.inputs)].flatten(0, 1)
        rows = torch.cat(ctx.inputs)
        return gradient.T @ rows, gradient.sum(0) if ctx.biased else None, None, None


class WindowAttention(nn.Module):
    """Multi-head attention of one query per frame over a window of frames, with a learned bias by age.

    The query's own value is subtracted from all values. A roll-out computes keys and values of a frame once
    (`remember`) and attends for each new frame (`forward`).

    Args:
        features: Features of a frame, from which keys and values are computed.
        width: Features of a query, and of the result.
        inner: Features of keys and values, a multiple of `heads`.
        heads: Number of heads.
        window: Most frames W that a query attends to.
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
        """Attend.

        Args:
            hidden: ``[N, F, width]``: the queries, at the last F of the T frames.
            keys: ``[N, T, inner]``, T at least F.
            values: The same.

        Returns:
            ``[N, F, width]``, and weights ``[N, F, heads, W']``, the newest frame last, with W' the smaller of W and T.
        """
        count, total = hidden.shape[1], keys.shape[1]
        reach = min(self.window, total)
        # Query f is at frame total - count + f; ages of the frames relative to it.
        places = torch.arange(total - count, total, device=keys.device)
        ages = places[:, None] - torch.arange(total, device=keys.device)  # [F, T]
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in (self.query(hidden), keys, values))
        bias = self.age[(self.window - 1 - ages).clamp(0, self.window - 1)]  # [F, T, heads]
        scores = q @ k.mT / math.sqrt(q.shape[-1]) + bias.permute(2, 0, 1)
        if count > 1 or total > self.window:
            scores = scores.masked_fill((ages < 0) | (ages >= self.window), -torch.inf)
        weights = scores.softmax(dim=-1)  # [N, heads, F, T]
        # Values relative to the query's frame, so that a constant window contributes zero.
        attended = (weights @ v - v[..., total - count :, :]).transpose(1, 2).flatten(-2)
        return self.out(attended), _newest(weights, places, reach).transpose(1, 2)


def _newest(weights: Tensor, places: Tensor, reach: int) -> Tensor:
    """Return the weights ``[N, heads, F, W']`` of the last frames up to each query's; 0 before the first frame."""
    seen = places[:, None] - torch.arange(reach - 1, -1, -1, device=weights.device)
    picked = weights.gather(-1, seen.clamp_min(0).expand(*weights.shape[:2], -1, -1))
    return picked * (seen >= 0)


class Film(nn.Module):
    """Feature-wise linear modulation (Perez et al., AAAI 2018): scales and shifts features by a condition.

    ``h * (1 + tanh(g) / 2) + tanh(b) / 2`` with g and b linear in the condition; at first the identity.
    """

    def __init__(self, condition: int, width: int) -> None:
        super().__init__()
        self.linear = UnrolledLinear(condition, 2 * width)
        nn.init.zeros_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)

    def forward(self, hidden: Tensor, condition: Tensor) -> Tensor:
        """Return ``[..., width]`` of ``[..., width]`` and ``[..., condition]``."""
        gain, shift = self.linear(condition).tanh().chunk(2, dim=-1)
        modulated: Tensor = hidden * (1 + 0.5 * gain) + 0.5 * shift
        return modulated
