"""MDM's results.npy: generated motions with their prompts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.formats.arrays._joints import LIMIT, split_clips
from motionkit.formats.arrays._stack import stacked_clips
from motionkit.motion._clip import Clip, ReadOptions
from motionkit.motion.corpus._captions import Caption
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
        ``sample00_rep00``. One of which nothing can be used has a `Clip.fault`, and the others go on.

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
    """Return of each clip the frames that count, all where the file does not say; and lengths that cannot be."""
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
