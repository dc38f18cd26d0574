"""The names that a pickle may use, and the function that builds each."""

from __future__ import annotations

import argparse
import codecs
import collections
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from motionkit.errors import MotionkitError

_LONGEST = 100


def refusal(name: str, origin: str) -> MotionkitError:
    """Return the error for a pickle that refers to `name`, which is not on the list."""
    name = name[:_LONGEST]
    module = name.rpartition(".")[0]
    runs = module.split(".")[0] in {
        "os",
        "posix",
        "nt",
        "subprocess",
        "builtins",
        "__builtin__",
        "sys",
        "shutil",
        "socket",
        "runpy",
    }
    return MotionkitError(
        f"{origin} was not opened: it refers to {name}.",
        why="a pickle can call what it names, and this name runs code; nothing was executed."
        if runs
        else "only tensors, numpy arrays and plain containers are read from pickles; nothing was executed.",
        fix="do not use this file."
        if runs
        else "in the program that made it, save the bare weights: torch.save(model.state_dict(), path), "
        "or for TMR extract the last_weights folder.",
    )


def _default_dict(*_: Any) -> Any:
    """Return an empty ``defaultdict`` without the function that fills it."""
    return collections.defaultdict(None)


def _from_buffer(data: bytes, dtype: Any, shape: Any, order: Any, axes: Any = None) -> Any:
    """Return an array with its bytes, as pickle protocol 5 writes it; one that can be written to."""
    flat = np.frombuffer(bytearray(data), dtype=dtype)
    if order == "K" and axes is not None:
        return flat.reshape(shape).transpose(axes)
    return flat.reshape(shape, order=order)


def _tensor(
    storage: tuple[torch.UntypedStorage, torch.dtype],
    offset: int,
    size: Sequence[int],
    stride: Sequence[int],
    requires_grad: bool = False,
    _hooks: Any = None,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """Return the view of a storage that is a tensor."""
    found = torch.empty(0, dtype=dtype or storage[1])
    found.set_(storage[0], offset, tuple(size), tuple(stride))
    return found.requires_grad_(requires_grad)


def _parameter(data: Tensor, requires_grad: bool, _hooks: Any) -> torch.nn.Parameter:
    return torch.nn.Parameter(data, requires_grad)


_BUILTINS = (set, frozenset, complex, bytes, bytearray, dict, list, int, float, str)

TYPES: dict[str, torch.dtype] = {
    str(dtype): dtype
    for dtype in (
        torch.float16, torch.float32, torch.float64, torch.bfloat16, torch.complex64, torch.complex128, torch.bool,
        torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.uint16, torch.uint32, torch.uint64,
        torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz,
    )
}  # fmt: skip
"""Element types of tensors."""

STORAGES: dict[str, torch.dtype] = {
    **{
        f"torch.{name}Storage": dtype
        for name, dtype in {
            "Half": torch.float16, "Float": torch.float32, "Double": torch.float64, "BFloat16": torch.bfloat16,
            "ComplexFloat": torch.complex64, "ComplexDouble": torch.complex128, "Bool": torch.bool,
            "Char": torch.int8, "Short": torch.int16, "Int": torch.int32, "Long": torch.int64, "Byte": torch.uint8,
        }.items()
    },
    "torch.storage.UntypedStorage": torch.uint8,
}  # fmt: skip
"""Kinds of storage, with their elements."""

NAMES: dict[str, Any] = {
    **{f"{module}.{kind.__name__}": kind for module in ("builtins", "__builtin__") for kind in _BUILTINS},
    "collections.OrderedDict": collections.OrderedDict,
    "collections.Counter": collections.Counter,
    "collections.defaultdict": _default_dict,
    "argparse.Namespace": argparse.Namespace,
    # Byte strings in old pickle protocols are written as an encoded text.
    "_codecs.encode": codecs.encode,
    "numpy.dtype": np.dtype,
    "numpy.ndarray": np.ndarray,
    **{
        f"numpy.{core}.{name}": made
        for core in ("core", "_core")
        for name, made in {
            "multiarray._reconstruct": np.empty(0).__reduce__()[0],
            "multiarray.scalar": np.float64(0).__reduce__()[0],
            "numeric._frombuffer": _from_buffer,
        }.items()
    },
    "torch._utils._rebuild_tensor": _tensor,
    "torch._utils._rebuild_tensor_v2": _tensor,
    "torch._utils._rebuild_tensor_v3": _tensor,
    "torch._utils._rebuild_parameter": _parameter,
    "torch.Size": torch.Size,
    "torch.device": torch.device,
    **TYPES,
    **STORAGES,
}
