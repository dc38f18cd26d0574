"""Reads .pt, .pth, .ckpt, .tar and .safetensors: recognised by content, never executed."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import IO, Any

from motionkit.documents import open_file
from motionkit.errors import MotionkitError
from motionkit.weights._arrays import read_array
from motionkit.weights._torch import read_pickles, read_zip
from motionkit.weights._zip import open_zip

_HEADER = 4 << 20
_AGAIN = "copy or download it again; a stopped download leaves a shorter file."


def read(path: str | Path) -> Any:
    """Read a foreign weight file onto the CPU.

    Args:
        path: File written by ``torch.save`` (zip or legacy), a plain pickle of numpy arrays, .npy, .npz or
            .safetensors. The file name's suffix is ignored.

    Returns:
        The stored tensors, numpy arrays and plain containers.

    Raises:
        MotionkitError: Missing, a folder, truncated, a TorchScript archive, or a pickle with other objects than
            tensors, arrays and plain containers (it is not executed).

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
    """Recognise a file by its first bytes, and read it."""
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
            why=f"no model has more than {_HEADER >> 20} MB of it, some 30 000 tensors.",
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
    # A damaged archive or pickle can raise nearly any exception; names outside the allowed list are never imported.
    except Exception as error:
        raise MotionkitError(
            f"{path} is damaged or cut short.", why=str(error) or type(error).__name__, fix=_AGAIN
        ) from error


def _read_zip(file: IO[bytes], archive: zipfile.ZipFile, path: Path) -> Any:
    names = {name.partition("/")[2] or name for name in archive.namelist()}
    if "constants.pkl" in names:
        raise MotionkitError(
            f"{path} is a TorchScript archive: a program with weights, not a weight file.",
            why="running a program from a file is what motionkit never does.",
            fix="for CLIP use the transformers folder: --policy.text-model openai/clip-vit-base-patch32",
        )
    if "data.pkl" in names:
        return read_zip(file, archive, str(path))
    if names and all(name.endswith(".npy") for name in archive.namelist()):
        return read_array(path)
    raise MotionkitError(f"{path} is a zip archive, not a weight file.", fix="unpack it, then name what is inside.")
