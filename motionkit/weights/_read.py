"""Reads .pt, .pth, .ckpt, .tar and .safetensors, recognised by content, without executing code.

Files of ``torch.save``, zip and legacy: the gate checks the pickle, then the bytes of the tensors are read.
``torch.load`` is not used: it would parse archive and pickle again with other parsers, and it accepts sparse tensors
with unchecked indices.
"""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import IO, Any

import torch

from motionkit.documents import open_file
from motionkit.errors import MotionkitError
from motionkit.weights._arrays import open_zip, read_array
from motionkit.weights._gate import Gate
from motionkit.weights._pickles import in_memory, mapped, unpickle, walk

_MAGIC, _VERSION = 0x1950A86A20F9469CFC6C, 1001
_PICKLE = 64 << 20
"""Most bytes of the pickle in a zip file. It holds names and shapes: 0.2 MB for a thousand tensors."""

_HEADER = 4 << 20  # bytes of the list of tensors of a safetensors file
_AGAIN = "copy or download it again; a stopped download leaves a shorter file."


def read_zip(file: IO[bytes], archive: zipfile.ZipFile, origin: str) -> Any:
    """Read the zip format of ``torch.save``.

    Raises:
        MotionkitError: It is refused.
        Exception: It is damaged.
    """
    spans = {member.filename: _span(file, member, origin) for member in archive.infolist()}
    if len(spans) != len(archive.infolist()) or sum(size for _, size in spans.values()) > file.seek(0, 2):
        raise _refused(origin, "its members overlap")
    (name,) = [name for name in spans if name.partition("/")[2] == "data.pkl"]
    root = name.removesuffix("data.pkl")
    if spans[name][1] > _PICKLE:
        raise _refused(origin, f"its pickle has {spans[name][1] / 1e6:.0f} MB")
    if (order := spans.get(f"{root}byteorder")) and _read_span(file, *order).numpy().tobytes() != b"little":
        raise _foreign(origin)
    data = _read_span(file, *spans[name]).numpy().tobytes()
    gate = Gate(memoryview(data), origin, tensors=True)
    walk(gate)
    storages = {key: spans[f"{root}data/{key}"] for key in gate.storages}
    if any(storages[key][1] != count * width for key, (count, width) in gate.storages.items()):
        raise _refused(origin, "its tensors have other bytes than their shapes")
    return unpickle(in_memory(data), origin, _Storages(file, storages))


def read_pickles(file: IO[bytes], origin: str) -> Any:
    """Read a plain pickle, or the legacy format of ``torch.save``: magic number, two headers, tensors, their bytes.

    Raises:
        MotionkitError: It is refused.
        Exception: It is damaged.
    """
    view, at = mapped(file), 0

    def read_next() -> Any:
        nonlocal at
        start, at = at, walk(Gate(view, origin, at))
        file.seek(start)
        return unpickle(file, origin)

    value = read_next()
    if type(value) is not int or value != _MAGIC:
        return value
    if read_next() != _VERSION or read_next()["little_endian"] is not True:
        raise _foreign(origin)
    gate = Gate(view, origin, start := at, tensors=True)
    at = middle = walk(gate)
    storages = {}
    for key in read_next():
        count, width = gate.storages[key]
        if int.from_bytes(view[at : at + 8], "little") != count:
            raise _refused(origin, "its tensors have other bytes than their shapes")
        storages[key] = (at + 8, count * width)
        at += 8 + count * width
    return unpickle(in_memory(view[start:middle].tobytes()), origin, _Storages(file, storages))


class _Storages:
    """The storages of tensors in a file; each is read once, when a pickle refers to it.

    Args:
        file: The file.
        spans: Key to position and number of bytes.
    """

    def __init__(self, file: IO[bytes], spans: dict[str, tuple[int, int]]) -> None:
        self._file = file
        self._spans = spans
        self._read: dict[str, torch.UntypedStorage] = {}

    def __call__(self, reference: tuple[Any, ...]) -> tuple[torch.UntypedStorage, torch.dtype]:
        _, dtype, key, *_ = reference
        if key not in self._read:
            self._read[key] = _read_span(self._file, *self._spans[key]).untyped_storage()
        return self._read[key], dtype


def _read_span(file: IO[bytes], start: int, size: int) -> torch.Tensor:
    """Read bytes into memory with torch's alignment."""
    if start + size > file.seek(0, 2):
        raise EOFError("it announces more bytes than there are.")
    buffer = torch.empty(size, dtype=torch.uint8)
    file.seek(start)
    if file.readinto(buffer.numpy()) != size:  # type: ignore[attr-defined]
        raise EOFError("it became shorter while it was read.")
    return buffer


def _span(file: IO[bytes], member: zipfile.ZipInfo, origin: str) -> tuple[int, int]:
    """Return position and number of bytes of a member, which must be stored uncompressed."""
    if member.compress_type != zipfile.ZIP_STORED or member.compress_size != member.file_size:
        raise _refused(origin, f"its member {member.filename[:80]} is packed")
    file.seek(member.header_offset)
    header = file.read(30)
    if header[:4] != b"PK\x03\x04" or header[6] & 1:
        raise zipfile.BadZipFile(f"the header of {member.filename} is damaged.")
    names = int.from_bytes(header[26:28], "little") + int.from_bytes(header[28:30], "little")
    return member.header_offset + 30 + names, member.file_size


def _refused(origin: str, what: str) -> MotionkitError:
    return MotionkitError(f"{origin} was not opened: {what}.", why="torch.save does not write such files.")


def _foreign(origin: str) -> MotionkitError:
    return MotionkitError(
        f"{origin} was written on a machine with another byte order.", fix="save it there as safetensors."
    )


def read(path: str | Path) -> Any:
    """Read a foreign weight file onto the CPU.

    Args:
        path: File written by ``torch.save`` (zip or legacy), a plain pickle of numpy arrays, .npy, .npz or
            .safetensors. The file name's suffix is ignored.

    Returns:
        The stored tensors, numpy arrays and plain containers.

    Example:
        >>> import torch
        >>> torch.save({"model": {"weight": torch.ones(2)}}, "foreign.pt")
        >>> read("foreign.pt")
        {'model': {'weight': tensor([1., 1.])}}
    """
    path = Path(path)
    if path.is_dir():
        raise MotionkitError(f"{path} is a folder, a weight file was expected.")
    try:
        with open_file(path) as file:
            return _read(file, path)
    except OSError as error:
        raise MotionkitError(f"{path} cannot be opened.", why=error.strerror or "", fix="check the path.") from error


def _read(file: IO[bytes], path: Path) -> Any:
    """Read a file in the format that its first bytes show."""
    head = file.read(512)
    if not head:
        raise MotionkitError(f"{path} is empty.", fix=_AGAIN)
    if head.startswith(b"\x93NUMPY"):
        return read_array(path)
    if head[8:9] == b"{" and (header := int.from_bytes(head[:8], "little")) < 100_000_000:
        return _read_safetensors(path, header)
    if head.startswith(b"version https://git-lfs"):
        raise MotionkitError(f"{path} is a Git LFS pointer, not the weights.", fix="git lfs pull")
    if head.lstrip()[:1] == b"<":
        raise MotionkitError(f"{path} is a web page, not a weight file.", fix="download it again in a browser.")
    if head.startswith((b"PK\x03\x04", b"\x80")):
        return _read_torch(file, path, zipped=head.startswith(b"PK"))
    if head[257:262] == b"ustar":
        raise MotionkitError(
            f"{path} is a tar archive, not a weight file.", fix=f"unpack it: tar -xf {path}, then name what is inside."
        )
    raise MotionkitError(f"{path} is not a weight file.", why=f"it starts with {head[:8]!r}.", fix=_AGAIN)


def _read_safetensors(path: Path, header: int) -> Any:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    if header > _HEADER:
        raise MotionkitError(
            f"{path} was not opened: its list of tensors takes {header / 1e6:.0f} MB.",
            why=f"{_HEADER >> 20} MB are enough for 30 000 tensors, more than any model has.",
        )
    try:
        return load_file(path)
    except (SafetensorError, OSError, ValueError) as error:
        raise MotionkitError(f"{path} is a damaged safetensors file.", why=str(error), fix=_AGAIN) from error


def _read_torch(file: IO[bytes], path: Path, *, zipped: bool) -> Any:
    try:
        if not zipped:
            return read_pickles(file, str(path))
        with open_zip(file, path) as archive:
            return _read_zip(file, archive, path)
    except MotionkitError:
        raise
    # A damaged archive or pickle can raise nearly any exception; names outside `NAMES` are never imported.
    except Exception as error:
        raise MotionkitError(
            f"{path} is damaged or cut short.", why=str(error) or type(error).__name__, fix=_AGAIN
        ) from error


def _read_zip(file: IO[bytes], archive: zipfile.ZipFile, path: Path) -> Any:
    names = {name.partition("/")[2] or name for name in archive.namelist()}
    if "constants.pkl" in names:
        raise MotionkitError(
            f"{path} is a TorchScript archive: a program with weights, not a weight file.",
            why="motionkit never runs programs from files.",
            fix="for CLIP use the transformers folder: --policy.text-model openai/clip-vit-base-patch32",
        )
    if "data.pkl" in names:
        return read_zip(file, archive, str(path))
    if names and all(name.endswith(".npy") for name in archive.namelist()):
        return read_array(path)
    raise MotionkitError(f"{path} is a zip archive, not a weight file.", fix="unpack it, then name what is inside.")
