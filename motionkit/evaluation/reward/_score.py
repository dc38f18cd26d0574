"""What a classifier says of every frame, and how far each frame is from the one before it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from motionkit.encoders.success._classifier import SuccessClassifier
from motionkit.evaluation.reward._data import Episodes

CHUNK = 256


@dataclass(frozen=True)
class Scored:
    """Frames with what was said of them, in the order of `index`.

    Attributes:
        index: ``[N]`` frames of the set, ascending.
        logits: ``[N]`` uncalibrated.
        probabilities: ``[N]`` of success.
        labels: ``[N]`` float32.
        episode: ``[N]`` int64.
        step: ``[N]`` int64 place in the episode.
        jump: ``[N]`` mean absolute difference to the frame before it, 0 to 255, of the camera where it is largest; NaN
            for the first frame of an episode.
        restart: ``[N]`` the same measure for the first frame of an episode, to the last one of the episode before it:
            how far a restart jumps; NaN for all other frames.
    """

    index: Tensor
    logits: Tensor
    probabilities: Tensor
    labels: Tensor
    episode: Tensor
    step: Tensor
    jump: Tensor
    restart: Tensor

    def __len__(self) -> int:
        return len(self.index)


def score(
    classifier: SuccessClassifier,
    episodes: Episodes,
    index: NDArray[np.int64],
    progress: Callable[[int], None] | None = None,
) -> Scored:
    """Look at frames once, in order.

    Args:
        classifier: The classifier.
        episodes: The set.
        index: ``[N]`` frames, ascending, whole episodes.
        progress: Called with the number of frames that were done.
    """
    classifier.refuse_cameras(episodes.cameras)
    logits: list[Tensor] = []
    far = np.full(len(index), np.nan, dtype=np.float32)
    last: dict[str, NDArray[np.uint8]] = {}
    same = np.zeros(len(index), dtype=bool)
    same[1:] = (episodes.episode[index[1:]] == episodes.episode[index[:-1]]) & (np.diff(index) == 1)
    for start in range(0, len(index), CHUNK):
        part = index[start : start + CHUNK]
        frames = episodes.read(part)
        logits.append(classifier.logits({name: torch.from_numpy(values) for name, values in frames.items()}).cpu())
        own = _jumps([frames[name] for name in classifier.card.cameras], [last.get(n) for n in classifier.card.cameras])
        far[start : start + len(part)] = own
        last = {name: values[-1:].copy() for name, values in frames.items()}
        if progress is not None:
            progress(len(part))
    joined = torch.cat(logits) if logits else torch.zeros(0)
    restart = np.where(same, np.nan, far)
    restart[:1] = np.nan  # nothing is before it
    return Scored(
        torch.from_numpy(index),
        joined,
        classifier.calibrated(joined),
        torch.from_numpy(np.ascontiguousarray(episodes.labels[index])),
        torch.from_numpy(np.ascontiguousarray(episodes.episode[index])),
        torch.from_numpy(np.ascontiguousarray(episodes.step[index])),
        torch.from_numpy(np.where(same, far, np.nan)),
        torch.from_numpy(restart),
    )


def _jumps(cameras: Sequence[NDArray[np.uint8]], before: Sequence[NDArray[np.uint8] | None]) -> NDArray[np.float32]:
    """Return ``[N]`` how far each frame is from the one before it; `before` are the last frames of the last part."""
    found = []
    for values, last in zip(cameras, before, strict=True):
        joined = np.concatenate([values[:1] if last is None else last, values]).reshape(len(values) + 1, -1)
        # |a - b| of bytes without a wider type: max - min.
        low, high = np.minimum(joined[1:], joined[:-1]), np.maximum(joined[1:], joined[:-1])
        found.append((high - low).mean(1, dtype=np.float32))
    largest: NDArray[np.float32] = np.max(found, axis=0)
    return largest
