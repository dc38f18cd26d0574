"""Compiles kernels, with the tightest launch bounds that spill no registers, and caches them on disk by hash."""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections.abc import Callable
from pathlib import Path

from motionkit.config import cache_folder
from motionkit.kernels._nvrtc import OPTIONS, compile_cubin, compiler_build
from motionkit.kernels._specs import Spec
from motionkit.runs import write_bytes_atomic

_MAGIC = b"motionkit cubin 1\n"
_SPILLS = re.compile(r"Function properties for (\w+)\n.*?(\d+) bytes spill stores, (\d+) bytes spill loads")
_log = logging.getLogger("motionkit.kernels")


def cubin_folder() -> Path | None:
    """Return the folder of compiled kernels; None when there is no home folder for a cache."""
    try:
        return cache_folder() / "kernels"
    except RuntimeError:  # a user without an entry in the password database, as in some containers
        return None


def cubin_for(spec: Spec, arch: int) -> bytes:
    """Return the machine code of `spec` for sm_`arch`, from the cache or compiled.

    Several processes may call this at once: a file is renamed into place when it is complete. Without a writable folder
    the code is compiled once per process.

    Raises:
        MotionkitError: The code is not in the cache, and NVRTC is missing or rejects it.
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
        found = path.read_bytes()
    except OSError:
        found = b""
    head = len(_MAGIC) + 32
    if found.startswith(_MAGIC) and hashlib.sha256(found[head:]).digest() == found[len(_MAGIC) : head]:
        return found[head:]
    if found:
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

    How many registers a kernel needs depends on the body, the device and the compiler's version. So a kernel gets the
    tightest launch bounds first, and looser ones when the compiler's log reports registers spilled to memory.

    Raises:
        MotionkitError: NVRTC is missing, or does not accept the source.
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
    """Return the kernels that spill registers, by the compiler's log."""
    return [kernel for kernel, *spills in _SPILLS.findall(log) if spills != ["0", "0"]]
