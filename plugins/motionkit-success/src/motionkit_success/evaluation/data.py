"""The split of episodes for training, choosing and measuring, and the classifier's scores of frames."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.runs import fingerprint
from motionkit_success.classifier import CHUNK, SuccessClassifier
from motionkit_success.episodes import Episodes

_FEWEST = 3  # starts of a class from which it is divided; fewer without a success all go to training


@dataclass(frozen=True)
class Split:
    """Contents of the episodes of each part. Episodes with the same start are in the same part."""

    train: tuple[str, ...]  # trained on
    val: tuple[str, ...]  # choose the best weights, the calibration and the threshold
    test: tuple[str, ...]  # measured on, once

    @classmethod
    def of(cls, episodes: Episodes, *, val: float, test: float, seed: int) -> Self:
        """Draw the parts, with shares `val` and `test` of each class; episodes of one seed stay together.

        The draw depends on the content of the episodes, not on their names, folders or order.
        """
        ones, zeros = (_has(episodes, label) for label in (1, 0))
        groups: dict[str, list[int]] = {}
        for place, record in enumerate(episodes.records):
            start = record.content if record.seed is None else f"{record.source}/{record.seed}"
            groups.setdefault(start, []).append(place)
        parts: tuple[list[int], list[int], list[int]] = ([], [], [])
        for successful in (True, False):
            chosen = [group for group in groups.values() if bool(ones[group].any()) == successful]
            chosen.sort(key=lambda group: _rank(episodes, group, seed))
            if successful and len(chosen) < _FEWEST:
                raise _too_few(len(chosen), 1)
            first = max(1, round(test * len(chosen))) if len(chosen) >= _FEWEST else 0
            last = first + max(1, round(val * len(chosen))) if first else 0
            for into, indices in zip((2, 1, 0), (chosen[:first], chosen[first:last], chosen[last:]), strict=True):
                parts[into].extend(place for group in indices for place in group)
        if not all(zeros[part].any() for part in parts):
            raise _too_few(sum(bool(zeros[group].any()) for group in groups.values()), 0)
        named = [tuple(episodes.records[place].content for place in sorted(part)) for part in parts]
        return cls(*named)

    def frames(self, episodes: Episodes, contents: Sequence[str]) -> NDArray[np.int64]:
        """Return the frames of some episodes, ascending."""
        chosen = set(contents)
        inside = np.array([record.content in chosen for record in episodes.records], dtype=bool)
        return np.flatnonzero(inside[episodes.episode])


def _rank(episodes: Episodes, group: Sequence[int], seed: int) -> str:
    return fingerprint(str(seed), *sorted(episodes.records[place].content for place in group))


def refuse_one_class(labels: NDArray[np.float32]) -> None:
    """Refuse labels ``[N]`` that are all the same."""
    positives = int((labels > 0.5).sum())
    if 0 < positives < len(labels):
        return
    label, other = (0, 1) if not positives else (1, 0)
    raise MotionkitError(
        f"all {len(labels):,} frames have label {label}.",
        why="a classifier needs both: frames in which the task is fulfilled, and frames in which it is not.",
        fix=f"collect episodes with frames of label {other}: motionkit reward-collect has --policy scripted and more "
        "--max-positive-trajectories.",
    )


def _has(episodes: Episodes, label: int) -> NDArray[np.bool_]:
    """Return which episodes have a frame of a label."""
    flags = np.zeros(len(episodes.records), dtype=bool)
    flags[episodes.episode[(episodes.labels > 0.5) == bool(label)]] = True
    return flags


def _too_few(count: int, label: int) -> MotionkitError:
    return MotionkitError(
        f"only {count} {'start' if count == 1 else 'starts'} with a frame of label {label}.",
        why="training, choosing a threshold and measuring need episodes of their own, three or more for each label.",
        fix="collect more episodes: motionkit reward-collect",
    )


@dataclass(frozen=True)
class Scored:
    """Frames with their scores, in the order of `index`."""

    index: Tensor  # [N] frames of the set, ascending
    logits: Tensor  # [N] uncalibrated
    probabilities: Tensor  # [N] of success
    labels: Tensor  # [N] float32
    episode: Tensor  # [N] int64
    step: Tensor  # [N] int64 place in the episode
    # [N] mean absolute difference to the frame before it, 0 to 255, of the camera with the largest one; NaN for the
    # first frame of an episode
    jump: Tensor
    restart: Tensor  # [N] the same of the first frame of an episode to the last one of the episode before; else NaN

    def __len__(self) -> int:
        return len(self.index)


def score(
    classifier: SuccessClassifier,
    episodes: Episodes,
    index: NDArray[np.int64],  # [N] frames, ascending, whole episodes
    progress: Callable[[int], None] | None = None,  # called with the number of frames that were done
) -> Scored:
    """Read and score frames once, in order."""
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
        jumps = _jumps(
            [frames[name] for name in classifier.card.cameras], [last.get(n) for n in classifier.card.cameras]
        )
        far[start : start + len(part)] = jumps
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
    """Return the difference ``[N]`` of each frame to the one before; `before` are the last frames of the last part."""
    differences = []
    for values, last in zip(cameras, before, strict=True):
        joined = np.concatenate([values[:1] if last is None else last, values]).reshape(len(values) + 1, -1)
        # |a - b| of bytes without a wider type: max - min.
        low, high = np.minimum(joined[1:], joined[:-1]), np.maximum(joined[1:], joined[:-1])
        differences.append((high - low).mean(1, dtype=np.float32))
    largest: NDArray[np.float32] = np.max(differences, axis=0)
    return largest
