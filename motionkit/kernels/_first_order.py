"""Gradients computed by a kernel, which cannot be differentiated again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from motionkit.errors import MotionkitError


def once(compute: Callable[..., Tensor], *arguments: Any) -> Tensor:
    """Return ``compute(*arguments)``, which raises `MotionkitError` when autograd differentiates it.

    Only ``create_graph=True`` does that; torch.compile refuses it by itself.
    """
    if torch.compiler.is_compiling() or not torch.is_grad_enabled():
        return compute(*arguments)
    apply: Any = _Once.apply
    result: Tensor = apply(compute, *arguments)
    return result


class _Once(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, compute: Callable[..., Tensor], *arguments: Any) -> Tensor:
        return compute(*arguments)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        raise MotionkitError(
            "the CUDA kernels can be differentiated once.",
            why="they have no second derivative.",
            fix="choose the backend torch for create_graph=True.",
        )
