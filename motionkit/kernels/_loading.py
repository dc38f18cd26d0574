"""Loads a cubin onto a CUDA device through the driver."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from types import ModuleType
from typing import Any

import torch

from motionkit.errors import MotionkitError
from motionkit.kernels._nvrtc import choose_arch
from motionkit.kernels._specs import Spec

OLDEST = (7, 5)
"""The oldest compute capability that the kernels are compiled for."""


@lru_cache(maxsize=1)
def driver_module() -> ModuleType:
    """Return `cuda.bindings.driver`; raises ImportError without cuda-bindings."""
    from cuda.bindings import driver

    module: ModuleType = driver
    return module


def arch_of(index: int) -> int:
    """Return the architecture (90 for sm_90) to compile for on CUDA device `index`.

    Raises:
        MotionkitError: The device is older than sm_75, NVRTC is missing, or older than the device.
    """
    capability = torch.cuda.get_device_capability(index)
    if capability < OLDEST:
        have, need = (".".join(str(part) for part in pair) for pair in (capability, OLDEST))
        raise MotionkitError(
            f"cuda:{index} has compute capability {have}; the kernels need {need} or newer.",
            fix="MOTIONKIT_KERNELS=auto or torch.",
        )
    return choose_arch(capability)


def kernels_of(driver: ModuleType, cubin: bytes, spec: Spec) -> dict[str, Any]:
    """Return the kernels in a cubin by name, not yet loaded onto a device.

    Raises:
        MotionkitError: The driver cannot read the cubin.
    """
    library = checked(driver, driver.cuLibraryLoadData(cubin, [], [], 0, [], [], 0), spec.source)
    return {name: checked(driver, driver.cuLibraryGetKernel(library, name.encode()), name) for name in spec.kernels}


def functions_of(driver: ModuleType, kernels: Mapping[str, Any]) -> dict[str, Any]:
    """Load kernels onto the current device and return their functions by name.

    By default a driver loads a kernel at its first launch: too late to fall back, and not allowed in every capture.

    Raises:
        MotionkitError: The device cannot run them.
    """
    functions = {}
    for name, kernel in kernels.items():
        functions[name] = checked(driver, driver.cuKernelGetFunction(kernel), name)
        try:
            status = driver.cuFuncLoad(functions[name])
        except RuntimeError:  # drivers before CUDA 12.4 have no such call; they have loaded the kernel already
            continue
        checked(driver, status, name)
    return functions


def checked(driver: ModuleType, answer: tuple[Any, ...], what: str) -> Any:
    """Return the result of a driver call.

    Raises:
        MotionkitError: The call failed.
    """
    if answer[0] != driver.CUresult.CUDA_SUCCESS:
        raise MotionkitError(
            f"the CUDA driver does not load {what}: {answer[0].name}.",
            why="the driver may be older than the CUDA version of NVRTC.",
            fix="update the driver, or MOTIONKIT_KERNELS=torch.",
        )
    return answer[-1]
