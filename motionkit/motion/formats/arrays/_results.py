"""MDM's results.npy: generated motions with their prompts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from motionkit.errors import MotionkitError
from motionkit.motion._clip import Clip, ReadOptions
from motionkit.motion.formats.arrays._joints import LIMIT, split_clips
from motionkit.motion.formats.arrays._space import place_joints
from motionkit.weights import read_array

_PLAIN = ReadOptions()


def read_mdm_results(path: Path, options: ReadOptions = _PLAIN) -> Sequence[Clip]:
    """Read what MDM's ``generate`` writes: a dict of ``motion [N, J, 3, T]``, ``text``, ``lengths`` and counts.

    The file is a pickle; it is read by a reader that admits numpy arrays and plain containers only.

    Args:
        path: ``results.npy``.
        options: As in `read_joints`.

    Returns:
        N clips, cut to their lengths, the prompt as caption; parts are named as MDM names its films,
        ``sample00_rep00``.

    Raises:
        MotionkitError: It is damaged, refers to code, or is no such dict.
    """
    data = read_array(path, limit=LIMIT)
    if not is_mdm_results(data):
        raise MotionkitError(f"{path} is no results file of MDM.", why="it has no array called motion in a dict.")
    clips = split_clips(data["motion"], f"{path}: motion")
    lengths = _lengths(data.get("lengths"), [len(clip) for clip in clips], path)
    samples = _count(data.get("num_samples"), len(clips))
    texts = _texts(data.get("text"), len(clips), samples)
    result = []
    for number, (joints, length) in enumerate(zip(clips, lengths, strict=True)):
        part = f"sample{number % samples:02d}_rep{number // samples:02d}"
        try:
            placed = place_joints(joints[:length], options)
        except MotionkitError as error:
            raise MotionkitError(f"{path} ({part}): {error.message}", why=error.why, fix=error.fix) from error
        notes = {"format": "MDM results", **placed.notes, "frames": str(length)}
        captions = (texts[number],) if texts[number] else ()
        result.append(Clip(placed.motion, captions=captions, part=part, notes=notes, warnings=placed.warnings))
    return tuple(result)


def is_mdm_results(data: object) -> bool:
    """Return True for what `read_array` makes of a results.npy."""
    return isinstance(data, Mapping) and isinstance(data.get("motion"), np.ndarray) and data["motion"].ndim == 4


def _lengths(stored: Any, frames: list[int], path: Path) -> list[int]:
    """Return how many frames of each clip count; all of them where the file does not say."""
    if stored is None:
        return frames
    lengths = np.asarray(stored).reshape(-1)
    if lengths.dtype.kind not in "iuf" or len(lengths) != len(frames) or not np.isfinite(lengths.astype(float)).all():
        raise MotionkitError(f"{path}: lengths do not fit {len(frames)} motions: {lengths.tolist()[:8]}.")
    for number, (length, most) in enumerate(zip(lengths, frames, strict=True)):
        if not 1 <= length <= most:
            raise MotionkitError(f"{path}: motion {number} has {most} frames, its length is given as {length}.")
    return [int(length) for length in lengths]


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
