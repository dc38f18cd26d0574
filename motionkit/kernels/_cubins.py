"""Compiled kernels on disk, under a hash of all that went into them."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable
from pathlib import Path

from motionkit.config import cache_folder
from motionkit.kernels._build import build_cubin
from motionkit.kernels._nvrtc import OPTIONS, compiler_build
from motionkit.kernels._specs import Spec
from motionkit.runs import write_bytes_atomic

_MAGIC = b"motionkit cubin 1\n"
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
