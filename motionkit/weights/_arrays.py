"""Reads .npy and .npz, and opens zip archives, without executing code and with bounded memory."""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from motionkit.documents import open_file
from motionkit.errors import MotionkitError
from motionkit.weights._gate import spreads, valid_texts
from motionkit.weights._pickles import read_pickle

LIMIT = 4 << 30
"""Default limit of a file's unpacked content in bytes."""

_STEP = 16 << 20

_LARGE, _PICKLE, _RATIO = 64 << 20, 1 << 20, 100
"""Contents above this size in bytes (arrays, pickles) and compression ratio are refused as zip bombs."""

_KINDS = "biufcSUMmO"
"""Kinds of dtypes that are read: numbers, texts, dates and objects; no fields."""

_HEADER = 10_000
"""Most bytes of an array's header; numpy writes 118."""

_DIRECTORY = 8 << 20
"""Most bytes of the list of members of an archive, enough for about 80 000."""


def read_array(path: str | Path, *, limit: int = LIMIT, wanted: Callable[[str], bool] = lambda name: True) -> Any:
    """Read a .npy or .npz file.

    Args:
        path: The file; the format is recognised by content. Object arrays (``np.save`` of a dict) may hold only numpy
            arrays and plain containers.
        limit: Most bytes of unpacked content; checked before memory is allocated.
        wanted: Which members of an .npz to read.

    Returns:
        The array, or the object in a 0-dimensional object array; for .npz a dict of these.
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
    # Readers of damaged archives, headers and pickles can raise nearly any exception.
    except Exception as error:
        raise MotionkitError(
            f"{path} cannot be read as numpy data.",
            why=str(error) or type(error).__name__,
            fix="copy or download it again.",
        ) from error


def read_numbers(path: str | Path, *, limit: int = LIMIT) -> NDArray[Any]:
    """Read a .npy file of one array of numbers that torch supports, in the machine's byte order."""
    array = read_array(path, limit=limit)
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "fiu" or array.dtype.itemsize > 8:
        kind = f"{array.dtype} values" if isinstance(array, np.ndarray) else f"a {type(array).__name__}"
        raise MotionkitError(f"{path} holds {kind}, not numbers.", fix="save it as one: np.save.")
    return np.asarray(array, dtype=array.dtype.newbyteorder("="))


def cast(array: NDArray[Any], dtype: type[np.floating[Any]]) -> NDArray[Any]:
    """Return a contiguous array of a float type, without numpy's warnings about signalling NaN and overflow."""
    with np.errstate(invalid="ignore", over="ignore"):
        return np.ascontiguousarray(array, dtype=dtype)


def _read_archive(file: IO[bytes], path: Path, limit: int, wanted: Callable[[str], bool]) -> Mapping[str, Any]:
    with open_zip(file, path) as archive:
        members = [member for member in archive.infolist() if wanted(member.filename.removesuffix(".npy"))]
        size, packed = sum(member.file_size for member in members), sum(member.compress_size for member in members)
        _check_size(path, size, limit)
        _check_ratio(str(path), size, packed, _LARGE)
        arrays = {}
        for member in members:
            # zipfile never returns more bytes than the size checked above.
            with archive.open(member) as stream:
                arrays[member.filename.removesuffix(".npy")] = _read_one(
                    stream, f"{path}:{member.filename}", member.file_size, member.compress_size
                )
        return arrays


def _check_ratio(origin: str, size: int, packed: int, free: int) -> None:
    if size > max(free, _RATIO * packed):
        raise MotionkitError(
            f"{origin} unpacks {packed / 1e6:.1f} MB to {size / 1e6:.0f} MB.",
            why="no measured data repeat themselves like that; it may be made to fill the memory.",
        )


def _check_size(path: Path, size: int, limit: int) -> None:
    if size > limit:
        raise MotionkitError(
            f"{path} unpacks to {size / 1e6:.0f} MB; at most {limit / 1e6:.0f} MB are read.",
            why="no file of this kind is that large; it may be made to fill the memory.",
        )


def _read_one(file: IO[bytes], origin: str, size: int, packed: int | None = None) -> Any:
    """Read one array of `size` bytes from a file, or from an archive member that compresses it to `packed` bytes."""
    shape, fortran, dtype = _read_header(file)
    if dtype.kind not in _KINDS:
        raise ValueError(f"it holds {dtype}, where numbers or texts belong.")
    if dtype.hasobject:
        _check_ratio(origin, size, size if packed is None else packed, _PICKLE)
        value = read_pickle(file if packed is None else file.read(size), origin)
        return value.item() if isinstance(value, np.ndarray) and value.ndim == 0 else value
    count = math.prod(shape)
    if min(shape, default=0) < 0 or count * dtype.itemsize > size or spreads(shape, size):
        raise EOFError(f"an array of shape {list(shape)} is announced, the file has {size} bytes.")
    raw = bytearray(count * dtype.itemsize)
    if (filled := _fill(file, raw)) != len(raw):
        raise EOFError(f"{len(raw)} bytes of data were announced, {filled} are there.")
    if dtype.kind == "U" and not valid_texts(raw, dtype):
        raise ValueError("it has characters that do not exist.")
    flat = np.frombuffer(raw, dtype=dtype, count=count)
    return flat.reshape(shape, order="F" if fortran else "C")


def _read_header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Return shape, order and type of the array that follows."""
    short = npy.read_magic(file) == (1, 0)
    length = file.read(2 if short else 4)
    if int.from_bytes(length, "little") > _HEADER:
        raise ValueError("its header is larger than that of any array.")
    header = io.BytesIO(length + file.read(int.from_bytes(length, "little")))
    return npy.read_array_header_1_0(header) if short else npy.read_array_header_2_0(header)


def _fill(file: IO[bytes], buffer: bytearray) -> int:
    """Read into a buffer in steps, since one large read would hold the data twice; return the number of bytes."""
    at = 0
    while chunk := file.read(min(_STEP, len(buffer) - at)):
        buffer[at : at + len(chunk)] = chunk
        at += len(chunk)
    return at


def open_zip(file: IO[bytes], path: Path) -> zipfile.ZipFile:
    """Open an archive; no member is read."""
    try:
        end = zipfile._EndRecData(file)  # type: ignore[attr-defined]
        size = end[zipfile._ECD_SIZE] if end else 0  # type: ignore[attr-defined]
        if size <= _DIRECTORY:
            return zipfile.ZipFile(file)
    # For damaged lists zipfile also raises NotImplementedError, UnicodeDecodeError and struct.error.
    except Exception as error:
        raise MotionkitError(
            f"{path} is damaged or cut short.",
            why=str(error) or type(error).__name__,
            fix="copy or download it again; a stopped download leaves a shorter file.",
        ) from error
    raise MotionkitError(
        f"{path} was not opened: its list of members takes {size / 1e6:.0f} MB.",
        why=f"no file of arrays or weights has more than {_DIRECTORY >> 20} MB of it.",
    )
