"""Joint positions as numpy arrays: plain .npy files and MDM's results.npy."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from motionkit import weights
from motionkit.errors import MotionkitError
from motionkit.formats.arrays._space import body_of, stacked_clips
from motionkit.motion._clip import Clip, ReadOptions
from motionkit.motion._motion import check_size
from motionkit.motion.corpus._captions import Caption
from motionkit.runs import write_bytes_atomic
from motionkit.weights import read_array

LIMIT = 2 << 30
"""Bytes; 22 joints at 120 frames per second for more than an hour, in double precision, are a tenth of that."""

_PLAIN = ReadOptions()


def read_joints(path: Path, options: ReadOptions = _PLAIN) -> Sequence[Clip]:
    """Read a ``.npy`` of joint positions.

    Args:
        path: ``[T, J, 3]`` (``new_joints`` of HumanML3D and KIT-ML), ``[T, 3 J]``, ``[N, T, J, 3]`` or
            ``[N, J, 3, T]`` (what MDM samples); J as in `joints_clip`. Nothing in it is executed.
        options: Unit, vertical axis and frame rate, where the guesses are wrong.

    Returns:
        One clip, or N with their number as part. Frames with NaN stay, with a warning; of several motions, one that
        cannot be used has a `Clip.fault`.

    Raises:
        MotionkitError: No readable array of numbers, or of no such shape, or nothing in it can be used.

    Example:
        >>> from motionkit.starter import generate
        >>> write_joints(Path("walk.npy"), torch.from_numpy(generate("walk", frames=40).joints))
        >>> (clip,) = read_joints(Path("walk.npy"))
        >>> clip.motion.frames, clip.notes["unit"], clip.notes["up"]
        (40, 'm', 'y')
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


def read_mdm_results(path: Path, options: ReadOptions = _PLAIN) -> Sequence[Clip]:
    """Read what MDM's ``generate`` writes: a dict of ``motion [N, J, 3, T]``, ``text``, ``lengths`` and counts.

    The file is a pickle; it is read by a reader that admits numpy arrays and plain containers only.

    Args:
        path: ``results.npy``.
        options: As in `read_joints`.

    Returns:
        N clips, cut to their lengths, the prompt as caption; parts are named as MDM names its films,
        ``sample00_rep00``. A clip that cannot be used has a `Clip.fault`.

    Raises:
        MotionkitError: It is damaged, refers to code, is no such dict, or nothing in it can be used.
    """
    data = read_array(path, limit=LIMIT)
    if not is_mdm_results(data):
        raise MotionkitError(f"{path} is no results file of MDM.", why="it has no array called motion in a dict.")
    clips = split_clips(data["motion"], f"{path}: motion")
    stack, faults = _to_length(clips, data.get("lengths"), path)
    samples = _count(data.get("num_samples"), len(clips))
    parts = [f"sample{number % samples:02d}_rep{number // samples:02d}" for number in range(len(clips))]
    texts = _texts(data.get("text"), len(clips), samples)
    placed = stacked_clips(stack, parts, options, str(path), "MDM results", faults)
    captions = [(Caption(text),) if text else () for text in texts]
    return tuple(replace(clip, captions=said) for clip, said in zip(placed, captions, strict=True))


def is_mdm_results(data: object) -> bool:
    """Return True for what `read_array` makes of a results.npy."""
    return isinstance(data, Mapping) and isinstance(data.get("motion"), np.ndarray) and data["motion"].ndim == 4


def _to_length(clips: list[Tensor], stored: Any, path: Path) -> tuple[list[Tensor], dict[int, MotionkitError]]:
    """Cut each clip to its stored length, if there is one; also return the errors of impossible lengths, by number."""
    if stored is None:
        return clips, {}
    lengths = np.asarray(stored).reshape(-1)
    if lengths.dtype.kind not in "iuf" or len(lengths) != len(clips):
        raise MotionkitError(f"{path}: lengths do not fit {len(clips)} motions: {lengths.tolist()[:8]}.")
    faults = {
        number: MotionkitError(f"it has {len(clip)} frames, its length is given as {length:g}.")
        for number, (clip, length) in enumerate(zip(clips, lengths, strict=True))
        if not 1 <= length <= len(clip)
    }
    return [
        clip if number in faults else clip[: int(length)]
        for number, (clip, length) in enumerate(zip(clips, lengths, strict=True))
    ], faults


def _count(stored: Any, clips: int) -> int:
    """Return the number of samples per repetition."""
    samples = int(stored) if isinstance(stored, int | np.integer) else clips
    return samples if 0 < samples <= clips else clips


def _texts(stored: Any, clips: int, samples: int) -> list[str]:
    """Return a text per clip, empty where there is none; one text per sample serves all its repetitions."""
    texts = [str(text) for text in stored] if isinstance(stored, list | tuple | np.ndarray) else []
    if len(texts) == samples:
        return [texts[number % samples] for number in range(clips)]
    return texts if len(texts) == clips else [""] * clips
