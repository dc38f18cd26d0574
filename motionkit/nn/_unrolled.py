"""A linear layer that is applied step after step, whose weight gets the gradient of all steps at once.

Step by step, the gradient of a weight is made and added once a step, and each time the whole weight goes through memory
for a product of a few rows. Here the steps' inputs and gradients are kept, and one product is made of all rows.
"""

from __future__ import annotations

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

    Args:
        module: Any module.
        steps: Steps of the roll-out.
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
