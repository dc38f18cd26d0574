"""motionkit's .npz: a motion with its captions, features and notes, without pickle; written and read back."""

from __future__ import annotations

import json
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
from motionkit.geometry import matrix_from_quaternion, matrix_to_quaternion
from motionkit.motion.clip import Clip, ReadOptions
from motionkit.motion.corpus.captions import Caption
from motionkit.motion.corpus.ids import read_split
from motionkit.motion.motion import JointMotion, Motion, check_size
from motionkit.runs import write_arrays_atomic
from motionkit.weights import read_array

SCHEMA = "motionkit.motion"
"""Value of the array ``motionkit_schema``, by which a file is recognised."""

VERSION = 1
"""Value of ``version``; raised if an older reader would misread the file, not for additions."""

TRACK = "track."
"""Prefix of the arrays that hold `Motion.tracks`."""

LIMIT = 2 << 30
"""Bytes a file may unpack to."""

_PLAIN = ReadOptions()


def write_native(path: Path, clip: Clip, *, source_hash: str = "") -> None:
    """Write a motionkit ``.npz``: any motion with its tracks, features, captions and notes.

    The file holds plain arrays only, no pickle. The same clip gives the same bytes. Reading it back moves no joint by
    more than 1e-5 m: rotations are float32 unit quaternions (w, x, y, z), places float64.

    Args:
        path: The file; it appears whole or not at all.
        clip: The motion with its captions, features and notes.
        source_hash: SHA-256 of the file the motion came from, as hexadecimal digits.

    Example:
        >>> from motionkit.formats.native import read_native
        >>> motion = JointMotion(("hips",), (-1,), torch.zeros(40, 1, 3, dtype=torch.float64), fps=20.0)
        >>> write_native(Path("stand.npz"), Clip(motion, split="train"))
        >>> (clip,) = read_native(Path("stand.npz"))
        >>> clip.split, clip.motion.frames
        ('train', 40)
    """
    motion = clip.motion
    arrays: dict[str, NDArray[Any]] = {
        "motionkit_schema": np.array(SCHEMA),
        "version": np.array(VERSION),
        "kind": np.array("rotations" if isinstance(motion, Motion) else "joints"),
        "fps": np.array(float(motion.fps)),
        "names": np.array(motion.names),
        "parents": np.array(motion.parents, dtype=np.int64),
    }
    arrays |= _rotations(motion) if isinstance(motion, Motion) else _joints(motion)
    arrays |= {f"{TRACK}{name}": _stored_array(values) for name, values in sorted(motion.tracks.items())}
    if clip.features is not None:
        arrays["features"] = _stored_array(clip.features.float())
    about = json.dumps(_about(clip, source_hash), ensure_ascii=False, sort_keys=True)
    # Names of files need not be text on Linux; what is none becomes a question mark, as readers take text only.
    arrays["about"] = np.array(about.encode(errors="replace").decode())
    write_arrays_atomic(path, arrays)


def _rotations(motion: Motion) -> dict[str, NDArray[Any]]:
    """Return quaternions, and the places of the root and of joints that leave their offset."""
    rest = motion.offsets.expand_as(motion.translations)
    # NaN differs from itself, so a joint with NaN in its path counts as moving and keeps it.
    moving = (motion.translations != rest).any(dim=0).any(dim=-1)
    return {
        "offsets": _stored_array(motion.offsets.double()),
        "quaternions": _stored_array(matrix_to_quaternion(motion.rotations.double()).float()),
        "moving": _stored_array(moving.nonzero()[:, 0]),
        "translations": _stored_array(motion.translations[:, moving].double()),
    }


def _joints(motion: JointMotion) -> dict[str, NDArray[Any]]:
    """Return joints, in single precision if that is exact."""
    single = motion.joints.float()
    exact = torch.equal(torch.nan_to_num(single).double(), torch.nan_to_num(motion.joints.double()))
    return {"joints": _stored_array(single if exact else motion.joints.double())}


def _about(clip: Clip, source_hash: str) -> dict[str, Any]:
    """Return everything that is text."""
    timed = [
        {"text": caption.text, "tokens": list(caption.tokens), "start": caption.start, "end": caption.end}
        for caption in clip.timed
    ]
    return {
        "captions": [caption.text for caption in clip.captions],
        "caption_tokens": [list(caption.tokens) for caption in clip.captions],
        "timed": timed,
        "split": clip.split,
        "group": clip.group,
        "part": clip.part,
        "notes": dict(clip.notes),
        "warnings": list(clip.warnings),
        "source_sha256": source_hash,
    }


def _stored_array(values: Tensor) -> NDArray[Any]:
    array: NDArray[Any] = values.detach().cpu().contiguous().numpy()
    return array


def read_native(path: Path, options: ReadOptions = _PLAIN) -> Sequence[Clip]:
    """Read what `write_native` wrote; nothing in the file is executed.

    Args:
        path: The ``.npz``.
        options: Not used, as the file holds everything.

    Returns:
        One clip. Its warnings are those of the reader that first made the motion.
    """
    data = read_array(path, limit=LIMIT)
    if not isinstance(data, Mapping) or _text(data.get("motionkit_schema")) != SCHEMA:
        raise MotionkitError(f"{path} is not a motion file of motionkit.", why="it has no motionkit_schema.")
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
        reason = f"it has no {error}." if isinstance(error, KeyError) else str(error)
        raise MotionkitError(f"{path} is a damaged motion file of motionkit: {reason}") from error


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
    tokens = about.get("caption_tokens") or [()] * len(texts)  # older files have none
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
        part=str(about["part"]),
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
        raise ValueError(f"{name} is not an array of the right kind.")
    expected, actual = shape, array.shape
    if expected[-1:] == (...,):
        expected = expected[:-1]
        actual = actual[: len(expected)]
    if len(actual) != len(expected) or any(
        want not in (None, have) for want, have in zip(expected, actual, strict=True)
    ):
        raise ValueError(f"{name} has shape {list(array.shape)}, which does not fit.")
    return array


def _tensor(data: Mapping[str, Any], name: str, kinds: str, *shape: int | EllipsisType | None) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(_array(data, name, kinds, *shape)))


def _text(value: Any) -> str:
    """Return a text stored as an array of no dimension; empty for anything else."""
    return str(value) if isinstance(value, np.ndarray) and value.shape == () and value.dtype.kind == "U" else ""
