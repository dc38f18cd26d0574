"""Writing a clip with everything that is known about it, as a motionkit .npz."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from motionkit.geometry._rotations import matrix_to_quaternion
from motionkit.motion._clip import Clip
from motionkit.motion._motion import JointMotion, Motion
from motionkit.runs import write_bytes_atomic

SCHEMA = "motionkit.motion"
"""Value of the array ``motionkit_schema``, by which a file is recognised."""

VERSION = 1
"""Value of ``version``. It is raised when an older reader would misread the file; additions do not raise it."""

TRACK = "track."
"""Prefix of the arrays that hold `Motion.tracks`."""


def write_native(path: Path, clip: Clip, *, source_hash: str = "") -> None:
    """Write a motionkit ``.npz``: any motion with its tracks, features, captions and notes.

    The file holds plain arrays only, no pickle. The same clip gives the same bytes. Reading it back moves no joint by
    more than 1e-5 m: rotations are float32 unit quaternions (w, x, y, z), places float64.

    Args:
        path: The file; it appears whole or not at all.
        clip: The motion with its captions, features and notes.
        source_hash: SHA-256 of the file the motion came from, as hexadecimal digits.

    Raises:
        OSError: The disk refuses.

    Example:
        >>> from motionkit.formats.native._read import read_native
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
    arrays |= {f"{TRACK}{name}": _array(values) for name, values in sorted(motion.tracks.items())}
    if clip.features is not None:
        arrays["features"] = _array(clip.features.float())
    arrays["about"] = np.array(json.dumps(_about(clip, source_hash), ensure_ascii=False, sort_keys=True))
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **arrays)
    write_bytes_atomic(path, buffer.getvalue())


def _rotations(motion: Motion) -> dict[str, NDArray[Any]]:
    """Return quaternions, the root's path, and the places of joints that leave their offset."""
    rest = motion.offsets.expand_as(motion.translations)
    # NaN differs from itself, so a joint with a hole in its path counts as moving and keeps the hole.
    moving = (motion.translations != rest).any(dim=0).any(dim=-1)
    return {
        "offsets": _array(motion.offsets.double()),
        "quaternions": _array(matrix_to_quaternion(motion.rotations.double()).float()),
        "moving": _array(moving.nonzero()[:, 0]),
        "translations": _array(motion.translations[:, moving].double()),
    }


def _joints(motion: JointMotion) -> dict[str, NDArray[Any]]:
    """Return joints, in single precision when nothing is lost by it."""
    single = motion.joints.float()
    exact = torch.equal(torch.nan_to_num(single).double(), torch.nan_to_num(motion.joints.double()))
    return {"joints": _array(single if exact else motion.joints.double())}


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


def _array(values: Tensor) -> NDArray[Any]:
    array: NDArray[Any] = values.detach().cpu().contiguous().numpy()
    return array
