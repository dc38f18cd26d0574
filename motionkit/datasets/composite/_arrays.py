"""The arrays beside a composite file: statistics, reference motions, B-matrices."""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from motionkit.datasets.composite._read import CompositeFile
from motionkit.documents import open_file
from motionkit.errors import MotionkitError
from motionkit.motion import Normalizer, Skeleton
from motionkit.weights import open_zip, read_array

_HEADERS = 4096


@dataclass(frozen=True)
class Arrays:
    """The arrays of one file.

    Attributes:
        normalizer: Mean and Std of the dataset that the clips come from.
        joints: Reference motion of each sample, ``[T + 1, J, 3]`` float32 metres.
        similarity: ``[N, K, K]`` float32 cosine of each pair of texts (the B-matrix), or None. It belongs to the text
            tower that the file names; rewards compute their own with theirs.
    """

    normalizer: Normalizer
    joints: tuple[Tensor, ...]
    similarity: Tensor | None


def pack(arrays: Arrays) -> bytes:
    """Return the bytes of the ``.npz``: the same for the same arrays."""
    members = {
        "mean": arrays.normalizer.mean.float().numpy(),
        "std": arrays.normalizer.std.float().numpy(),
        "joints": torch.cat(list(arrays.joints)).float().numpy(),
    }
    if arrays.similarity is not None:
        members["b_matrix"] = arrays.similarity.float().numpy()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, values in members.items():
            member = io.BytesIO()
            np.save(member, np.ascontiguousarray(values), allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), member.getvalue())  # dated 1980
    return buffer.getvalue()


def read_arrays(file: CompositeFile, skeleton: Skeleton) -> Arrays:
    """Open the arrays of a file.

    Raises:
        MotionkitError: The file names no arrays, or they are missing, belong to another set, or do not fit it.
    """
    entry = file.document.arrays
    if entry is None:
        raise MotionkitError(f"{file.path} has no reference motions and no Mean and Std.")
    if Path(entry.file).name != entry.file or entry.file in ("", ".", ".."):
        raise MotionkitError(
            f"{file.path} names arrays at {entry.file!r}, outside its own folder.", fix="do not use this file."
        )
    path = file.path.parent / entry.file
    _check_bytes(file, path)
    found = read_array(path)
    lengths = [sample.total_frames + 1 for sample in file.document.samples]
    wanted: dict[str, Sequence[int]] = {
        "mean": (skeleton.width,),
        "std": (skeleton.width,),
        "joints": (sum(lengths), skeleton.joints, 3),
    }
    if "b_matrix" in found:
        k = file.document.metadata.k_segments
        wanted["b_matrix"] = (len(lengths), k, k)
    for name, shape in wanted.items():
        values = found.get(name)
        if not isinstance(values, np.ndarray) or values.dtype != np.float32 or values.shape != tuple(shape):
            what = f"{values.dtype} {list(values.shape)}" if isinstance(values, np.ndarray) else "missing"
            raise MotionkitError(
                f"{path}: {name} is {what}, should be float32 {list(shape)} for the {skeleton.name} body.",
                fix="compose the set again.",
            )
    tensors = {name: torch.from_numpy(found[name]) for name in wanted}
    return Arrays(
        Normalizer(tensors["mean"], tensors["std"]), tensors["joints"].split(lengths), tensors.get("b_matrix")
    )


def _check_bytes(file: CompositeFile, path: Path) -> None:
    """Refuse arrays that the file was not written with, before they are unpacked."""
    entry = file.document.arrays
    again = f"compose the set again, or copy {file.path.name} and {path.name} together."
    try:
        size = path.stat().st_size
        with open_file(path) as data, open_zip(data, path) as archive:
            data.seek(0)
            digest = hashlib.file_digest(data, "sha256").hexdigest() if entry and size == entry.size else ""
            unpacked = sum(member.file_size for member in archive.infolist())
    except FileNotFoundError as error:
        raise MotionkitError(f"{path} is missing.", why=f"it belongs to {file.path}.", fix=again) from error
    except OSError as error:
        raise MotionkitError(f"{path} cannot be read.", why=str(error), fix=again) from error
    if entry is None or digest != entry.sha256:
        raise MotionkitError(f"{path} is not the file that {file.path.name} was written with.", fix=again)
    if unpacked > size + _HEADERS:
        raise MotionkitError(f"{path} unpacks to {unpacked >> 20} MB; it is no file of motionkit compose.")
