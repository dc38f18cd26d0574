"""Reading .pt, .pth, .ckpt, .tar and .safetensors: told apart by content, never executed."""

from __future__ import annotations

import argparse
import mmap
import re
import tarfile
import warnings
import zipfile
from pathlib import Path
from typing import Any

from motionkit.documents import open_file
from motionkit.errors import MotionkitError
from motionkit.weights._admit import PlainUnpickler, numpy_names, refusal
from motionkit.weights._arrays import read_array

_GLOBAL = re.compile(
    r"(?:Unsupported global: GLOBAL|Trying to (?:load|call|instantiate)(?: unsupported)? \w*) ?([\w.]+)"
)
_BYTEARRAY = re.compile(rb"builtin(?:s|__)\nbytearray\n")
_AGAIN = "copy or download it again; a stopped download leaves a shorter file."


def read(path: str | Path) -> Any:
    """Read a foreign weight file onto the CPU.

    Args:
        path: File written by ``torch.save`` (zip or legacy), a plain pickle of numpy arrays, .npy, .npz or
            .safetensors. The name's suffix means nothing.

    Returns:
        What was stored: tensors, numpy arrays and plain containers.

    Raises:
        MotionkitError: Missing, a folder, truncated, a TorchScript archive, or a pickle that refers to anything
            else than tensors, arrays and plain containers (which is then not executed).
    """
    path = Path(path)
    if path.is_dir():
        raise MotionkitError(f"{path} is a folder, a weight file was expected.")
    try:
        with open_file(path) as file:
            head = file.read(64)
    except OSError as error:
        raise MotionkitError(f"{path} cannot be opened.", why=error.strerror or "", fix="check the path.") from error
    if not head:
        raise MotionkitError(f"{path} is empty.", fix=_AGAIN)
    if head.startswith(b"\x93NUMPY"):
        return read_array(path)
    if head[8:9] == b"{" and int.from_bytes(head[:8], "little") < 100_000_000:
        return _read_safetensors(path)
    if head.startswith(b"version https://git-lfs"):
        raise MotionkitError(f"{path} is a Git LFS pointer, not the weights.", fix="git lfs pull")
    if head.lstrip()[:1] == b"<":
        raise MotionkitError(f"{path} is a web page, not a weight file.", fix="download it again in a browser.")
    if head.startswith(b"PK\x03\x04"):
        return _read_zip(path)
    if head.startswith(b"\x80"):
        return _read_pickle(path)
    if tarfile.is_tarfile(path):
        raise MotionkitError(
            f"{path} is a tar archive, not a weight file.", fix=f"unpack it: tar -xf {path}, then name what is inside."
        )
    raise MotionkitError(f"{path} is not a weight file.", why=f"it starts with {head[:8]!r}.", fix=_AGAIN)


def _read_safetensors(path: Path) -> Any:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return load_file(path)
    except (SafetensorError, OSError, ValueError) as error:
        raise MotionkitError(f"{path} is a damaged safetensors file.", why=str(error), fix=_AGAIN) from error


def _read_zip(path: Path) -> Any:
    try:
        with zipfile.ZipFile(path) as archive:
            names = [name.partition("/")[2] or name for name in archive.namelist()]
    except zipfile.BadZipFile as error:
        raise MotionkitError(f"{path} is cut short.", why=str(error), fix=_AGAIN) from error
    if "constants.pkl" in names:
        raise MotionkitError(
            f"{path} is a TorchScript archive: a program with weights, not a weight file.",
            why="running a program from a file is what motionkit never does.",
            fix="for CLIP use the transformers folder: --policy.text-model openai/clip-vit-base-patch32",
        )
    if "data.pkl" not in names:
        if names and all(name.endswith(".npy") for name in archive.namelist()):
            return read_array(path)
        raise MotionkitError(f"{path} is a zip archive, not a weight file.", fix="unpack it, then name what is inside.")
    return _torch_load(path)


def _read_pickle(path: Path) -> Any:
    """Read a legacy torch file (several pickles, a magic number first) or one plain pickle."""
    from torch.serialization import MAGIC_NUMBER

    with path.open("rb") as file:
        try:
            first = PlainUnpickler(file, str(path), path.stat().st_size).load()
        except MotionkitError:
            raise
        # A damaged pickle makes the unpickler raise nearly anything; nothing it names outside the list was reached.
        except Exception as error:
            raise MotionkitError(f"{path} is a damaged pickle.", why=str(error), fix=_AGAIN) from error
    return _torch_load(path) if isinstance(first, int) and first == MAGIC_NUMBER else first


def _refuse_bytearrays(path: Path) -> None:
    """Refuse a torch file that makes a bytearray: its reader lets it have any length, whatever the file holds."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            names = [name for name in archive.namelist() if name.rpartition("/")[2] == "data.pkl"]
            found = any(_BYTEARRAY.search(archive.read(name)) for name in names)
    else:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
            found = _BYTEARRAY.search(text) is not None
    if found:
        raise MotionkitError(f"{path} was not opened: it makes a bytearray.", why="weights have none.")


def _torch_load(path: Path) -> Any:
    import torch

    numpy_types = [type(_dtype) for _dtype in _dtypes()]
    allowed = numpy_names(path.stat().st_size)
    try:
        with warnings.catch_warnings(), torch.serialization.safe_globals([*allowed, *numpy_types, argparse.Namespace]):
            warnings.simplefilter("ignore")
            _refuse_bytearrays(path)
            return torch.load(path, map_location="cpu", weights_only=True)
    except MotionkitError:
        raise
    # torch.load raises a dozen kinds of error for a damaged or refused file.
    except Exception as error:
        if found := _GLOBAL.search(str(error)):
            raise refusal(found[1], str(path)) from error
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise MotionkitError(f"{path} is damaged or cut short.", why=reason, fix=_AGAIN) from error


def _dtypes() -> list[Any]:
    import numpy as np

    codes = "?bhilqBHILQefdgFDGSUVOMm"
    return [np.dtype(code) for code in codes]
