"""Loads weights strictly: any tensor that is missing, unknown or of another shape is an error."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import torch
from torch import Tensor, nn

from motionkit.errors import MotionkitError
from motionkit.weights._describe import describe

Module = TypeVar("Module", bound=nn.Module)


def load_strict(module: nn.Module, tensors: Mapping[str, Tensor], origin: str) -> None:
    """Copy `tensors` into `module`; every name and shape must agree.

    Args:
        module: Network with its own names.
        tensors: Name to tensor.
        origin: File or folder they came from, for the message.

    Raises:
        MotionkitError: Names missing or unknown, or shapes that differ, with the first few of each and what the
            file seems to be. The module is unchanged then.

    Example:
        >>> layer = nn.Linear(2, 1)
        >>> load_strict(layer, {"weight": torch.ones(1, 2), "bias": torch.zeros(1)}, "layer.pt")
        >>> layer(torch.ones(1, 2)).item()
        2.0
    """
    _check(module, tensors, origin)
    module.load_state_dict(dict(tensors), strict=True)


def build(make: Callable[[], Module], tensors: Mapping[str, Tensor], origin: str) -> Module:
    """Build a network for `tensors` and load them into it.

    The network is first built on the meta device, without memory. It is built with memory only when every name and
    shape agrees, so that a wrong description beside the file cannot allocate more than the file holds.

    Args:
        make: Makes the network.
        tensors: Name to tensor.
        origin: File or folder they came from, for the message.

    Raises:
        MotionkitError: As `load_strict`.
    """
    with torch.device("meta"):
        _check(make(), tensors, origin)
    module = make()
    module.load_state_dict(dict(tensors), strict=True)
    return module


def _check(module: nn.Module, tensors: Mapping[str, Tensor], origin: str) -> None:
    own = module.state_dict()
    missing = sorted(own.keys() - tensors.keys())
    unknown = sorted(tensors.keys() - own.keys())
    shapes = [
        f"{name} is {list(tensors[name].shape)}, should be {list(own[name].shape)}"
        for name in own
        if name in tensors and tensors[name].shape != own[name].shape
    ]
    if missing or unknown or shapes:
        parts = [
            _some("missing", missing, len(own)),
            _some("unknown", unknown, len(tensors)),
            _some("of another shape", shapes, len(own)),
        ]
        raise MotionkitError(
            f"{origin} does not fit {type(module).__name__}.",
            why="; ".join(part for part in parts if part) + f". The file looks like: {describe(tensors)}.",
            fix="use the weights that belong to this model; nothing was loaded.",
        )


def _some(what: str, names: Sequence[str], of: int) -> str:
    if not names:
        return ""
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"{len(names)} of {of} tensors {what}: {', '.join(names[:3])}{more}"
