"""The public functions: each runs its CUDA kernel if possible, else its plain-torch definition."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import NamedTuple

import torch
from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.kernels._backend import use_kernel
from motionkit.kernels._launch import check_length_values
from motionkit.kernels._physics_op import physics_kernel
from motionkit.kernels._recover_op import recover_kernel
from motionkit.kernels.definitions import (
    columns_in_use,
    fit_body,
    in_chunks,
    physics_definition,
    recover_definition,
    upcast,
)

CONTACT_HEIGHT = 0.05
"""Height in metres below which a foot counts as on the floor."""

# Read once: torch 2.11 cannot trace this call, and its result does not change.
_AUTOCAST = tuple(name for name in ("cpu", "cuda", "mps", "xpu") if torch.amp.is_autocast_available(name))


class PhysicsTerms(NamedTuple):
    """Foot skate and jerk per frame, not yet scaled by the frame rate."""

    skate: Tensor  # ``[N]`` metres per frame; times fps: m/s
    jerk: Tensor  # ``[N]`` metres per frame^3; times fps^3: m/s^3
    contact: Tensor  # ``[N]`` sum of the soft contacts over feet and frame pairs
    length: Tensor  # ``[N]`` frames that counted, in the dtype of the others; no gradient


def physics_terms(
    joints: Tensor,
    lengths: Tensor,
    *,
    feet: Sequence[int],
    heights: float | Sequence[float] = CONTACT_HEIGHT,
    backend: str = "auto",
    check: bool = False,
) -> PhysicsTerms:
    """Measure foot skate and jerk of N motions per frame. Differentiable in `joints`, but only once if the kernel runs.

    Args:
        joints: ``[N, T, J, 3]`` metres, Y up, floor at y = 0; frames past a length may hold anything, NaN included.
            Half precision is computed in float32; autocast has no effect.
        lengths: ``[N]`` int64 or int32 on the device of `joints`. Values outside 0..T count as 0 or T.
        feet: Indices of the foot joints, distinct.
        heights: Contact height in metres, one for all feet or one per foot.
        backend: ``auto`` (``$MOTIONKIT_KERNELS``, else the kernel for float32 on a CUDA device), ``cuda`` or ``torch``.
        check: Refuse lengths outside 0..T instead of clamping them; waits for the device.

    Returns:
        The four terms, float32 or float64. A motion shorter than two frames has skate 0, one shorter than four frames
        has jerk 0. A motion with a value inside its length that is not finite has NaN terms and no gradient.
    """
    if joints.ndim != 4 or joints.shape[3] != 3 or not joints.is_floating_point():
        raise MotionkitError(f"joints must be floating point [N, T, J, 3], got {joints.dtype} {list(joints.shape)}.")
    if lengths.shape != joints.shape[:1] or lengths.dtype not in (torch.int32, torch.int64):
        shape = list(lengths.shape)
        raise MotionkitError(f"lengths must be int64 [{joints.shape[0]}], got {lengths.dtype} {shape}.")
    # These are constants of the kernel: `index` turns values that torch.compile treats as dynamic into constants.
    count = index(joints.shape[2])
    contact_heights = heights if isinstance(heights, (int, float)) else tuple(heights)
    chosen, limits = fit_body(count, tuple(map(index, feet)), contact_heights)
    if check:
        check_length_values(lengths, joints.shape[1])
    device = joints.device
    if _autocast(device.type):
        with torch.autocast(device.type, enabled=False):
            return physics_terms(joints, lengths, feet=chosen, heights=limits, backend=backend)
    joints = upcast(joints)
    if use_kernel("physics", backend, device, joints.dtype is torch.float64, count, chosen):
        return PhysicsTerms(*physics_kernel(joints.contiguous(), lengths.contiguous(), chosen, limits))

    def define(joints: Tensor, lengths: Tensor) -> tuple[Tensor, ...]:
        return physics_definition(joints, lengths, chosen, limits)

    return PhysicsTerms(*in_chunks(define, joints, lengths))


def physics_sums(
    joints: Tensor,
    lengths: Tensor,
    *,
    fps: float,
    feet: Sequence[int],
    heights: float | Sequence[float] = CONTACT_HEIGHT,
    backend: str = "auto",
) -> tuple[Tensor, Tensor]:
    """Return the skate ``[N]`` in m/s and jerk ``[N]`` in m/s^3 of N motions at `fps` frames per second.

    Everything else is as in `physics_terms`.

    Example:
        >>> sliding = torch.zeros(1, 20, 22, 3)
        >>> sliding[..., 0] = torch.arange(20)[:, None] / 20  # the whole body slides along X at 1 m/s
        >>> skate, jerk = physics_sums(sliding, torch.tensor([20]), fps=20, feet=(7, 10, 8, 11))
        >>> round(skate.item(), 2)
        1.0
    """
    terms = physics_terms(joints, lengths, feet=feet, heights=heights, backend=backend)
    return terms.skate * fps, terms.jerk * fps**3


def features_to_joints(
    features: Tensor,
    *,
    joints: int,
    unit: float = 1.0,
    lengths: Tensor | None = None,
    mean: Tensor | None = None,
    std: Tensor | None = None,
    backend: str = "auto",
    check: bool = False,
) -> Tensor:
    """Recover joint positions from the stored positions of HumanML3D-style features.

    Differentiable in `features`, but only once if the kernel runs; not in `mean` and `std`. A frame whose root or
    positions are not finite becomes NaN, and so do the frames after it; other frames and samples are not affected.

    Args:
        features: ``[..., T, D]``; normalised if `mean` and `std` are given. Half precision is computed in float32;
            autocast has no effect.
        joints: Joints of the body, J; the first 4 + 3 (J-1) columns are read.
        unit: Metres per unit of the features.
        lengths: ``[...]`` int64 or int32. If given, frames past a sample's length are computed from zeros; values
            outside 0..T count as 0 or T.
        mean: ``[D]``, offset of normalised features.
        std: ``[D]``, scale of normalised features.
        backend: As in `physics_terms`.
        check: Refuse lengths outside 0..T instead of clamping them; waits for the device.

    Returns:
        ``[..., T, J, 3]`` metres, Y up, frame 0 at x = z = 0 and facing +Z; float32 or float64.

    Example:
        >>> features_to_joints(torch.zeros(1, 8, 263), joints=22).shape
        torch.Size([1, 8, 22, 3])
    """
    _check_features(features, lengths, mean, std, joints, unit)
    if check and lengths is not None:
        check_length_values(lengths, features.shape[-2])
    device = features.device
    if _autocast(device.type):
        with torch.autocast(device.type, enabled=False):
            return features_to_joints(
                features, joints=joints, unit=unit, lengths=lengths, mean=mean, std=std, backend=backend
            )
    features = upcast(features)
    if use_kernel("recover", backend, device, features.dtype is torch.float64, joints):
        flat = (features.flatten(0, -3) if features.ndim > 2 else features[None]).contiguous()
        sizes = None if lengths is None else lengths.reshape(-1).contiguous()
        centre, scale = (None if values is None else values.detach().float().contiguous() for values in (mean, std))
        recovered = recover_kernel(flat, sizes, centre, scale, joints, float(unit))
        return recovered.reshape(*features.shape[:-1], joints, 3)

    def define(features: Tensor, lengths: Tensor | None) -> tuple[Tensor]:
        return (recover_definition(features, lengths, mean, std, joints, unit),)

    if features.ndim < 3:
        return define(features, lengths)[0]
    return in_chunks(define, features, lengths)[0]


def _autocast(device_type: str) -> bool:
    return device_type in _AUTOCAST and torch.is_autocast_enabled(device_type)


def _check_features(
    features: Tensor, lengths: Tensor | None, mean: Tensor | None, std: Tensor | None, joints: int, unit: float
) -> None:
    if features.ndim < 2 or not features.is_floating_point() or features.shape[-1] < columns_in_use(joints):
        need = f"floating point [..., T, {columns_in_use(joints)} or more]"
        raise MotionkitError(f"features must be {need}, got {features.dtype} {list(features.shape)}.")
    if lengths is not None and lengths.shape != features.shape[:-2]:
        raise MotionkitError(f"lengths must be {list(features.shape[:-2])}, got {list(lengths.shape)}.")
    if (mean is None) != (std is None):
        raise MotionkitError("mean and std come together or not at all.")
    if not abs(unit) < 1e30:
        raise MotionkitError(f"unit must be a finite number of metres, got {unit}.")
    for name, values in (("mean", mean), ("std", std)):
        if values is not None and tuple(values.shape) != (features.shape[-1],):
            raise MotionkitError(f"{name} must be [{features.shape[-1]}], got {list(values.shape)}.")
