"""The arrays of a predictor's npz under the names of an exported file's fields."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from motionkit import weights
from motionkit.documents import parse_json
from motionkit.errors import MotionkitError
from motionkit.motion._motion import check_size
from motionkit.weights import read_array

LIMIT = 2 << 30
"""Bytes that the known arrays of an npz may unpack to: four hours of 46 bones at 60 frames per second."""

_FIELDS = {
    "BoneRotations": ("rot6d", "bone_rot6d"),
    "RootYaw": ("root_yaw",),
    "RootVelocityXY": ("root_vel",),
    "RootPosition": ("root_pos",),
    "BonePositions": ("bone_pos",),
    "SoftContacts": ("soft_contacts",),
    "LocalTranslations": ("local_translations",),
}
"""Field to the arrays that may hold it."""

_SINGLE = {
    "FPS", "fps", "bone_names", "parents", "offsets", "end_names", "end_parents", "end_offsets", "cond_in", "meta_json",
    "schema_version", "source_sha256",
}  # fmt: skip


@dataclass(frozen=True)
class ArrayFields:
    """The arrays of one npz.

    Attributes:
        origin: The file, for messages.
        arrays: By the file's own names; only known ones.
        meta: ``meta_json``, and the skeleton from the arrays that spell it out.
        head: ``FPS``.
    """

    origin: str
    arrays: Mapping[str, Any]
    meta: Mapping[str, Any]
    head: Mapping[str, Any]

    @property
    def frames(self) -> int:
        """Number of frames."""
        return len(self.arrays[self._array("BoneRotations")])

    def has(self, *names: str) -> str:
        """Return the first of some names of a field that the file has; empty when it has none."""
        return next((name for name in names if self._array(name)), "")

    def numbers(self, name: str, *shape: int) -> Tensor:
        """Return a field ``[T, *shape]`` float64; a single number per frame may be stored as ``[T, 1]``.

        Raises:
            MotionkitError: Another shape, or no numbers.
        """
        stored = self._array(name)
        array = np.asarray(self.arrays[stored])
        if array.dtype.kind not in "fiu":
            raise MotionkitError(f"{self.origin}: {stored} holds no numbers.", why=f"its type is {array.dtype}.")
        if not shape and array.ndim == 2 and array.shape[1] == 1:
            array = array[:, 0]
        sizes = (self.frames, *shape)
        if array.ndim != len(sizes) or any(a not in (b, -1) for a, b in zip(sizes, array.shape, strict=True)):
            expected = ", ".join("any" if size < 0 else str(size) for size in sizes)
            raise MotionkitError(f"{self.origin}: {stored} has shape {list(array.shape)}, expected [{expected}].")
        return as_tensor(array)

    def _array(self, name: str) -> str:
        known = (stored for stored in _FIELDS.get(name, ()) if np.size(self.arrays.get(stored, ())))
        return next(known, "")


def open_arrays(path: Path) -> ArrayFields:
    """Read a predictor's npz, only the arrays that are known.

    Raises:
        MotionkitError: Missing, damaged, larger than it should be when unpacked, or without rotations.
    """
    known = _SINGLE | {stored for names in _FIELDS.values() for stored in names}
    arrays = read_array(path, limit=LIMIT, wanted=lambda name: name in known or name.startswith("track_"))
    if not isinstance(arrays, Mapping):
        raise MotionkitError(f"{path} is a single array, not an npz of a motion.")
    rotations = next((name for name in _FIELDS["BoneRotations"] if np.size(arrays.get(name, ()))), "")
    if not rotations:
        raise MotionkitError(f"{path} has no motion for the predictor.", why="neither rot6d nor bone_rot6d is in it.")
    shape = list(np.shape(arrays[rotations]))
    if len(shape) != 3 or shape[2] != 6:
        raise MotionkitError(f"{path}: {rotations} has shape {shape}, expected [frames, bones, 6].")
    check_size(shape[0], shape[1])
    meta = dict(_meta(arrays, str(path)))
    skeleton = dict(meta["skeleton"]) if isinstance(meta.get("skeleton"), Mapping) else {}
    for key, stored in (("bone_names", "bone_names"), ("parents", "parents"), ("ref_local_offsets_m", "offsets")):
        if np.size(arrays.get(stored, ())):
            skeleton[key] = _plain(arrays[stored])
    meta["skeleton"] = skeleton
    if "schema_version" in arrays and not isinstance(arrays["schema_version"], np.ndarray):
        raise MotionkitError(f"{path}: schema_version is no number.")
    rate = next((arrays[name] for name in ("FPS", "fps") if name in arrays), None)
    head = {} if rate is None else {"FPS": _plain(rate)}
    return ArrayFields(str(path), arrays, meta, head)


def as_tensor(array: Any) -> Tensor:
    """Return numbers as float64."""
    return torch.from_numpy(weights.cast(array, np.float64))


def text_of(arrays: Mapping[str, Any], name: str) -> str:
    """Return an array that holds one text, empty when it is not there."""
    value = arrays.get(name, "")
    return str(value.item() if isinstance(value, np.ndarray) and value.size == 1 else value)


def _plain(value: Any) -> Any:
    """Return an array as Python numbers, texts and lists."""
    return np.asarray(value).tolist()


def _meta(arrays: Mapping[str, Any], origin: str) -> Mapping[str, Any]:
    text = text_of(arrays, "meta_json")
    meta = parse_json(text, f"{origin}: meta_json", object) if text.strip() else {}
    if not isinstance(meta, Mapping):
        raise MotionkitError(f"{origin}: meta_json is no table.", why=json.dumps(meta)[:60])
    return meta
