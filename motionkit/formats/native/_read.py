"""Reading a motionkit .npz back."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import EllipsisType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from motionkit.documents import parse_json
from motionkit.errors import MotionkitError
from motionkit.formats.native._write import SCHEMA, TRACK, VERSION
from motionkit.geometry._rotations import matrix_from_quaternion
from motionkit.motion._clip import Clip, ReadOptions
from motionkit.motion._motion import JointMotion, Motion, check_size
from motionkit.motion.corpus._captions import Caption
from motionkit.motion.corpus._ids import read_split
from motionkit.weights import read_array

LIMIT = 2 << 30
"""Bytes a file may unpack to."""

_PLAIN = ReadOptions()
_PART = re.compile(r"[\w.-]*")
"""It becomes part of file names."""


def read_native(path: Path, options: ReadOptions = _PLAIN) -> Sequence[Clip]:
    """Read what `write_native` wrote; nothing in the file is executed.

    Args:
        path: The ``.npz``.
        options: Not used; the file holds everything.

    Returns:
        One clip. Its warnings are those of the reader that first made the motion.

    Raises:
        MotionkitError: Damaged, no such file, of a newer schema, or its arrays do not fit each other.
    """
    data = read_array(path, limit=LIMIT)
    if not isinstance(data, Mapping) or _text(data.get("motionkit_schema")) != SCHEMA:
        raise MotionkitError(f"{path} is no motion file of motionkit.", why="it has no motionkit_schema.")
    version = data.get("version")
    if not isinstance(version, np.ndarray) or version.shape != () or version.dtype.kind not in "iu":
        raise MotionkitError(f"{path} does not say which version it is of.")
    if int(version) > VERSION:
        raise MotionkitError(
            f"{path} is of version {int(version)}; this motionkit reads up to version {VERSION}.",
            fix="read it with the motionkit that wrote it, or a newer one.",
        )
    try:
        return (_clip(data, str(path)),)
    except (KeyError, ValueError, TypeError, AttributeError, RecursionError) as error:
        what = f"it has no {error}." if isinstance(error, KeyError) else str(error)
        raise MotionkitError(f"{path} is a damaged motion file of motionkit: {what}") from error


def _clip(data: Mapping[str, Any], origin: str) -> Clip:
    motion = _motion(data)
    features = _tensor(data, "features", "f", None, None) if "features" in data else None
    about = parse_json(_text(data["about"]), f"{origin} is a damaged motion file of motionkit: its about", dict)
    notes = {str(key): str(value) for key, value in about["notes"].items()}
    if about["source_sha256"]:
        notes["sha256"] = str(about["source_sha256"])
    if features is not None and len(features) != motion.frames:
        raise ValueError(f"features has {len(features)} rows for {motion.frames} frames.")
    texts = list(map(str, about["captions"]))
    tokens = about.get("caption_tokens") or [()] * len(texts)  # files of before have none
    part = str(about["part"])
    if not _PART.fullmatch(part):
        raise ValueError(f"its part is called {part[:40]!r}, which is no name.")
    split, doubt = read_split(about["split"])
    return Clip(
        motion,
        features=features,
        captions=tuple(Caption(text, tuple(map(str, words))) for text, words in zip(texts, tokens, strict=True)),
        timed=tuple(
            Caption(str(entry["text"]), tuple(map(str, entry["tokens"])), float(entry["start"]), float(entry["end"]))
            for entry in about["timed"]
        ),
        split=split,
        group=str(about["group"]),
        part=part,
        notes=notes,
        warnings=(*map(str, about["warnings"]), *doubt),
    )


def _motion(data: Mapping[str, Any]) -> Motion | JointMotion:
    """Return the motion with its tracks."""
    names = tuple(map(str, _array(data, "names", "U", None).tolist()))
    count = len(names)
    parents = tuple(map(int, _array(data, "parents", "iu", count)))
    if len(set(names)) != count or any(not -1 <= parent < joint for joint, parent in enumerate(parents)):
        raise ValueError("joint names repeat, or a joint comes before its parent.")
    fps = float(_array(data, "fps", "f"))
    kind = _text(data["kind"])
    if kind not in ("joints", "rotations"):
        raise ValueError(f"it holds {kind!r}, which is unknown.")
    rows = _array(data, "joints" if kind == "joints" else "quaternions", "f", None, None, None)
    frames = len(rows)
    check_size(frames, count, rotations=kind == "rotations")
    tracks = {key.removeprefix(TRACK): _tensor(data, key, "fiub", frames, ...) for key in data if key.startswith(TRACK)}
    if kind == "joints":
        return JointMotion(names, parents, _tensor(data, "joints", "f", frames, count, 3).double(), fps, tracks)
    offsets = _tensor(data, "offsets", "f", count, 3).double()
    rotations = matrix_from_quaternion(_tensor(data, "quaternions", "f", frames, count, 4).double())
    moving = _array(data, "moving", "iu", None).tolist()
    if len(set(moving)) != len(moving) or any(not 0 <= joint < count for joint in moving):
        raise ValueError("it moves joints that are not there.")
    translations = offsets.repeat(frames, 1, 1)
    translations[:, moving] = _tensor(data, "translations", "f", frames, len(moving), 3).double()
    return Motion(names, parents, offsets, rotations, translations, fps, tracks)


def _array(data: Mapping[str, Any], name: str, kinds: str, *shape: int | EllipsisType | None) -> NDArray[Any]:
    """Return an array after checking its kind and shape; None fits any length, a last ``...`` any further axes."""
    array = data[name]
    if not isinstance(array, np.ndarray) or array.dtype.kind not in kinds:
        raise ValueError(f"{name} is no array of the right kind.")
    wanted, found = shape, array.shape
    if wanted[-1:] == (...,):
        wanted = wanted[:-1]
        found = found[: len(wanted)]
    if len(found) != len(wanted) or any(want not in (None, have) for want, have in zip(wanted, found, strict=True)):
        raise ValueError(f"{name} has shape {list(array.shape)}, which does not fit.")
    return array


def _tensor(data: Mapping[str, Any], name: str, kinds: str, *shape: int | EllipsisType | None) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(_array(data, name, kinds, *shape)))


def _text(value: Any) -> str:
    """Return a text stored as an array of no dimension; empty for anything else."""
    return str(value) if isinstance(value, np.ndarray) and value.shape == () and value.dtype.kind == "U" else ""
