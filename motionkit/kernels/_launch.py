"""What the Python side of every launch has in common."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.kernels._backend import driver_of
from motionkit.kernels._specs import Spec


def launch(spec: Spec, kernel: str, grid: int, arguments: Sequence[Any], device: torch.device) -> None:
    """Launch `grid` blocks of `kernel`.

    Args:
        spec: The specialised source.
        kernel: Name of one of its kernels.
        grid: Blocks; none are launched when 0, which CUDA refuses.
        arguments: ctypes values, in the order and of the types of the kernel's signature.
        device: Where.
    """
    if grid == 0:
        return
    holder = (ctypes.c_void_p * len(arguments))(*(ctypes.addressof(value) for value in arguments))
    threads = spec.threads[spec.kernels.index(kernel)]
    driver_of(device).launch(spec, kernel, grid, threads, holder, device)


def pointer(tensor: Tensor | None) -> ctypes.c_void_p:
    """Return the address of a tensor's first element; null for None."""
    return ctypes.c_void_p(0 if tensor is None else tensor.data_ptr())


def check_floats(name: str, tensor: Tensor, shape: Sequence[int | None]) -> None:
    """Refuse what a kernel cannot read.

    Raises:
        MotionkitError: Not float32, not contiguous, or another shape (None: any size).
    """
    sizes = tensor.shape
    fits = len(sizes) == len(shape)
    for have, want in zip(sizes, shape, strict=False):
        fits = fits and (want is None or have == want)
    if tensor.dtype != torch.float32 or not tensor.is_contiguous() or not fits:
        wanted = ", ".join("any" if size is None else str(size) for size in shape)
        state = "contiguous" if tensor.is_contiguous() else "non-contiguous"
        raise MotionkitError(
            f"{name}: the kernel needs contiguous float32 [{wanted}], got {state} {tensor.dtype} {list(tensor.shape)}."
        )


def check_lengths(lengths: Tensor, batch: int, device: torch.device) -> None:
    """Refuse lengths that a kernel cannot read. Their values are not looked at: that would wait for the device.

    Raises:
        MotionkitError: Another dtype, shape or device.
    """
    if lengths.dtype not in (torch.int32, torch.int64) or lengths.shape != (batch,):
        raise MotionkitError(f"lengths must be int64 or int32 [{batch}], got {lengths.dtype} {list(lengths.shape)}.")
    if lengths.device != device:
        raise MotionkitError(f"lengths are on {lengths.device}, the motions on {device}.")
    if not lengths.is_contiguous():
        raise MotionkitError("lengths must be contiguous.")


def check_length_values(lengths: Tensor, frames: int) -> None:
    """Refuse lengths below 0 or above `frames`. Waits for the device.

    Raises:
        MotionkitError: A length is outside, naming the first.
    """
    wrong = (lengths < 0) | (lengths > frames)
    if bool(wrong.any()):
        place = int(wrong.flatten().nonzero()[0])
        raise MotionkitError(f"length {int(lengths.flatten()[place])} of sample {place} is not within 0..{frames}.")
