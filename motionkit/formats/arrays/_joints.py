"""Joint positions as plain numpy arrays: what most papers' code exchanges."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from motionkit import weights
from motionkit.errors import MotionkitError
from motionkit.formats.arrays._space import body_of
from motionkit.formats.arrays._stack import stacked_clips
from motionkit.motion._clip import Clip, ReadOptions
from motionkit.motion._motion import check_size
from motionkit.runs import write_bytes_atomic
from motionkit.weights import read_array

LIMIT = 2 << 30
"""Bytes; 22 joints at 120 frames per second for more than an hour, in double precision, are a tenth of that."""

_PLAIN = ReadOptions()


def read_joints(path: Path, options: ReadOptions = _PLAIN) -> Sequence[Clip]:
    """Read a ``.npy`` of joint positions.

    Args:
        path: ``[T, J, 3]`` (``new_joints`` of HumanML3D and KIT-ML), ``[T, 3 J]``, ``[N, T, J, 3]`` or
            ``[N, J, 3, T]`` (what MDM samples); J as in `place_joints`. Nothing in it is executed.
        options: Unit, vertical axis and frame rate, where the guesses are wrong.

    Returns:
        One clip, or N with their number as part. Frames with NaN stay, and are warned of; one of several motions of
        which nothing can be used has a `Clip.fault`.

    Raises:
        MotionkitError: No readable array of numbers, or of no such shape, or nothing in it can be used.
    """
    array = read_array(path, limit=LIMIT)
    stack = split_clips(array, str(path))
    digits = len(str(len(stack) - 1))
    parts = [f"{number:0{digits}d}" if len(stack) > 1 else "" for number in range(len(stack))]
    return tuple(stacked_clips(stack, parts, options, str(path), "joint array"))


def write_joints(path: Path, joints: Tensor) -> None:
    """Write joints ``[T, J, 3]`` as float32 ``.npy``, whole or not at all, as HumanML3D's ``new_joints`` are."""
    buffer = io.BytesIO()
    np.save(buffer, joints.detach().cpu().to(torch.float32).contiguous().numpy(), allow_pickle=False)
    write_bytes_atomic(path, buffer.getvalue())


def split_clips(array: object, origin: str) -> list[Tensor]:
    """Return the clips ``[T, J, 3]`` of an array in any of the shapes `read_joints` takes.

    Raises:
        MotionkitError: It is no array of numbers, too large, or its shape fits no body.
    """
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "fiu":
        kind = f"{array.dtype} values" if isinstance(array, np.ndarray) else f"a {type(array).__name__}"
        raise MotionkitError(f"{origin} holds {kind}, not an array of numbers.")
    check_size(-(-array.size // 3), 1, rotations=False)
    joints = torch.from_numpy(weights.cast(array, np.float64))
    if 0 in joints.shape:
        raise MotionkitError(f"{origin} is empty: its shape is {list(array.shape)}.")
    if joints.ndim == 2 and joints.shape[1] % 3 == 0 and body_of(joints.shape[1] // 3):
        joints = joints.reshape(len(joints), -1, 3)
    if joints.ndim == 3 and joints.shape[2] == 3 and body_of(joints.shape[1]):
        return [joints]
    if joints.ndim == 4 and joints.shape[3] == 3 and body_of(joints.shape[2]):
        return list(joints)
    if joints.ndim == 4 and joints.shape[2] == 3 and body_of(joints.shape[1]):
        return list(joints.permute(0, 3, 1, 2))
    raise MotionkitError(
        f"{origin} has shape {list(array.shape)}.",
        why="joints are [frames, joints, 3], [frames, 3 x joints] or [clips, frames, joints, 3], with 22 joints "
        "(HumanML3D), 21 (KIT), or 24, 52 or 55 (SMPL).",
    )
