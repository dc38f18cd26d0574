"""`motionkit::recover_fwd` and `motionkit::recover_bwd`: joint recovery from features as torch operators."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.kernels._compile import recover_spec
from motionkit.kernels._launch import Kernel, address, check_floats, check_lengths, once
from motionkit.kernels._physics_op import LIBRARY
from motionkit.kernels.definitions import columns_in_use

_INPUTS = "Tensor features, Tensor? lengths, Tensor? mean, Tensor? std, int joints, float unit"
LIBRARY.define(f"recover_fwd({_INPUTS}) -> (Tensor, Tensor, Tensor)")
LIBRARY.define(f"recover_bwd(Tensor grad, Tensor turns, Tensor ends, {_INPUTS}) -> Tensor")

_FORWARD, _BACKWARD = torch.ops.motionkit.recover_fwd.default, torch.ops.motionkit.recover_bwd.default


def recover_kernel(
    features: Tensor, lengths: Tensor | None, mean: Tensor | None, std: Tensor | None, joints: int, unit: float
) -> Tensor:
    """Return joints ``[N, T, J, 3]`` of features ``[N, T, D]``; differentiable once in `features`.

    Args:
        features: Contiguous float32 on a device with a driver.
        lengths: ``[N]`` contiguous int64 or int32, on the same device; values are clamped to 0..T.
        mean: ``[D]`` contiguous float32, or None if the features are not normalised.
        std: Like `mean`.
        joints: J.
        unit: Metres per unit of the features.
    """
    if not (torch.is_grad_enabled() and features.requires_grad):
        alone: Tensor = _FORWARD(features, lengths, mean, std, joints, unit)[0]
        return alone
    apply: Any = _Recover.apply
    recovered: Tensor = apply(features, lengths, mean, std, joints, unit)
    return recovered


class _Recover(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        features: Tensor,
        lengths: Tensor | None,
        mean: Tensor | None,
        std: Tensor | None,
        joints: int,
        unit: float,
    ) -> Tensor:
        out, turns, ends = _FORWARD(features, lengths, mean, std, joints, unit)
        ctx.save_for_backward(features, lengths, mean, std, turns, ends)
        ctx.joints, ctx.unit = joints, unit
        recovered: Tensor = out
        return recovered

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None, None, None, None]:
        features, lengths, mean, std, turns, ends = ctx.saved_tensors
        grad = grads[0].contiguous()
        out = once(
            torch.ops.motionkit.recover_bwd, grad, turns, ends, features, lengths, mean, std, ctx.joints, ctx.unit
        )
        return out, None, None, None, None, None


def _forward(
    features: Tensor, lengths: Tensor | None, mean: Tensor | None, std: Tensor | None, joints: int, unit: float
) -> tuple[Tensor, Tensor, Tensor]:
    _check(features, lengths, mean, std, joints)
    batch, frames = features.shape[:2]
    out = features.new_empty(batch, frames, joints, 3)
    turns = features.new_empty(batch, frames, 2)
    ends = features.new_empty(batch, dtype=torch.int32)
    inputs = _inputs(features, lengths, mean, std, unit)
    _kernels(joints)[0](features.device, batch, *inputs, out.data_ptr(), turns.data_ptr(), ends.data_ptr())
    return out, turns, ends


def _backward(
    grad: Tensor,
    turns: Tensor,
    ends: Tensor,
    features: Tensor,
    lengths: Tensor | None,
    mean: Tensor | None,
    std: Tensor | None,
    joints: int,
    unit: float,
) -> Tensor:
    _check(features, lengths, mean, std, joints)
    batch, frames = features.shape[:2]
    check_floats("grad", grad, (batch, frames, joints, 3))
    check_floats("turns", turns, (batch, frames, 2))
    if ends.dtype != torch.int32 or tuple(ends.shape) != (batch,) or not ends.is_contiguous():
        raise MotionkitError(f"ends must be contiguous int32 [{batch}], got {ends.dtype} {list(ends.shape)}.")
    out = torch.empty_like(features)
    inputs = _inputs(features, lengths, mean, std, unit)
    places = turns.data_ptr(), ends.data_ptr(), out.data_ptr()
    _kernels(joints)[1](features.device, batch if frames else 0, grad.data_ptr(), *inputs, *places)
    return out


@lru_cache(maxsize=64)
def _kernels(joints: int) -> tuple[Kernel, Kernel]:
    spec = recover_spec(joints)
    inputs = ("P", "P", "i", "i", "i", "P", "P", "f")
    ends = ("P", "P", "P")
    return Kernel(spec, "mk_recover_fwd", (*inputs, *ends)), Kernel(spec, "mk_recover_bwd", ("P", *inputs, *ends))


def _inputs(
    features: Tensor, lengths: Tensor | None, mean: Tensor | None, std: Tensor | None, unit: float
) -> tuple[float, ...]:
    wide = lengths is not None and lengths.dtype is torch.int64
    _, frames, width = features.shape
    return features.data_ptr(), address(lengths), wide, frames, width, address(mean), address(std), unit


def _check(features: Tensor, lengths: Tensor | None, mean: Tensor | None, std: Tensor | None, joints: int) -> None:
    sizes = features.shape
    if features.dtype is not torch.float32 or len(sizes) != 3 or not features.is_contiguous():
        check_floats("features", features, (None, None, None))
    width = sizes[2]
    if width < columns_in_use(joints):
        raise MotionkitError(f"{joints} joints need {columns_in_use(joints)} feature columns or more, got {width}.")
    if lengths is not None:
        check_lengths(lengths, sizes[0], features.device)
    if (mean is None) != (std is None):
        raise MotionkitError("mean and std come together or not at all.")
    for name, values in (("mean", mean), ("std", std)):
        if values is not None:
            check_floats(name, values, (width,))
            if values.device != features.device:
                raise MotionkitError(f"{name} is on {values.device}, the features on {features.device}.")


def _fake_forward(
    features: Tensor, lengths: Tensor | None, mean: Tensor | None, std: Tensor | None, joints: int, unit: float
) -> tuple[Tensor, Tensor, Tensor]:
    batch, frames = features.shape[:2]
    ends = features.new_empty(batch, dtype=torch.int32)
    return features.new_empty(batch, frames, joints, 3), features.new_empty(batch, frames, 2), ends


def _fake_backward(
    grad: Tensor,
    turns: Tensor,
    ends: Tensor,
    features: Tensor,
    lengths: Tensor | None,
    mean: Tensor | None,
    std: Tensor | None,
    joints: int,
    unit: float,
) -> Tensor:
    return torch.empty_like(features)


torch.library.register_fake("motionkit::recover_fwd", _fake_forward, lib=LIBRARY)
torch.library.register_fake("motionkit::recover_bwd", _fake_backward, lib=LIBRARY)
LIBRARY.impl("recover_fwd", _forward, "CompositeExplicitAutograd")
LIBRARY.impl("recover_bwd", _backward, "CompositeExplicitAutograd")
