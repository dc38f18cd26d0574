"""The backend: chooses between the CUDA kernels and plain torch, and loads and launches the kernels.

`CudaDriver` loads cubins and launches their kernels through the CUDA driver, on torch's current stream. `use_kernel`
decides whether a kernel runs, and makes it ready. `backend_report` gives that decision and its reason.
"""

from __future__ import annotations

import ctypes
import logging
import os
import threading
from collections.abc import Mapping
from functools import lru_cache
from types import ModuleType
from typing import Any

import torch

from motionkit.errors import MotionkitError
from motionkit.kernels._compile import (
    Spec,
    choose_arch,
    compiler_version,
    cubin_folder,
    cubin_for,
    physics_spec,
    recover_spec,
)

BACKENDS = ("auto", "cuda", "torch")
VARIABLE = "MOTIONKIT_KERNELS"

OLDEST = (7, 5)
"""The oldest compute capability that the kernels are compiled for."""

_FIX = "MOTIONKIT_KERNELS=torch."
_LEGACY_STREAM = 1
"""Torch's stream 0 is CUDA's legacy default stream, also where 0 means a stream per thread."""

# The call that torch's own compiler uses; ten times faster than `current_stream`. Missing in torch without CUDA.
_raw_stream = getattr(torch._C, "_cuda_getCurrentRawStream", None)


@lru_cache(maxsize=1)
def driver_module() -> ModuleType:
    """Return `cuda.bindings.driver`; raises ImportError without cuda-bindings."""
    from cuda.bindings import driver

    module: ModuleType = driver
    return module


def arch_of(index: int) -> int:
    """Return the architecture (90 for sm_90) to compile for on CUDA device `index`."""
    capability = torch.cuda.get_device_capability(index)
    if capability < OLDEST:
        have, need = (".".join(str(part) for part in pair) for pair in (capability, OLDEST))
        raise MotionkitError(
            f"cuda:{index} has compute capability {have}; the kernels need {need} or newer.",
            fix="MOTIONKIT_KERNELS=auto or torch.",
        )
    return choose_arch(capability)


def kernels_of(driver: ModuleType, cubin: bytes, spec: Spec) -> dict[str, Any]:
    """Return the kernels in a cubin by name, not yet loaded onto a device."""
    library = checked(driver, driver.cuLibraryLoadData(cubin, [], [], 0, [], [], 0), spec.source)
    return {name: checked(driver, driver.cuLibraryGetKernel(library, name.encode()), name) for name in spec.kernels}


def functions_of(driver: ModuleType, kernels: Mapping[str, Any]) -> dict[str, Any]:
    """Load kernels onto the current device and return their functions by name.

    By default a driver loads a kernel at its first launch: too late to fall back, and not always allowed in a capture.
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
    """Return the result of a driver call."""
    if answer[0] != driver.CUresult.CUDA_SUCCESS:
        raise MotionkitError(
            f"the CUDA driver does not load {what}: {answer[0].name}.",
            why="the driver may be older than the CUDA version of NVRTC.",
            fix="update the driver, or MOTIONKIT_KERNELS=torch.",
        )
    return answer[-1]


class NotNowError(MotionkitError):
    """A kernel cannot be loaded now, but may be later."""


class CudaDriver:
    """NVRTC's cubins, launched by `cuLaunchKernel` (cuda-bindings 12 or 13)."""

    def __init__(self) -> None:
        self._kernels: dict[tuple[Spec, int], Mapping[str, Any]] = {}  # by architecture: good for every such device
        self._functions: dict[tuple[Spec, int], Mapping[str, Any]] = {}  # by device
        self._contexts: dict[int, Any] = {}
        self._lock = threading.Lock()

    def load(self, spec: Spec, device: torch.device) -> None:
        """Compile or fetch the cubin and load its kernels onto `device`, before the first launch.

        Raises:
            MotionkitError: The device is older than sm_75, or NVRTC or the driver is missing or reports an error.
            NotNowError: A CUDA graph is being captured; loading is not allowed then.
        """
        index = _index(device)
        if (spec, index) in self._functions:
            return
        arch = arch_of(index)
        with self._lock, torch.cuda.device(index):
            if torch.cuda.is_current_stream_capturing():
                raise NotNowError(
                    "a CUDA graph is being captured and the kernel is not loaded yet.",
                    why="loading code is not allowed during capture.",
                    fix="call the function once before the capture.",
                )
            try:
                driver = driver_module()
                self._enter(driver, index)
                if (spec, arch) not in self._kernels:
                    self._kernels[spec, arch] = kernels_of(driver, cubin_for(spec, arch), spec)
                self._functions[spec, index] = functions_of(driver, self._kernels[spec, arch])
            except (ImportError, RuntimeError, OSError) as error:
                raise MotionkitError("the CUDA driver cannot be used.", why=str(error), fix=_FIX) from error

    def launch(
        self, spec: Spec, kernel: str, grid: int, threads: int, arguments: ctypes.Array[Any], device: torch.device
    ) -> None:
        """Launch `kernel` on the current stream of `device` with ``void*[]`` `arguments`; does not wait for it."""
        index = _index(device)
        if (spec, index) not in self._functions:
            self.load(spec, device)
        function = self._functions[spec, index][kernel]
        if index == torch.cuda.current_device():
            status = self._enqueue(function, grid, threads, arguments, index)
        else:
            with torch.cuda.device(index):
                status = self._enqueue(function, grid, threads, arguments, index)
        if status:
            # A code of cuda-bindings, or a plain number.
            name = getattr(status, "name", status)
            raise MotionkitError(f"the CUDA driver refuses {kernel}: {name}.", fix=_FIX)

    def _enqueue(self, function: Any, grid: int, threads: int, arguments: ctypes.Array[Any], index: int) -> Any:
        driver = driver_module()
        stream = _raw_stream(index) if _raw_stream else torch.cuda.current_stream(index).cuda_stream
        call = (function, grid, 1, 1, threads, 1, 1, 0, stream or _LEGACY_STREAM, ctypes.addressof(arguments), 0)
        status = driver.cuLaunchKernel(*call)[0]
        if status == driver.CUresult.CUDA_ERROR_INVALID_CONTEXT:
            # In a thread that has not used CUDA yet the driver, unlike the runtime, has no context, and a guard for the
            # current device creates none.
            self._enter(driver, index)
            status = driver.cuLaunchKernel(*call)[0]
        return status

    def _enter(self, driver: ModuleType, index: int) -> None:
        """Make torch's context of a device current in this thread; allowed during capture, waits for nothing."""
        if index not in self._contexts:
            self._contexts[index] = checked(driver, driver.cuDevicePrimaryCtxRetain(index), "the context of the device")
        checked(driver, driver.cuCtxSetCurrent(self._contexts[index]), "the context of the device")


def _index(device: torch.device) -> int:
    return torch.cuda.current_device() if device.index is None else device.index


_log = logging.getLogger("motionkit.kernels")
_drivers: dict[str, CudaDriver] = {"cuda": CudaDriver()}
_failed: set[tuple[object, ...]] = set()
_logged: set[str] = set()
_ready: set[tuple[object, ...]] = set()


def driver_of(device: torch.device) -> CudaDriver:
    """Return the driver that launches kernels on `device`."""
    if device.type not in _drivers:
        raise MotionkitError(
            f"the cuda backend got a tensor on {device}.",
            why="it runs on CUDA devices only.",
            fix="move the tensors to a CUDA device, or choose the backend auto or torch.",
        )
    return _drivers[device.type]


def requested(backend: str = "auto") -> str:
    """Return `backend`, or the value of ``$MOTIONKIT_KERNELS`` if it is ``auto``."""
    value, origin = backend, "backend"
    if backend == "auto" and (variable := os.environ.get(VARIABLE)):
        value, origin = variable, VARIABLE
    if value not in BACKENDS:
        raise MotionkitError(f"{origin} must be one of {', '.join(BACKENDS)}, got {value!r}.")
    return value


def use_kernel(
    kind: str, backend: str, device: torch.device, double: bool, joints: int, feet: tuple[int, ...] | None = None
) -> bool:
    """Decide whether a kernel runs, and make it ready if so.

    `auto` takes the kernel on a CUDA device if it can be loaded; otherwise one log line gives the reason. A failure is
    remembered for this body only.

    Args:
        kind: ``physics`` or ``recover``.
        backend: ``auto``, ``cuda`` or ``torch``.
        device: Device of the tensors.
        double: Whether they are float64, which only plain torch computes.
        joints: Joints of the body.
        feet: Foot joints, for ``physics``.
    """
    choice = requested(backend)
    key = (kind, choice, device, double, joints, feet)
    if key in _ready:
        return True
    if choice == "torch" or (choice == "auto" and (device.type not in _drivers or double)):
        return False
    if double:
        raise MotionkitError(
            "the cuda backend got float64.", why="the kernels compute in float32.", fix="choose the backend torch."
        )
    driver = driver_of(device)
    # Per body: one that is too large for a kernel does not rule out smaller ones.
    if choice == "auto" and (kind, device, joints, feet) in _failed:
        return False
    try:
        spec = physics_spec(joints, feet or ()) if kind == "physics" else recover_spec(joints)
        driver.load(spec, device)
    except MotionkitError as error:
        if choice == "cuda":
            raise
        if not isinstance(error, NotNowError):
            _failed.add((kind, device, joints, feet))
        line = f"plain torch instead of the {kind} kernel on {device}: {error.message} {error.why}".rstrip()
        if line not in _logged:
            _log.warning("%s", line)
        _logged.add(line)
        return False
    _ready.add(key)
    return True


# torch.compile calls it once while it traces. `torch.compiler.assume_constant_result` sets the same mark, but imports
# torch._dynamo, which takes as long as torch.
use_kernel._dynamo_marked_constant = True  # type: ignore[attr-defined]


def backend_report() -> tuple[str, str]:
    """Return ``ok``, ``warn`` or ``fail``, and a line on which backend runs here and why.

    ``warn``: a CUDA device runs plain torch. ``fail``: the backend in ``$MOTIONKIT_KERNELS`` cannot run.
    """
    try:
        choice = requested()
    except MotionkitError as error:
        return "fail", error.message
    if choice == "torch":
        return "ok", f"torch, as {VARIABLE} says"
    missing = "fail" if choice == "cuda" else "warn"
    if not torch.cuda.is_available():
        return "ok" if choice == "auto" else "fail", "torch: there is no CUDA device"
    device = torch.device("cuda", torch.cuda.current_device())
    try:
        driver_of(device).load(physics_spec(22, (7, 10, 8, 11)), device)
        arch = choose_arch(torch.cuda.get_device_capability(device))
        version = ".".join(str(part) for part in compiler_version())
    except MotionkitError as error:
        return missing, f"torch: {error.message} {error.why}".rstrip()
    folder = cubin_folder()
    place = "not kept: there is no home folder" if folder is None else f"kept in {folder}"
    return "ok", f"cuda: sm_{arch} by NVRTC {version}, {place}"
