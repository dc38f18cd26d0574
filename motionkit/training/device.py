"""What a trainer computes on, with how many threads, from which seed and in which precision."""

from __future__ import annotations

import os
import random
from contextlib import AbstractContextManager, nullcontext

import numpy as np
import torch

from motionkit.config import TrainerSettings
from motionkit.contracts.device import resolve_device, set_threads
from motionkit.training.matmul import matmul_in_use, set_up_matmul


def describe_device(device: torch.device) -> str:
    """Return a device in words: ``cuda:0 (NVIDIA H200)``, ``cpu (8 threads)``, ``cpu (8 threads, oneDNN)``."""
    if device.type == "cuda":
        return f"{device} ({torch.cuda.get_device_name(device)})"
    library = ", oneDNN" if matmul_in_use() == "onednn" else ""
    return f"cpu ({torch.get_num_threads()} threads{library})" if device.type == "cpu" else str(device)


def seed_everything(seed: int) -> None:
    """Seed the global generators of torch (all devices), numpy and python."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)


def set_up(settings: TrainerSettings, *, small: bool = False) -> torch.device:
    """Apply the shared settings `threads`, `seed`, `device` and `cpu_matmul`; call it first in `Trainer.prepare`.

    Numbers of a run on the CPU depend on the number of threads in the last bit, so it is fixed when given.

    Args:
        settings: The trainer's.
        small: The networks are small; see `set_threads`.

    Raises:
        MotionkitError: The device is not on this machine, or `cpu_matmul` has no use; see `set_up_matmul`.
    """
    device = resolve_device(settings.device)
    set_threads(settings.threads, device, small=small)
    set_up_matmul(settings, device)
    if device.type == "cuda":
        # cuBLAS needs it for bit-repeatable products; it is read when the first handle is made.
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    seed_everything(settings.seed)
    return device


def autocast(device: torch.device, precision: str) -> AbstractContextManager[object]:
    """Return the context for a network's body: bfloat16 autocast, or nothing for ``fp32``.

    Heads, samplers, log-probabilities and losses run outside of it, in float32.
    """
    if precision == "bf16":
        return torch.autocast(device.type, dtype=torch.bfloat16)
    return nullcontext()
