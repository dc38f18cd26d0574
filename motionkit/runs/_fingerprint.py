"""Fingerprints of inputs, equal for equal content at any place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from motionkit.documents import open_file
from motionkit.errors import MotionkitError

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

_SIZE = 32
"""Hexadecimal digits of a fingerprint."""

_PIECE = 1 << 20
"""Bytes of a file that are hashed at a time."""


def fingerprint(*parts: str | Tensor | NDArray[Any]) -> str:
    """Return the fingerprint of texts and arrays in this order: 32 hexadecimal digits.

    Of arrays dtype, shape and values are hashed, at about 1.5 GB/s. Other fingerprints are passed as texts.

    Example:
        >>> fingerprint("walk", "run") == fingerprint("walkrun")
        False
    """
    digest = sha256()
    for part in parts:
        if isinstance(part, str):
            data = part.encode(errors="surrogatepass")
            digest.update(f"text {len(data)}\n".encode())
            digest.update(data)
        else:
            values = _as_bytes(part)
            digest.update(f"{part.dtype} {list(part.shape)}\n".encode())
            digest.update(values.data)
    return digest.hexdigest()[:_SIZE]


def fingerprint_tensors(tensors: Mapping[str, Tensor]) -> str:
    """Return the fingerprint of named tensors, such as a state dict, independent of their order and device."""
    return fingerprint(*(part for name in sorted(tensors) for part in (name, tensors[name])))


def fingerprint_files(folder: Path, files: Iterable[Path]) -> str:
    """Return the fingerprint of files: their names below a folder and their bytes.

    Args:
        folder: Names are relative to it, so that a copy of the folder has the same fingerprint.
        files: The files, in any order.
    """
    digest = sha256()
    for path in sorted(files):
        try:
            inside = path.relative_to(folder) if path.is_relative_to(folder) else Path(path.name)
            with open_file(path) as file:
                digest.update(f"{len(inside.parts)} {'/'.join(inside.parts)}\n".encode(errors="surrogateescape"))
                size = 0
                while data := file.read(_PIECE):
                    digest.update(data)
                    size += len(data)
                digest.update(f"\n{size}\n".encode())
        except OSError as error:
            raise MotionkitError(f"{path} cannot be read.", why=error.strerror or str(error)) from error
    return digest.hexdigest()[:_SIZE]


def _as_bytes(values: Tensor | NDArray[Any]) -> NDArray[np.uint8]:
    """Return the memory of an array as ``[N]`` bytes, without a copy if it is contiguous on the CPU."""
    if isinstance(values, np.ndarray):
        flat = np.ascontiguousarray(values).reshape(-1)
        return flat.view(np.uint8)
    import torch

    array: NDArray[np.uint8] = values.detach().cpu().contiguous().flatten().view(torch.uint8).numpy()
    return array
