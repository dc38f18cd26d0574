"""`motionkit::physics_fwd` and `motionkit::physics_bwd`: the skate and jerk kernel as torch operators."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.kernels._compile import physics_spec, tile_of
from motionkit.kernels._launch import Kernel, check_floats, check_lengths, once

LIBRARY = torch.library.Library("motionkit", "FRAGMENT")
LIBRARY.define("physics_fwd(Tensor joints, Tensor lengths, int[] feet, float[] heights) -> Tensor")
LIBRARY.define(
    "physics_bwd(Tensor joints, Tensor lengths, Tensor stats, Tensor? gs, Tensor? gj, Tensor? gc, int[] feet,"
    " float[] heights) -> Tensor"
)

_FORWARD, _BACKWARD = torch.ops.motionkit.physics_fwd.default, torch.ops.motionkit.physics_bwd.default


def physics_kernel(
    joints: Tensor, lengths: Tensor, feet: Sequence[int], heights: Sequence[float]
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return skate, jerk, contact sum and valid length, each ``[N]``; differentiable once in `joints`.

    Args:
        joints: ``[N, T, J, 3]`` contiguous float32 on a device with a driver.
        lengths: ``[N]`` contiguous int64 or int32, on the same device; values are clamped to 0..T.
        feet: Distinct foot joints.
        heights: Contact height of each foot in metres.
    """
    if not (torch.is_grad_enabled() and joints.requires_grad):
        stats: Tensor = _FORWARD(joints, lengths, list(feet), list(heights))
        skate, jerk, contact, length = stats.unbind(0)
        return skate, jerk, contact, length
    apply: Any = _Physics.apply
    skate, jerk, contact, length = apply(joints, lengths, list(feet), list(heights))
    return skate, jerk, contact, length


class _Physics(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, joints: Tensor, lengths: Tensor, feet: list[int], heights: list[float]) -> tuple[Tensor, ...]:
        stats = _FORWARD(joints, lengths, feet, heights)
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
        grad = once(_BACKWARD, joints, lengths, stats, gs, gj, gc, ctx.feet, ctx.heights)
        return grad, None, None, None


def _forward(joints: Tensor, lengths: Tensor, feet: list[int], heights: list[float]) -> Tensor:
    batch, frames, bones = _check(joints, lengths)
    kernel = _kernels(bones, tuple(feet), len(heights))[0]
    stats = joints.new_empty(4, batch)
    wide = lengths.dtype is torch.int64
    places = joints.data_ptr(), lengths.data_ptr()
    kernel(joints.device, batch, *places, wide, batch, frames, *heights, stats.data_ptr())
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
    batch, frames, bones = _check(joints, lengths)
    kernel = _kernels(bones, tuple(feet), len(heights))[1]
    if not (stats.dtype is torch.float32 and stats.shape == (4, batch) and stats.is_contiguous()):
        check_floats("stats", stats, (4, batch))
    pushes = *_push(gs, batch), *_push(gj, batch), *_push(gc, batch)
    out = torch.empty_like(joints)
    tiles = -(-frames // tile_of(kernel.spec, "MK_BWD_TILE"))
    wide = lengths.dtype is torch.int64
    places = joints.data_ptr(), lengths.data_ptr()
    parameters = *places, wide, batch, frames, *heights, stats.data_ptr(), *pushes, out.data_ptr()
    kernel(joints.device, batch * tiles, *parameters)
    return out


def _push(grad: Tensor | None, batch: int) -> tuple[int, int]:
    """Return address and stride of an incoming gradient."""
    if grad is None:
        return 0, 0
    if grad.dtype is not torch.float32 or grad.shape != (batch,):
        raise MotionkitError(f"a gradient must be float32 [{batch}], got {grad.dtype} {list(grad.shape)}.")
    return grad.data_ptr(), grad.stride(0)


def _check(joints: Tensor, lengths: Tensor) -> torch.Size:
    """Return N, T, J of joints that fit the kernel."""
    sizes = joints.shape
    if joints.dtype is not torch.float32 or len(sizes) != 4 or sizes[3] != 3 or not joints.is_contiguous():
        check_floats("joints", joints, (None, None, None, 3))
    check_lengths(lengths, sizes[0], joints.device)
    return sizes[:3]


@lru_cache(maxsize=64)
def _kernels(joints: int, feet: tuple[int, ...], heights: int) -> tuple[Kernel, Kernel]:
    if len(feet) != heights or len(set(feet)) != len(feet) or not all(0 <= foot < joints for foot in feet):
        raise MotionkitError(f"feet {feet} with {heights} heights do not fit a body of {joints} joints.")
    spec = physics_spec(joints, feet)
    inputs = ("P", "P", "i", "q", "i", f"{heights}f", "P")
    pushes = ("P", "q") * 3
    return Kernel(spec, "mk_physics_fwd", inputs), Kernel(spec, "mk_physics_bwd", (*inputs, *pushes, "P"))


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
