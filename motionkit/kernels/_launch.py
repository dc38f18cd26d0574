"""What the operators share: the launch of a kernel, checks of its tensors, and gradients that exist once.

A gradient that a kernel computes cannot be differentiated again; `once` raises an error then. `Kernel` lays out the
parameters in memory and launches.
"""

from __future__ import annotations

import ctypes
import struct
import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.kernels._backend import driver_of
from motionkit.kernels._compile import Spec


def once(compute: Callable[..., Tensor], *arguments: Any) -> Tensor:
    """Return ``compute(*arguments)``, which raises `MotionkitError` when autograd differentiates it.

    Only ``create_graph=True`` does that; torch.compile refuses it anyway.
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


class Kernel:
    """One kernel of a spec, called like a function: values in, launch out.

    Args:
        spec: The specialised source.
        name: One of its kernels.
        types: `struct` codes of its parameters, in order: ``P`` pointer, ``i`` int, ``q`` long long, ``f`` float,
            ``4f`` four floats in a struct.
    """

    def __init__(self, spec: Spec, name: str, types: Sequence[str]) -> None:
        self.spec, self.name = spec, name
        self.threads = spec.threads[spec.kernels.index(name)]
        self._pack = struct.Struct("".join(types)).pack_into
        self._memory = _Memory(types)

    def __call__(self, device: torch.device, grid: int, *values: float) -> None:
        """Launch `grid` blocks on `device`; none for 0, which CUDA refuses.

        Args:
            device: Device of the tensors.
            grid: Blocks.
            values: The parameters: addresses and numbers, a struct's floats one by one.
        """
        if grid == 0:
            return
        memory = self._memory
        self._pack(memory.values, 0, *values)
        driver_of(device).launch(self.spec, self.name, grid, self.threads, memory.places, device)


class _Memory(threading.local):
    """A thread's buffer for a kernel's parameters, in C layout, and the ``void*[]`` that points into it.

    The driver copies them before it returns, so one buffer per kernel and thread is enough.
    """

    def __init__(self, types: Sequence[str]) -> None:
        layouts = ("".join(types[:place]) + f"0{code[-1]}" for place, code in enumerate(types))
        self.values = (ctypes.c_longlong * (struct.calcsize("".join(types)) // 8 + 1))()
        start = ctypes.addressof(self.values)
        self.places = (ctypes.c_void_p * len(types))(*(start + struct.calcsize(layout) for layout in layouts))


def address(tensor: Tensor | None) -> int:
    """Return the address of a tensor's first element; null for None."""
    return 0 if tensor is None else tensor.data_ptr()


def check_floats(name: str, tensor: Tensor, shape: Sequence[int | None]) -> None:
    """Raise the error for a tensor that a kernel cannot read; slow, so called only after a fast check failed."""
    sizes = tensor.shape
    fits = len(sizes) == len(shape)
    for have, want in zip(sizes, shape, strict=False):
        fits = fits and (want is None or have == want)
    if tensor.dtype != torch.float32 or not tensor.is_contiguous() or not fits:
        expected = ", ".join("any" if size is None else str(size) for size in shape)
        state = "contiguous" if tensor.is_contiguous() else "non-contiguous"
        raise MotionkitError(
            f"{name}: the kernel needs contiguous float32 [{expected}], got {state} {tensor.dtype} {list(sizes)}."
        )


def check_lengths(lengths: Tensor, batch: int, device: torch.device) -> None:
    """Refuse lengths that a kernel cannot read. Values are not checked, because that would wait for the device."""
    if lengths.dtype not in (torch.int32, torch.int64) or lengths.shape != (batch,):
        raise MotionkitError(f"lengths must be int64 or int32 [{batch}], got {lengths.dtype} {list(lengths.shape)}.")
    if lengths.device != device:
        raise MotionkitError(f"lengths are on {lengths.device}, the motions on {device}.")
    if not lengths.is_contiguous():
        raise MotionkitError("lengths must be contiguous.")


def check_length_values(lengths: Tensor, frames: int) -> None:
    """Refuse lengths below 0 or above `frames`. Waits for the device."""
    wrong = (lengths < 0) | (lengths > frames)
    if bool(wrong.any()):
        place = int(wrong.flatten().nonzero()[0])
        raise MotionkitError(f"length {int(lengths.flatten()[place])} of sample {place} is not within 0..{frames}.")
