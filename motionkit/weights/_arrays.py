"""Reading .npy and .npz without executing anything, and without taking more memory than the file has a right to."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy

from motionkit.documents import open_file
from motionkit.errors import MotionkitError
from motionkit.weights._admit import PlainUnpickler

LIMIT = 4 << 30
"""Bytes a file may unpack to unless the caller says otherwise."""

_STEP = 16 << 20

_LARGE, _RATIO = 64 << 20, 100
"""A member of more bytes than the first that is packed tighter than the second holds nothing but repetition."""


def read_array(path: str | Path, *, limit: int = LIMIT, wanted: Callable[[str], bool] = lambda name: True) -> Any:
    """Read a .npy or .npz file.

    Args:
        path: The file; told apart by content. Object arrays (``np.save`` of a dict) are read when they hold numpy
            arrays and plain containers only.
        limit: Bytes the contents may unpack to; checked before memory is taken.
        wanted: Which members of an .npz are read; the others are passed over.

    Returns:
        The array; for an object array of no dimension, the object in it; for .npz a dict of those.

    Raises:
        MotionkitError: Missing, damaged, too large, another format, or it refers to anything else.
    """
    path = Path(path)
    try:
        with open_file(path) as file:
            head = file.read(6)
            file.seek(0)
            if head[:4] in (b"PK\x03\x04", b"PK\x05\x06"):
                return _read_archive(file, path, limit, wanted)
            if head != npy.MAGIC_PREFIX:
                raise MotionkitError(f"{path} is not a .npy or .npz file.", why=f"it starts with {head!r}.")
            size = path.stat().st_size
            _check_size(path, size, limit)
            return _read_one(file, str(path), size)
    except FileNotFoundError as error:
        raise MotionkitError(f"{path} does not exist.", fix="check the path.") from error
    except IsADirectoryError as error:
        raise MotionkitError(f"{path} is a folder, a file was expected.") from error
    except PermissionError as error:
        raise MotionkitError(f"{path} cannot be read: {error.strerror}.", fix="check its permissions.") from error
    except MotionkitError:
        raise
    # Damaged archives, headers and pickles make their readers raise nearly anything.
    except Exception as error:
        raise MotionkitError(
            f"{path} cannot be read as numpy data.",
            why=str(error) or type(error).__name__,
            fix="copy or download it again.",
        ) from error


def _read_archive(file: IO[bytes], path: Path, limit: int, wanted: Callable[[str], bool]) -> Mapping[str, Any]:
    with zipfile.ZipFile(file) as archive:
        members = [member for member in archive.infolist() if wanted(member.filename.removesuffix(".npy"))]
        _check_size(path, sum(member.file_size for member in members), limit)
        for member in members:
            if member.file_size > max(_LARGE, _RATIO * member.compress_size):
                raise MotionkitError(
                    f"{path}: {member.filename} unpacks {member.compress_size / 1e6:.1f} MB to "
                    f"{member.file_size / 1e6:.0f} MB.",
                    why="no measured data repeat themselves like that; it may be made to fill the memory.",
                )
        arrays = {}
        for member in members:
            # zipfile never gives out more bytes than the size checked above, whatever the data would unpack to.
            with archive.open(member) as stream:
                arrays[member.filename.removesuffix(".npy")] = _read_one(
                    stream, f"{path}:{member.filename}", member.file_size
                )
        return arrays


def _check_size(path: Path, size: int, limit: int) -> None:
    if size > limit:
        raise MotionkitError(
            f"{path} unpacks to {size / 1e6:.0f} MB; at most {limit / 1e6:.0f} MB are read.",
            why="no file of this kind is that large; it may be made to fill the memory.",
        )


def _read_one(file: IO[bytes], origin: str, size: int) -> Any:
    version = npy.read_magic(file)
    header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, fortran, dtype = header(file)
    if dtype.hasobject:
        value = PlainUnpickler(file, origin, size).load()
        return value.item() if isinstance(value, np.ndarray) and value.ndim == 0 else value
    count = math.prod(shape)
    if min(shape, default=0) < 0 or count * dtype.itemsize > size:
        raise EOFError(f"an array of shape {list(shape)} is announced, the file has {size} bytes.")
    raw = bytearray(count * dtype.itemsize)
    if (found := _fill(file, raw)) != len(raw):
        raise EOFError(f"{len(raw)} bytes of data were announced, {found} are there.")
    flat = np.frombuffer(raw, dtype=dtype, count=count)
    return flat.reshape(shape, order="F" if fortran else "C")


def _fill(file: IO[bytes], buffer: bytearray) -> int:
    """Read into a buffer, in steps: one read of all of it would hold everything twice. Return the bytes found."""
    at = 0
    while chunk := file.read(min(_STEP, len(buffer) - at)):
        buffer[at : at + len(chunk)] = chunk
        at += len(chunk)
    return at
