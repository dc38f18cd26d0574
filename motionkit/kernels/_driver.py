"""Loading and launching kernels through the CUDA driver, on torch's current stream."""

from __future__ import annotations

import ctypes
import threading
from types import ModuleType
from typing import Any, Protocol

import torch

from motionkit.errors import MotionkitError
from motionkit.kernels._cubins import cubin_for
from motionkit.kernels._nvrtc import choose_arch
from motionkit.kernels._specs import Spec

OLDEST = (7, 5)
"""The oldest compute capability that the kernels are compiled for."""

_FIX = "MOTIONKIT_KERNELS=torch."


class NotNowError(MotionkitError):
    """A kernel cannot be loaded at this moment, but may be later."""


class Driver(Protocol):
    """Something that can run kernels. `CudaDriver` is the one that ships; a prebuilt fatbin could be another."""

    def load(self, spec: Spec, device: torch.device) -> None:
        """Make the kernels of `spec` ready for `device`; quick when they are.

        Raises:
            MotionkitError: It cannot be done.
        """
        ...

    def launch(
        self, spec: Spec, kernel: str, grid: int, threads: int, arguments: ctypes.Array[Any], device: torch.device
    ) -> None:
        """Launch `kernel` on the current stream of `device` with ``void*[]`` `arguments`; does not wait for it.

        Raises:
            MotionkitError: It cannot be launched.
        """
        ...


class CudaDriver:
    """NVRTC's cubins, launched by `cuLaunchKernel` (cuda-bindings 12 or 13)."""

    def __init__(self) -> None:
        self._kernels: dict[tuple[Spec, int], dict[str, Any]] = {}
        self._archs: dict[int, int] = {}
        self._lock = threading.Lock()

    def load(self, spec: Spec, device: torch.device) -> None:
        """Compile or fetch the cubin and load it; a loaded library serves every device of one architecture.

        Raises:
            MotionkitError: The device is older than sm_75, or NVRTC or the driver is missing or refuses.
            NotNowError: A CUDA graph is being captured; loading is not allowed then.
        """
        arch = self._arch(device)
        if (spec, arch) in self._kernels:
            return
        with self._lock, torch.cuda.device(device):
            if torch.cuda.is_current_stream_capturing():
                raise NotNowError(
                    "a CUDA graph is being captured and the kernel is not loaded yet.",
                    why="loading code is not allowed during capture.",
                    fix="call the function once before the capture.",
                )
            if (spec, arch) not in self._kernels:
                self._kernels[spec, arch] = _load(cubin_for(spec, arch), spec)

    def launch(
        self, spec: Spec, kernel: str, grid: int, threads: int, arguments: ctypes.Array[Any], device: torch.device
    ) -> None:
        """Launch `kernel`; see `Driver.launch`."""
        self.load(spec, device)
        driver = _driver()
        function = self._kernels[spec, self._arch(device)][kernel]
        place = ctypes.addressof(arguments)
        with torch.cuda.device(device):
            stream = torch.cuda.current_stream(device).cuda_stream
            status = driver.cuLaunchKernel(function, grid, 1, 1, threads, 1, 1, 0, stream, place, 0)[0]
            if status == driver.CUresult.CUDA_ERROR_INVALID_CONTEXT:
                # A thread that has not used CUDA yet: the driver, unlike the runtime, has no context there.
                torch.cuda.synchronize(device)
                status = driver.cuLaunchKernel(function, grid, 1, 1, threads, 1, 1, 0, stream, place, 0)[0]
        if status != driver.CUresult.CUDA_SUCCESS:
            raise MotionkitError(f"the CUDA driver refuses {kernel}: {status.name}.", fix=_FIX)

    def _arch(self, device: torch.device) -> int:
        index = torch.cuda.current_device() if device.index is None else device.index
        if index not in self._archs:
            capability = torch.cuda.get_device_capability(index)
            if capability < OLDEST:
                have, need = (".".join(str(part) for part in pair) for pair in (capability, OLDEST))
                raise MotionkitError(
                    f"cuda:{index} has compute capability {have}; the kernels need {need} or newer.",
                    fix="MOTIONKIT_KERNELS=auto or torch.",
                )
            self._archs[index] = choose_arch(capability)
        return self._archs[index]


def _driver() -> ModuleType:
    from cuda.bindings import driver

    module: ModuleType = driver
    return module


def _load(cubin: bytes, spec: Spec) -> dict[str, Any]:
    try:
        driver = _driver()
        library = _checked(driver, driver.cuLibraryLoadData(cubin, [], [], 0, [], [], 0), spec.source)
        handles = {}
        for name in spec.kernels:
            handle = _checked(driver, driver.cuLibraryGetKernel(library, name.encode()), name)
            handles[name] = driver.CUfunction(int(handle))
    except (ImportError, RuntimeError, OSError) as error:
        raise MotionkitError("the CUDA driver cannot be used.", why=str(error), fix=_FIX) from error
    return handles


def _checked(driver: ModuleType, answer: tuple[Any, ...], what: str) -> Any:
    if answer[0] != driver.CUresult.CUDA_SUCCESS:
        raise MotionkitError(
            f"the CUDA driver does not load {what}: {answer[0].name}.",
            why="the driver may be older than the CUDA version of NVRTC.",
            fix="update the driver, or MOTIONKIT_KERNELS=torch.",
        )
    return answer[1]
