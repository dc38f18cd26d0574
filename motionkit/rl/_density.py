"""Log-probabilities, log-ratios and KL of Gaussian reverse steps, masked, in float32 or wider.

Results are nats per frame, ``[M, T]``, exactly 0 at padding. Their sum over frames, divided by `valid_dims` (the number
of the sample's valid values), is comparable between long and short motions. Padding may hold NaN: it changes neither
values nor gradients.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


class _FrameProducts(torch.autograd.Function):
    """``<direction, d>`` and ``|d|^2`` per frame with ``d = x0 - origin``; only x0 has a gradient.

    Written out because the masks then act on ``[M, T]`` in the forward pass and once, in place, in the backward pass:
    on motions, autograd's own version spends most of its time selecting and allocating. Products are summed, never
    multiplied as matrices, whose float32 may be rounded to TF32 or bfloat16.
    """

    @staticmethod
    def forward(
        ctx: Any, x0: Tensor, origin: Tensor, direction: Tensor | None, mask: Tensor
    ) -> tuple[Tensor | None, Tensor]:
        moved = x0.to(origin.dtype) - origin
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(moved, direction, mask)
        ctx.dtype = x0.dtype
        along = None if direction is None else frame_sum(moved * direction, mask)
        return along, frame_sum(moved.square(), mask)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, along: Tensor | None, square: Tensor | None) -> tuple[Tensor | None, None, None, None]:
        moved, direction, mask = ctx.saved_tensors
        grad: Tensor | None = None
        if along is not None:
            # d<d, direction>/dx0 = direction and d|d|^2/dx0 = 2 d, each times the incoming gradient [M, T, 1].
            grad = along[..., None] * direction
        if square is not None:
            slope = 2 * square[..., None] * moved
            grad = slope if grad is None else grad.add_(slope)
        if grad is not None:
            grad = grad.masked_fill_(~mask[..., None], 0).to(ctx.dtype)
        return grad, None, None, None


_frame_products: Callable[[Tensor, Tensor, Tensor | None, Tensor], tuple[Any, Tensor]] = _FrameProducts.apply


def frame_sum(values: Tensor, mask: Tensor) -> Tensor:
    """Sum ``[M, T, D]`` over features to ``[M, T]``, exactly 0 where `mask` is False."""
    sums = values.sum(-1)
    return torch.where(mask, sums, torch.zeros_like(sums))


def valid_dims(mask: Tensor, width: int) -> Tensor:
    """Count a sample's valid values: frames times features.

    Args:
        mask: ``[M, T]`` bool, True = valid.
        width: Features per frame D.

    Returns:
        ``[M]`` float32, at least 1.
    """
    return (mask.sum(-1) * width).clamp(min=1).to(torch.float32)


def log_prob_frames(x_next: Tensor, mean: Tensor, sigma: Tensor, mask: Tensor, *, normaliser: bool = True) -> Tensor:
    """Return log N(x_next; mean, sigma^2) in nats per frame.

    Args:
        x_next: ``[M, T, D]`` states after the step, detached: a state that carries the policy's graph has no gradient.
        mean: ``[M, T, D]`` mean of the step; the only argument with a gradient.
        sigma: ``[M]`` standard deviation, positive.
        mask: ``[M, T]`` bool, True = valid.
        normaliser: Include ``-log(sigma sqrt(2 pi))`` per value; it cancels in every ratio.

    Returns:
        ``[M, T]``, 0 at padding.
    """
    _, square = _frame_products(mean, x_next, None, mask)
    # log N = -|x - mean|^2 / (2 sigma^2) - D log(sigma sqrt(2 pi)), per frame of D values.
    frames = square / (-2 * sigma.square())[:, None]
    if normaliser:
        constant = x_next.shape[-1] * (sigma.log() + 0.5 * math.log(2 * math.pi))
        frames = frames - constant[:, None] * mask
    return frames


def step_products(x0: Tensor, x0_old: Tensor, eps: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Return ``<eps, d>`` and ``|d|^2`` per frame, ``d = x0 - x0_old``: all that any ratio of one step is made of.

    Args:
        x0: ``[M, T, D]`` predictions of the policy being trained; cast to the type of `eps`.
        x0_old: ``[M, T, D]`` predictions at rollout.
        eps: ``[M, T, D]`` noise that was added.
        mask: ``[M, T]`` bool, True = valid.

    Returns:
        Two ``[M, T]`` tensors, 0 at padding.
    """
    return _frame_products(x0, x0_old, eps, mask)


def log_ratio_frames(x0: Tensor, x0_old: Tensor, eps: Tensor, sensitivity: Tensor, mask: Tensor) -> Tensor:
    """Return log pi(x_next) - log pi_old(x_next) in nats per frame, exactly: ``s <eps, d> - s^2 / 2 |d|^2``.

    Since x_next = mean_old + sigma eps, the difference of the two densities reduces to this form, which needs no
    density and loses no digits. Arguments as in `step_products`; `sensitivity` is ``[M]``.
    """
    along, square = step_products(x0, x0_old, eps, mask)
    return sensitivity[:, None] * along - (0.5 * sensitivity.square())[:, None] * square


def kl_frames(x0: Tensor, x0_reference: Tensor, sensitivity: Tensor, mask: Tensor) -> Tensor:
    """Return KL(pi || reference) of one step in nats per frame, in closed form: ``s^2 / 2 |x0 - x0_reference|^2``.

    Both policies share the step's variance. The trajectory's KL is the sum over its steps. Exactly 0 for equal inputs.

    Args:
        x0: ``[M, T, D]`` predictions of the policy; cast to the type of `x0_reference`.
        x0_reference: ``[M, T, D]`` predictions of the reference at the same states.
        sensitivity: ``[M]``.
        mask: ``[M, T]`` bool, True = valid.

    Returns:
        ``[M, T]``, 0 at padding.

    Example:
        >>> x0, mask = torch.zeros(1, 4, 3), torch.tensor([[True, True, True, False]])
        >>> kl_frames(x0 + 1, x0, torch.tensor([2.0]), mask)  # s^2 / 2 = 2 nats for each of 3 features
        tensor([[6., 6., 6., 0.]])
    """
    _, square = _frame_products(x0, x0_reference, None, mask)
    return (0.5 * sensitivity.square())[:, None] * square
