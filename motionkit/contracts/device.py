"""Device names and CPU threads."""

from __future__ import annotations

import os

import torch

from motionkit.errors import MotionkitError

_FEW_CORES = 4


def resolve_device(device: str, *, flag: str = "--device") -> torch.device:
    """Turn ``auto|cpu|mps|cuda[:N]|N`` into a device of this machine.

    ``auto`` is the first CUDA device, else MPS, else the CPU.

    Args:
        device: Its name.
        flag: The flag that named it, for messages.

    Example:
        >>> resolve_device("cpu")
        device(type='cpu')
    """
    name = f"cuda:{device}" if device.isdecimal() else device
    cuda, mps = torch.cuda.device_count() if torch.cuda.is_available() else 0, torch.backends.mps.is_available()
    if name == "auto":
        return torch.device("cuda:0" if cuda else "mps" if mps else "cpu")
    try:
        target = torch.device(name)
    except RuntimeError as error:
        raise MotionkitError(f"{flag} {device} is not a device.", fix="auto, cpu, mps, cuda, cuda:N or N") from error
    if target.type == "cpu" or (target.type == "mps" and mps) or (target.type == "cuda" and (target.index or 0) < cuda):
        return torch.device("cuda", target.index or 0) if target.type == "cuda" else target
    available = ["cpu", *(["mps"] if mps else []), *(f"cuda:{index}" for index in range(cuda))]
    raise MotionkitError(
        f"{flag} {device} is not on this machine.",
        why=f"available devices: {', '.join(available)}.",
        fix=f"{flag} auto",
    )


def set_threads(wanted: int, device: torch.device, *, small: bool) -> None:
    """Set torch's CPU threads.

    Args:
        wanted: How many; 0 for the default.
        device: The device of the computation.
        small: Whether the networks are so small that on few cores a second thread slows them down, many times so if
            another process computes as well. The default is then one thread, otherwise torch's choice.
    """
    if wanted:
        torch.set_num_threads(wanted)
    elif small and device.type == "cpu" and (os.cpu_count() or 1) <= _FEW_CORES:
        torch.set_num_threads(1)
