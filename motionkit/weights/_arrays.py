"""Reading .npy and .npz without executing anything."""

from __future__ import annotations

import pickle
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy

from motionkit.errors import MotionkitError
from motionkit.weights._admit import PlainUnpickler


def read_array(path: str | Path) -> Any:
    """Read a .npy or .npz file.

    Args:
        path: The file; told apart by content. Object arrays (``np.save`` of a dict) are read when they hold numpy
            arrays and plain containers only.

    Returns:
        The array; for an object array of no dimension, the object in it; for .npz a dict of those.

    Raises:
        MotionkitError: Missing, damaged, another format, or it refers to anything else.
    """
    path = Path(path)
    try:
        with path.open("rb") as file:
            head = file.read(6)
            file.seek(0)
            if head[:4] == b"PK\x03\x04":
                return _read_archive(file, path)
            if head != npy.MAGIC_PREFIX:
                raise MotionkitError(f"{path} is not a .npy or .npz file.", why=f"it starts with {head!r}.")
            return _read_one(file, str(path))
    except FileNotFoundError as error:
        raise MotionkitError(f"{path} does not exist.", fix="check the path.") from error
    except IsADirectoryError as error:
        raise MotionkitError(f"{path} is a folder, a file was expected.") from error
    except (OSError, EOFError, ValueError, pickle.UnpicklingError, zipfile.BadZipFile, KeyError, TypeError) as error:
        raise MotionkitError(
            f"{path} cannot be read as numpy data.", why=str(error), fix="copy or download it again."
        ) from error


def _read_archive(file: IO[bytes], path: Path) -> Mapping[str, Any]:
    with zipfile.ZipFile(file) as archive:
        arrays = {}
        for name in archive.namelist():
            with archive.open(name) as member:
                arrays[name.removesuffix(".npy")] = _read_one(member, f"{path}:{name}")
        return arrays


def _read_one(file: IO[bytes], origin: str) -> Any:
    version = npy.read_magic(file)
    header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, fortran, dtype = header(file)
    if dtype.hasobject:
        value = PlainUnpickler(file, origin).load()
        return value.item() if isinstance(value, np.ndarray) and value.ndim == 0 else value
    count = int(np.prod(shape, dtype=np.int64))
    raw = file.read(count * dtype.itemsize)
    if len(raw) != count * dtype.itemsize:
        raise EOFError(f"{count * dtype.itemsize} bytes of data were announced, {len(raw)} are there.")
    flat = np.frombuffer(bytearray(raw), dtype=dtype, count=count)
    return flat.reshape(shape, order="F" if fortran else "C")
