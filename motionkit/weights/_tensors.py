"""Finds the tensors inside the containers that training programs save."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

_WRAPPERS = ("state_dict", "model_state_dict", "model", "net", "network", "weights", "params")
_PREFIXES = ("module.", "_orig_mod.")


def strip_prefix(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Remove ``module.`` (DataParallel) and ``_orig_mod.`` (torch.compile) where every name has it, at any depth."""
    found = dict(tensors)
    while found:
        prefix = next((prefix for prefix in _PREFIXES if all(name.startswith(prefix) for name in found)), "")
        if not prefix:
            break
        found = {name.removeprefix(prefix): value for name, value in found.items()}
    return found


def find_tensors(obj: Any) -> dict[str, Tensor] | None:
    """Return the flat name-to-tensor mapping in `obj`, unwrapped, or None when there is none.

    Numpy arrays count as tensors. Looks through ``{"state_dict": ...}``, ``{"model": ...}`` and the like.
    """
    for _ in range(4):
        if not isinstance(obj, Mapping):
            return None
        flat = flat_tensors(obj)
        if flat:
            return strip_prefix(flat)
        inner = next((obj[name] for name in _WRAPPERS if isinstance(obj.get(name), Mapping)), None)
        if inner is None:
            return None
        obj = inner
    return None


def flat_tensors(obj: Mapping[Any, Any]) -> dict[str, Tensor]:
    """Return `obj` itself as tensors when every value is a tensor or a numeric array and every key a name."""
    if not all(isinstance(key, str) for key in obj):
        return {}
    found = {key: tensor for key, value in obj.items() if (tensor := as_tensor(value)) is not None}
    return found if len(found) == len(obj) else {}


def as_tensor(value: object) -> Tensor | None:
    """Return a tensor as it is and an array of numbers in any byte order as a tensor; None for anything else."""
    if isinstance(value, np.ndarray) and is_numeric(value.dtype):
        return torch.from_numpy(np.asarray(value, dtype=value.dtype.newbyteorder("="), order="C"))
    return value if isinstance(value, Tensor) else None


def is_numeric(dtype: np.dtype[Any]) -> bool:
    """Whether torch supports this number type, in any byte order."""
    return dtype.kind in "?bfiu" and dtype.itemsize <= 8
