"""Compiles CUDA C++ for one architecture with NVRTC, which torch's CUDA wheels include. Needs no GPU."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from types import ModuleType
from typing import Any

from motionkit.errors import MotionkitError

OPTIONS = ("-std=c++17", "--ptxas-options=-v")
_FIX = "pip install 'motionkit[cuda]', or MOTIONKIT_KERNELS=torch."


def compiler_version() -> tuple[int, int]:
    """Return NVRTC's version.

    Raises:
        MotionkitError: cuda-bindings or the NVRTC library is missing.
    """
    major, minor = _call(_nvrtc(), "nvrtcVersion")
    return int(major), int(minor)


@lru_cache(maxsize=1)
def compiler_build() -> str:
    """Return release and build from the head of NVRTC's output; builds of one version differ in code.

    Raises:
        MotionkitError: cuda-bindings or the NVRTC library is missing.
    """
    nvrtc = _nvrtc()
    (program,) = _call(nvrtc, "nvrtcCreateProgram", b"", b"empty", 0, None, None)
    try:
        _call(nvrtc, "nvrtcCompileProgram", program, 0, [])
        (size,) = _call(nvrtc, "nvrtcGetPTXSize", program)
        text = bytes(size)
        _call(nvrtc, "nvrtcGetPTX", program, text)
    finally:
        nvrtc.nvrtcDestroyProgram(program)
    lines = text.decode(errors="replace").splitlines()
    return " ".join(line.strip("/ ") for line in lines if line.startswith("//")).strip()


def choose_arch(capability: tuple[int, int]) -> int:
    """Return the architecture (90 for sm_90) to compile for, given a device's compute capability.

    The device's own architecture when NVRTC knows it, else the nearest older one of the same generation.

    Raises:
        MotionkitError: NVRTC is missing, or older than the device's generation.
    """
    wanted = capability[0] * 10 + capability[1]
    known = [int(arch) for arch in _call(_nvrtc(), "nvrtcGetSupportedArchs")[0]]
    fitting = [arch for arch in known if arch // 10 == capability[0] and arch <= wanted]
    if not fitting:
        version = ".".join(str(part) for part in compiler_version())
        raise MotionkitError(f"NVRTC {version} cannot compile for sm_{wanted}.", fix="use a newer CUDA build of torch.")
    return max(fitting)


def compile_cubin(text: str, name: str, macros: Mapping[str, str], arch: int) -> tuple[bytes, str]:
    """Return the cubin and the compiler's log, which names registers and spills of every kernel.

    A cubin, never PTX: a driver older than NVRTC cannot load PTX.

    Args:
        text: CUDA C++.
        name: What the log calls it.
        macros: Macros to define.
        arch: 90 for sm_90.

    Raises:
        MotionkitError: NVRTC is missing, or rejects the source (the log is in the message).
    """
    nvrtc = _nvrtc()
    flags = [f"--gpu-architecture=sm_{arch}", *OPTIONS, *(f"-D{key}={value}" for key, value in macros.items())]
    (program,) = _call(nvrtc, "nvrtcCreateProgram", text.encode(), name.encode(), 0, None, None)
    try:
        status = nvrtc.nvrtcCompileProgram(program, len(flags), [flag.encode() for flag in flags])[0]
        log = _text(nvrtc, program)
        if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            raise MotionkitError(f"NVRTC does not accept {name} for sm_{arch}: {status.name}.", why=log, fix=_FIX)
        (size,) = _call(nvrtc, "nvrtcGetCUBINSize", program)
        cubin = bytes(size)
        _call(nvrtc, "nvrtcGetCUBIN", program, cubin)
        return cubin, log
    finally:
        nvrtc.nvrtcDestroyProgram(program)


@lru_cache(maxsize=1)
def _nvrtc() -> ModuleType:
    try:
        from cuda.bindings import nvrtc
    except ImportError as error:
        raise MotionkitError("CUDA kernels need the package cuda-bindings.", why=str(error), fix=_FIX) from error
    module: ModuleType = nvrtc
    return module


def _call(nvrtc: ModuleType, function: str, *arguments: Any) -> tuple[Any, ...]:
    try:
        status, *results = getattr(nvrtc, function)(*arguments)
    except (RuntimeError, OSError) as error:  # raised by cuda-bindings when it cannot load the library
        raise MotionkitError("the NVRTC library cannot be loaded.", why=str(error), fix=_FIX) from error
    if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise MotionkitError(f"{function} failed: {status.name}.", fix=_FIX)
    return tuple(results)


def _text(nvrtc: ModuleType, program: Any) -> str:
    (size,) = _call(nvrtc, "nvrtcGetProgramLogSize", program)
    log = bytes(size)
    _call(nvrtc, "nvrtcGetProgramLog", program, log)
    return log.rstrip(b"\0 \n").decode(errors="replace")
