"""`motionkit::physics_fwd` and `motionkit::physics_bwd`: the skate and jerk kernel as torch operators."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.kernels._launch import check_floats, check_lengths, launch, pointer
from motionkit.kernels._once import once
from motionkit.kernels._specs import Spec, physics_spec, tile_of

LIBRARY = torch.library.Library("motionkit", "FRAGMENT")
LIBRARY.define("physics_fwd(Tensor joints, Tensor lengths, int[] feet, float[] heights) -> Tensor")
LIBRARY.define(
    "physics_bwd(Tensor joints, Tensor lengths, Tensor stats, Tensor? gs, Tensor? gj, Tensor? gc, int[] feet,"
    " float[] heights) -> Tensor"
)


def physics_kernel(
    joints: Tensor, lengths: Tensor, feet: Sequence[int], heights: Sequence[float]
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return skate, jerk, contact sum and valid length, each ``[N]``; differentiable once in `joints`.

    Args:
        joints: ``[N, T, J, 3]`` contiguous float32 on a device with a driver.
        lengths: ``[N]`` contiguous int64 or int32, on the same device; values are clamped to 0..T.
        feet: Distinct foot joints.
        heights: Contact height of each foot in metres.

    Raises:
        MotionkitError: An argument has another dtype, layout, shape or device.
    """
    if not (torch.is_grad_enabled() and joints.requires_grad):
        stats: Tensor = torch.ops.motionkit.physics_fwd(joints, lengths, list(feet), list(heights))
        skate, jerk, contact, length = stats.unbind(0)
        return skate, jerk, contact, length
    apply: Any = _Physics.apply
    skate, jerk, contact, length = apply(joints, lengths, list(feet), list(heights))
    return skate, jerk, contact, length


class _Physics(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, joints: Tensor, lengths: Tensor, feet: list[int], heights: list[float]) -> tuple[Tensor, ...]:
        stats = torch.ops.motionkit.physics_fwd(joints, lengths, feet, heights)
        ctx.save_for_backward(joints, lengths, stats)
        ctx.feet, ctx.heights = feet, heights
        ctx.set_materialize_grads(False)
        skate, jerk, contact, length = stats.unbind(0)
        ctx.mark_non_differentiable(length)
        return skate, jerk, contact, length

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, None, None, None]:
        joints, lengths, stats = ctx.saved_tensors
        gs, gj, gc, _ = grads
        if gs is None and gj is None and gc is None:
            return None, None, None, None
        grad = once(torch.ops.motionkit.physics_bwd, joints, lengths, stats, gs, gj, gc, ctx.feet, ctx.heights)
        return grad, None, None, None


def _forward(joints: Tensor, lengths: Tensor, feet: list[int], heights: list[float]) -> Tensor:
    spec = _check(joints, lengths, feet, heights)
    batch = joints.shape[0]
    stats = joints.new_empty(4, batch)
    arguments = [*_inputs(joints, lengths, heights), pointer(stats)]
    launch(spec, "mk_physics_fwd", batch, arguments, joints.device)
    return stats


def _backward(
    joints: Tensor,
    lengths: Tensor,
    stats: Tensor,
    gs: Tensor | None,
    gj: Tensor | None,
    gc: Tensor | None,
    feet: list[int],
    heights: list[float],
) -> Tensor:
    spec = _check(joints, lengths, feet, heights)
    batch, frames = joints.shape[:2]
    check_floats("stats", stats, (4, batch))
    arguments = [*_inputs(joints, lengths, heights), pointer(stats)]
    for grad in (gs, gj, gc):
        if grad is not None and (grad.dtype != torch.float32 or tuple(grad.shape) != (batch,)):
            raise MotionkitError(f"a gradient must be float32 [{batch}], got {grad.dtype} {list(grad.shape)}.")
        arguments += [pointer(grad), ctypes.c_longlong(0 if grad is None else grad.stride(0))]
    out = torch.empty_like(joints)
    tiles = -(-frames // tile_of(spec, "MK_BWD_TILE"))
    launch(spec, "mk_physics_bwd", batch * tiles, [*arguments, pointer(out)], joints.device)
    return out


def _inputs(joints: Tensor, lengths: Tensor, heights: list[float]) -> list[Any]:
    return [
        pointer(joints),
        pointer(lengths),
        ctypes.c_int(lengths.dtype == torch.int64),
        ctypes.c_longlong(joints.shape[0]),
        ctypes.c_int(joints.shape[1]),
        (ctypes.c_float * len(heights))(*heights),
    ]


def _check(joints: Tensor, lengths: Tensor, feet: list[int], heights: list[float]) -> Spec:
    check_floats("joints", joints, (None, None, None, 3))
    check_lengths(lengths, joints.shape[0], joints.device)
    return _fitting(joints.shape[2], tuple(feet), len(heights))


@lru_cache(maxsize=64)
def _fitting(joints: int, feet: tuple[int, ...], heights: int) -> Spec:
    if len(feet) != heights or len(set(feet)) != len(feet) or not all(0 <= foot < joints for foot in feet):
        raise MotionkitError(f"feet {feet} with {heights} heights do not fit a body of {joints} joints.")
    return physics_spec(joints, feet)


def _fake_forward(joints: Tensor, lengths: Tensor, feet: list[int], heights: list[float]) -> Tensor:
    return joints.new_empty(4, joints.shape[0])


def _fake_backward(
    joints: Tensor,
    lengths: Tensor,
    stats: Tensor,
    gs: Tensor | None,
    gj: Tensor | None,
    gc: Tensor | None,
    feet: list[int],
    heights: list[float],
) -> Tensor:
    return torch.empty_like(joints)


torch.library.register_fake("motionkit::physics_fwd", _fake_forward, lib=LIBRARY)
torch.library.register_fake("motionkit::physics_bwd", _fake_backward, lib=LIBRARY)
LIBRARY.impl("physics_fwd", _forward, "CompositeExplicitAutograd")
LIBRARY.impl("physics_bwd", _backward, "CompositeExplicitAutograd")
