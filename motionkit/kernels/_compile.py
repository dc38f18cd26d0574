"""Compiles the kernels with NVRTC, which torch's CUDA wheels include. Needs no GPU.

`compile_cubin` compiles a source for one architecture. A `Spec` is a source specialised for a body: its macros, threads
and launch bounds. `cubin_for` compiles a spec with the tightest launch bounds that spill no registers, and caches the
machine code on disk under a hash of all inputs.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

from motionkit.config import cache_folder
from motionkit.errors import MotionkitError
from motionkit.runs import write_bytes_atomic

OPTIONS = ("-std=c++17", "--ptxas-options=-v")
_FIX = "pip install 'motionkit[cuda]', or MOTIONKIT_KERNELS=torch."

_SHARED_BYTES = 47 * 1024  # bytes of shared memory; every device gives a block 48 KiB by default
_MOST_THREADS = 1024
_OLDEST = 75  # sm_75: 1024 threads fit a multiprocessor there, at least 1536 on newer architectures
_ROOM = 1024
_WALK = 8  # frames per thread of the physics kernels; values of one frame are reused for the next

_MAGIC = b"motionkit cubin 1\n"
_SPILLS = re.compile(r"Function properties for (\w+)\n.*?(\d+) bytes spill stores, (\d+) bytes spill loads")
_log = logging.getLogger("motionkit.kernels")


def compiler_version() -> tuple[int, int]:
    """Return NVRTC's version."""
    major, minor = _call(_nvrtc(), "nvrtcVersion")
    return int(major), int(minor)


@lru_cache(maxsize=1)
def compiler_build() -> str:
    """Return release and build from the header of NVRTC's output; builds of the same version generate other code."""
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

    It is the device's architecture if NVRTC supports it, else the nearest older one of the same generation.
    """
    native = capability[0] * 10 + capability[1]
    supported = [int(arch) for arch in _call(_nvrtc(), "nvrtcGetSupportedArchs")[0]]
    fitting = [arch for arch in supported if arch // 10 == capability[0] and arch <= native]
    if not fitting:
        version = ".".join(str(part) for part in compiler_version())
        raise MotionkitError(f"NVRTC {version} cannot compile for sm_{native}.", fix="use a newer CUDA build of torch.")
    return max(fitting)


def compile_cubin(text: str, name: str, macros: Mapping[str, str], arch: int) -> tuple[bytes, str]:
    """Return the cubin and the compiler's log, which names registers and spills of every kernel.

    A cubin, never PTX: a driver older than NVRTC cannot load PTX.

    Args:
        text: CUDA C++.
        name: Its name in the log.
        macros: Macros to define.
        arch: 90 for sm_90.
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


@dataclass(frozen=True, eq=False)  # compared by identity, which is free at every launch
class Spec:
    """One kernel source, specialised."""

    source: str  # File name inside this package
    defines: tuple[tuple[str, str], ...]  # Macros that do not depend on the device
    kernels: tuple[str, ...]  # Names of its kernels
    threads: tuple[int, ...]  # Threads of a block, one number per kernel
    bounds: tuple[str, ...] = ()  # Macro of each kernel's launch bounds, for sources that use them

    def text(self) -> str:
        """Return the CUDA C++ source."""
        return (Path(__file__).parent / self.source).read_text(encoding="utf-8")

    def choices(self, arch: int) -> dict[str, list[str]]:
        """Return the launch bounds to try for each macro of `bounds`, the tightest first.

        The compiler takes the first of them without spills for compute capability `arch`.
        """
        return {name: launch_bounds(size, arch) for name, size in zip(self.bounds, self.threads, strict=False)}

    def macros(self, arch: int) -> dict[str, str]:
        """Return every macro for compute capability `arch` (75, 90, ...), with the tightest bounds."""
        return {**dict(self.defines), **{name: bounds[0] for name, bounds in self.choices(arch).items()}}


def launch_bounds(threads: int, arch: int) -> list[str]:
    """Return ``"threads,blocks"`` for ``__launch_bounds__``, tightest first: at most 64 registers a thread everywhere.

    A multiprocessor has 65536 registers, so at least 1024 threads mean at most 64 registers a thread. Blocks of an odd
    size make it fewer; the last bounds allow all 64, by claiming a size that divides 1024.
    """
    power = 1 << (threads - 1).bit_length()
    bounds = [f"{power},{_ROOM // power}"]
    if arch > _OLDEST and threads < power <= _ROOM // 2:
        bounds.insert(0, f"{threads},{-(-_ROOM // threads)}")
    return bounds


@lru_cache(maxsize=64)
def physics_spec(joints: int, feet: tuple[int, ...], tiles: tuple[int, int] = (56, 56)) -> Spec:
    """Return the skate and jerk kernels for a body.

    Args:
        joints: Joints of the body.
        feet: Distinct foot joints, at least one.
        tiles: Most frames per step of the forward and backward kernel. 56 makes four steps of 196 frames, small enough
            for five or more blocks on a multiprocessor. Larger bodies get shorter steps.
    """
    if not feet:
        raise MotionkitError("the physics kernel needs at least one foot joint.")
    forward = _tile(tiles[0], joints, len(feet), lambda tile: (tile + 3) * 12 * joints)
    backward = _tile(tiles[1], joints, len(feet), lambda tile: (2 * tile + 6) * 12 * joints)
    sizes = tuple(_threads(tile, joints, len(feet)) for tile in (forward, backward))
    defines: dict[str, int | str] = {
        "MK_JOINTS": joints,
        "MK_FEET": len(feet),
        "MK_FOOT_LIST": ",".join(str(foot) for foot in feet),
        "MK_WALK": _WALK,
        "MK_FWD_TILE": forward,
        "MK_BWD_TILE": backward,
        "MK_FWD_THREADS": sizes[0],
        "MK_BWD_THREADS": sizes[1],
    }
    return Spec(
        "physics.cu", _frozen(defines), ("mk_physics_fwd", "mk_physics_bwd"), sizes, ("MK_FWD_BOUNDS", "MK_BWD_BOUNDS")
    )


@lru_cache(maxsize=64)
def recover_spec(joints: int, threads: int = 256) -> Spec:
    """Return the joint recovery kernels for a body of `joints` joints."""
    if joints < 2 or 32 * (6 * joints + 12) * 4 > _SHARED_BYTES:
        raise MotionkitError(f"the joint recovery kernel takes 2 to 60 joints, not {joints}.")
    defines = {"MK_JOINTS": joints, "MK_RECOVER_THREADS": threads}
    return Spec("recover.cu", _frozen(defines), ("mk_recover_fwd", "mk_recover_bwd"), (threads, threads))


def tile_of(spec: Spec, macro: str) -> int:
    """Return the value of a macro of `spec`."""
    return int(dict(spec.defines)[macro])


def _tile(most: int, joints: int, feet: int, shared: Callable[[int], int]) -> int:
    for tile in range(most // _WALK * _WALK, 0, -_WALK):
        if _threads(tile, joints, feet) <= _MOST_THREADS and shared(tile) + 512 <= _SHARED_BYTES:
            return tile
    raise MotionkitError(f"the physics kernel cannot hold a body of {joints} joints in a block's shared memory.")


def _threads(tile: int, joints: int, feet: int) -> int:
    """Return whole warps of joints, then whole warps of feet."""
    return sum(-(-tile // _WALK * count // 32) * 32 for count in (joints, feet))


def _frozen(defines: Mapping[str, int | str]) -> tuple[tuple[str, str], ...]:
    return tuple((name, str(value)) for name, value in defines.items())


def cubin_folder() -> Path | None:
    """Return the folder of compiled kernels; None if there is no home folder for a cache."""
    try:
        return cache_folder() / "kernels"
    except RuntimeError:  # a user without an entry in the password database, as in some containers
        return None


def cubin_for(spec: Spec, arch: int) -> bytes:
    """Return the machine code of `spec` for sm_`arch`, from the cache or compiled.

    Several processes may call this at once, since files are written atomically. Without a writable folder the code is
    compiled once per process.
    """
    recipe = json.dumps([spec.text(), spec.defines, spec.choices(arch), arch, compiler_build(), OPTIONS])
    folder = cubin_folder()
    if folder is None:
        _log.info("compiled kernels are not kept: there is no home folder")
        return build_cubin(spec, arch)[0]
    path = folder / f"{hashlib.sha256(recipe.encode()).hexdigest()}.cubin"
    return _kept(path, lambda: build_cubin(spec, arch)[0])


def _kept(path: Path, build: Callable[[], bytes]) -> bytes:
    try:
        content = path.read_bytes()
    except OSError:
        content = b""
    head = len(_MAGIC) + 32
    if content.startswith(_MAGIC) and hashlib.sha256(content[head:]).digest() == content[len(_MAGIC) : head]:
        return content[head:]
    if content:
        _log.warning("%s is damaged; compiling it again", path)
    cubin = build()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_bytes_atomic(path, _MAGIC + hashlib.sha256(cubin).digest() + cubin)
    except OSError as error:
        _log.info("compiled kernels are not kept: %s", error)
    return cubin


def build_cubin(spec: Spec, arch: int) -> tuple[bytes, str]:
    """Return the cubin of `spec` for sm_`arch`, and the compiler's log.

    The number of registers of a kernel depends on the body, the device and the compiler's version. So the tightest
    launch bounds are tried first, and looser ones if the compiler's log reports spilled registers.
    """
    text, macros, choices = spec.text(), spec.macros(arch), spec.choices(arch)
    macro_of = dict(zip(spec.kernels, spec.bounds, strict=False))
    while True:
        cubin, log = compile_cubin(text, spec.source, macros, arch)
        looser = {}
        for macro in (macro_of.get(kernel, "") for kernel in spilling(log)):
            if len(choices.get(macro, [])) > 1:
                choices[macro] = choices[macro][1:]
                looser[macro] = choices[macro][0]
        if not looser:
            return cubin, log
        macros = {**macros, **looser}


def spilling(log: str) -> list[str]:
    """Return the kernels that spill registers according to the compiler's log."""
    return [kernel for kernel, *spills in _SPILLS.findall(log) if spills != ["0", "0"]]
