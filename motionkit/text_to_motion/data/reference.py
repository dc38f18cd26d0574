"""Median foot skate and jerk of a dataset's motions, the reference of the physics reward."""

from __future__ import annotations

import hashlib
import json
import math
import tempfile
from collections.abc import Collection, Sequence
from pathlib import Path

import torch
from torch import Tensor

from motionkit.config import cache_folder
from motionkit.contracts.dataset import TextClip
from motionkit.documents import read_json
from motionkit.errors import MotionkitError
from motionkit.kernels import physics_sums
from motionkit.motion import Skeleton, features_to_joints, original

# Compares motions of two splits: training motions must not be used for measuring.


def shared_motions(some: Collection[str], others: Collection[str]) -> list[str]:
    """Return the motions that two lists of clip ids have in common, as they are or mirrored; sorted."""
    names = {*some, *others}
    return sorted({original(name, names) for name in some} & {original(name, names) for name in others})


_VERSION = 1
_BATCH = 64


def physics_medians(clips: Sequence[TextClip], skeleton: Skeleton, fps: float) -> tuple[float, float]:
    """Return the median foot skate (m/s) and median jerk (m/s^3) over clips.

    The result is kept in the user's cache folder (``$MOTIONKIT_CACHE``, ``$XDG_CACHE_HOME/motionkit`` or
    ``~/.cache/motionkit``), under a hash of the motions themselves, so that a changed dataset gets new figures. A cache
    that cannot be written is no error.

    Args:
        clips: At least one; clips shorter than 4 frames have no jerk and are not used.
        skeleton: Body of the features.
        fps: Frames per second.
    """
    path = cache_folder() / f"physics-{_fingerprint(clips, skeleton, fps)}.json"
    if (cached := _load(path)) is not None:
        return cached
    skates, jerks = [], []
    usable = [clip.features for clip in clips if len(clip.features) >= 4]
    for start in range(0, len(usable), _BATCH):
        skate, jerk = _measure(usable[start : start + _BATCH], skeleton, fps)
        skates.append(skate)
        jerks.append(jerk)
    medians = (float(torch.cat(skates).median()), float(torch.cat(jerks).median()))
    _store(path, medians)
    return medians


def _measure(features: Sequence[Tensor], skeleton: Skeleton, fps: float) -> tuple[Tensor, Tensor]:
    lengths = torch.tensor([len(clip) for clip in features])
    joints = features_to_joints(torch.nn.utils.rnn.pad_sequence(list(features), batch_first=True), skeleton, lengths)
    return physics_sums(joints, lengths, fps=fps, feet=skeleton.feet)


def _fingerprint(clips: Sequence[TextClip], skeleton: Skeleton, fps: float) -> str:
    digest = hashlib.sha256(f"{_VERSION} {skeleton.name} {fps}".encode())
    for clip in clips:
        digest.update(f"{clip.key} {tuple(clip.features.shape)}".encode())
        digest.update(clip.features.contiguous().numpy().tobytes())
    return digest.hexdigest()[:24]


def _load(path: Path) -> tuple[float, float] | None:
    try:
        medians = read_json(path, list)
    except MotionkitError:
        return None
    match medians:
        case [float(skate), float(jerk)] if math.isfinite(skate) and math.isfinite(jerk):
            return skate, jerk
    return None


def _store(path: Path, medians: tuple[float, float]) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, suffix=".part", delete=False, encoding="utf-8") as file:
            json.dump(medians, file)
        Path(file.name).replace(path)
    except OSError:
        return
