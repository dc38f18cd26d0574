"""Caches arrays between runs, under a hash of the code that makes them."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from motionkit.config import cache_folder

_VERSION = 1


@cache
def _source() -> str:
    """Fingerprint of the code that generates clips and turns them into features."""
    digest = hashlib.sha256(str(_VERSION).encode())
    for package in ("motionkit.starter", "motionkit.motion.features"):
        for item in sorted(files(package).iterdir(), key=lambda item: item.name):
            if item.name.endswith(".py"):
                digest.update(item.name.encode() + item.read_bytes())
    return digest.hexdigest()


def kept(key: str, make: Callable[[], NDArray[np.float32]], *, keep: bool = True) -> NDArray[np.float32]:
    """Return the array called `key`, from the cache or from `make`.

    A damaged file is made again, and a cache that cannot be written is no error. The array is mapped from the file:
    only the parts that are read take memory.

    Args:
        key: Everything the array depends on besides the code.
        make: Called when it is not there.
        keep: False neither reads nor writes.
    """
    if not keep:
        return make()
    name = hashlib.sha256(f"{_source()} {key}".encode()).hexdigest()[:24]
    path = cache_folder() / f"starter-{name}.npy"
    try:
        # Mapped copy-on-write: torch needs writable memory, and the file must not change.
        return np.load(path, mmap_mode="c", allow_pickle=False)  # type: ignore[no-any-return]  # numpy types it as Any
    except (OSError, ValueError, EOFError):
        array = make()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".starter-", suffix=".part", delete=False) as file:
            partial = Path(file.name)
            try:
                np.save(file, array)
            except OSError:
                partial.unlink(missing_ok=True)
                raise
        partial.replace(path)
    except OSError:
        return array
    return array
