"""Parts of a record, and a record on another device, whatever it holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import torch
from torch import Tensor

from motionkit.motion import MotionBatch


def rows(record: Any, index: Sequence[int]) -> Any:
    """Return the samples at `index`, as copies."""
    if isinstance(record, MotionBatch):
        return _motions(record, record.features[list(index)], record.lengths[list(index)])
    return replace(record, **{name: _take(value, index) for name, value in contents(record).items()})


def moved(record: Any, device: torch.device) -> Any:
    """Return the samples on `device`, with their graph; the record itself where it is there already."""
    if record.device == device:
        return record
    if isinstance(record, MotionBatch):
        return _motions(record, record.features.to(device), record.lengths.to(device))
    found = {name: value.to(device) for name, value in contents(record).items() if isinstance(value, Tensor)}
    own = {"device": device} if "device" in {item.name for item in fields(record)} else {}
    return replace(record, **found, **own)


def contents(record: Any) -> dict[str, Any]:
    """Return the tensors and lists that a record is made of, by name; what it may have and has not is left out."""
    if isinstance(record, MotionBatch):
        return {"features": record.features, "lengths": record.lengths}
    found = {item.name: getattr(record, item.name) for item in fields(record)}
    return {name: value for name, value in found.items() if name != "device" and value is not None}


def _motions(record: MotionBatch, features: Tensor, lengths: Tensor) -> MotionBatch:
    return MotionBatch(features, lengths, skeleton=record.skeleton, fps=record.fps)


def _take(value: Any, index: Sequence[int]) -> Any:
    return value[list(index)] if isinstance(value, Tensor) else [value[i] for i in index]
