"""Device, threads, seed and precision of a trainer, and the library that multiplies matrices on the CPU.

Float32 matrices are multiplied by torch's own choice (MKL on x86) or by oneDNN. Both compute in float32 and differ in
the last bits, so the choice belongs to a run: it is made once, by a fixed rule, recorded in run.json and kept by
``--resume``.

torch 2.13 sends a product to oneDNN if ``torch.backends.mkldnn.matmul.fp32_precision`` is ``bf16``, which permits
rounding. It affects linear layers, matrix products and attention, forward and backward. Without AMX oneDNN computes
in float32 all the same, 5e-7 from MKL; with AMX it does round, to 2e-3, which is refused.
"""

from __future__ import annotations

import os
import random
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import torch

from motionkit.contracts.device import resolve_device, set_threads
from motionkit.errors import MotionkitError
from motionkit.runs import locate
from motionkit.training.settings import TrainerSettings

TOKENS = 256  # fewer in a batch are never faster by oneDNN
CLOSE = 1e-5  # relative difference that sums in another order make
_WIDTH = 384
_MKLDNN: Any = torch.backends.mkldnn  # type stubs lack its attribute matmul


def use_matmul(choice: str) -> None:
    """Send the float32 matrix products of this process to ``onednn``, or where torch sends them by ``default``."""
    _MKLDNN.matmul.fp32_precision = "bf16" if choice == "onednn" else "none"


def matmul_in_use() -> str:
    """Return ``onednn`` or ``default``."""
    return "onednn" if _MKLDNN.matmul.fp32_precision == "bf16" else "default"


def set_up_matmul(settings: TrainerSettings, device: torch.device) -> None:
    """Apply `cpu_matmul`; ``auto`` is the default until the trainer chooses by `prefers_onednn`.

    Refused are: another device, another choice than that of the resumed run, a torch without oneDNN, and rounding.
    """
    asked = settings.cpu_matmul
    use_matmul("default")
    if asked == "auto":
        return
    if device.type != "cpu":
        raise MotionkitError(
            f"--cpu-matmul {asked} has no effect: the run is on {device}.", fix="leave it out, or add --device cpu."
        )
    if (recorded := matmul_of_resumed(settings)) and asked != recorded:
        raise MotionkitError(
            f"cannot resume {settings.run.resume} with other settings: cpu_matmul was {recorded}, is {asked}.",
            why="the numbers would not be those of one run.",
            fix="leave --cpu-matmul out to continue, or start a new run without --resume",
        )
    if asked == "onednn" and not torch.backends.mkldnn.is_available():
        raise MotionkitError("this torch has no oneDNN.", fix="--cpu-matmul default")
    if asked == "onednn" and (difference := rounding()) > CLOSE:
        raise MotionkitError(
            f"oneDNN does not compute in float32 on this CPU: a product differs by {difference:.0e}.",
            why="with AMX it rounds to bfloat16, and algorithms compare probabilities that are more exact than that.",
            fix="--cpu-matmul default; --precision bf16 asks for bfloat16 by name",
        )
    use_matmul(asked)


def matmul_of_resumed(settings: TrainerSettings) -> str | None:
    """Return the library that a resumed run recorded; None for a new run."""
    return locate(settings.run.resume)[2].cpu_matmul if settings.run.resume else None


def rounding() -> float:
    """Return the relative difference between oneDNN's and the default product of two matrices."""
    matrix = torch.randn(256, 256, generator=torch.Generator().manual_seed(0))
    expected = matrix @ matrix
    use_matmul("onednn")
    result = matrix @ matrix
    use_matmul("default")
    return float((result - expected).norm() / expected.norm())


def prefers_onednn(width: int, tokens: int) -> bool:
    """Return whether oneDNN is the faster library for a network on this CPU, by a fixed rule.

    MKL uses AVX2 on AMD's CPUs. There oneDNN's AVX-512 code was 1.7x as fast for MDM (width 512, 8 samples of 197
    tokens, forward and backward). If MKL uses AVX-512 itself, oneDNN is slower at every width: 0.75x at 256, 0.9x at
    512. With MKL limited to AVX2 on such a CPU, as a stand-in for AMD's (forward and backward, one thread):

    ======  ==========================================
    width   speed at tokens in a batch
    ======  ==========================================
    128     1.05x at 1576, 0.7x at 3200 (50 a sample)
    256     1.0x at 197, 1.4x at 1576, 0.9x at 6304
    384     1.0x at 100, 1.4x at 197, 1.0x at 1576
    512     0.6x at 20, 1.2x at 197, 1.2x at 1576, 1.4x at 3152
    ======  ==========================================

    Args:
        width: Features per token.
        tokens: Tokens in a batch.
    """
    cpu = torch.cpu.get_capabilities()
    suited = str(cpu.get("cpu_name")).startswith("AMD") and bool(cpu.get("avx512_f"))
    return suited and not torch.cpu._is_amx_tile_supported() and width >= _WIDTH and tokens >= TOKENS


def total_memory(device: torch.device) -> int:
    """Return the bytes of memory that a CUDA device has; 0 for another one."""
    return torch.cuda.get_device_properties(device).total_memory if device.type == "cuda" else 0


def describe_device(device: torch.device) -> str:
    """Describe a device: ``cuda:0 (NVIDIA H200)``, ``cpu (8 threads)``, ``cpu (8 threads, oneDNN)``."""
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

    Results on the CPU depend on the number of threads in the last bit.

    Args:
        settings: The trainer's.
        small: The networks are small; see `set_threads`.
    """
    device = resolve_device(settings.device)
    set_threads(settings.threads, device, small=small)
    set_up_matmul(settings, device)
    if device.type == "cuda":
        # For bit-repeatable products; cuBLAS reads it when the first handle is created.
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    seed_everything(settings.seed)
    return device


def autocast(device: torch.device, precision: str) -> AbstractContextManager[object]:
    """Return the context for a network's body: bfloat16 autocast, or nothing for ``fp32``.

    Heads, samplers, log-probabilities and losses run outside of it, in float32.
    """
    return torch.autocast(device.type, dtype=torch.bfloat16) if precision == "bf16" else nullcontext()
