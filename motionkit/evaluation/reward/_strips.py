"""Film strips of the worst errors, small enough to keep."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from motionkit import weights
from motionkit.errors import MotionkitError
from motionkit.evaluation.reward._data import Episodes
from motionkit.evaluation.reward._score import Scored
from motionkit.runs import write_bytes_atomic

Kind = Literal["false alarm", "missed"]
KINDS: tuple[Kind, ...] = ("false alarm", "missed")

FILE = "strips.npz"
_EACH = 4
"""Strips of each kind."""

_BEFORE, _AFTER = 3, 1
_SIDE = 128
"""Larger images are thinned out to about this side."""


@dataclass(frozen=True)
class Strip:
    """A frame that the classifier got wrong, with those around it.

    Attributes:
        kind: ``false alarm``: label 0 and a high probability; ``missed``: label 1 and a low one.
        episode: Identifier of its episode.
        step: Its place in it.
        probability: What was said of it.
        camera: Which camera.
        frames: ``[T, H, W, 3]`` uint8.
        at: Its place among `frames`.
        before: Probability of each frame, ``[T]``.
        labels: Label of each frame, ``[T]``.
    """

    kind: Kind
    episode: str
    step: int
    probability: float
    camera: str
    frames: NDArray[np.uint8]
    at: int
    before: tuple[float, ...]
    labels: tuple[float, ...]


def worst_strips(scored: Scored, episodes: Episodes, camera: str, threshold: float) -> tuple[Strip, ...]:
    """Return the worst errors of each kind, one of an episode."""
    found: list[Strip] = []
    for kind in KINDS:
        alarm = kind == "false alarm"
        wrong = (scored.labels <= 0.5) & (scored.probabilities >= threshold)
        if not alarm:
            wrong = (scored.labels > 0.5) & (scored.probabilities < threshold)
        places = wrong.nonzero()[:, 0]
        order = places[scored.probabilities[places].argsort(descending=alarm, stable=True)]
        seen: set[int] = set()
        for place in order.tolist():
            episode = int(scored.episode[place])
            if episode in seen:
                continue
            seen.add(episode)
            found.append(_strip(scored, episodes, camera, place, kind))
            if len(seen) == _EACH:
                break
    return tuple(found)


def save_strips(path: Path, strips: Sequence[Strip]) -> None:
    """Write strips as arrays of numbers and text, no objects."""
    arrays: dict[str, Any] = {"count": np.array(len(strips))}
    for number, one in enumerate(strips):
        arrays[f"{number}/frames"] = one.frames
        arrays[f"{number}/about"] = np.array([one.kind, one.episode, one.camera])
        arrays[f"{number}/at"] = np.array([one.step, one.at])
        arrays[f"{number}/said"] = np.array([one.probability, *one.before])
        arrays[f"{number}/labels"] = np.array(one.labels)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes_atomic(path, buffer.getvalue())


def load_strips(path: Path) -> tuple[Strip, ...]:
    """Read strips again.

    Raises:
        MotionkitError: The file is missing, damaged, or holds something else.
    """
    arrays = weights.read(path)
    try:
        return tuple(_read(arrays, number) for number in range(int(np.asarray(arrays["count"]))))
    except (KeyError, ValueError, TypeError, IndexError) as error:
        raise MotionkitError(f"{path} holds no film strips.", fix="measure again: motionkit eval reward") from error


def _read(arrays: Any, number: int) -> Strip:
    kind, episode, camera = (str(word) for word in arrays[f"{number}/about"])
    step, at = (int(value) for value in arrays[f"{number}/at"])
    probability, *said = (float(value) for value in arrays[f"{number}/said"])
    frames = np.asarray(arrays[f"{number}/frames"])
    labels = tuple(float(value) for value in arrays[f"{number}/labels"])
    if kind not in KINDS or frames.ndim != 4 or frames.dtype != np.uint8 or not len(frames) == len(said) == len(labels):
        raise ValueError
    if not 0 <= at < len(frames):
        raise ValueError
    return Strip("missed" if kind == "missed" else "false alarm", episode, step, probability, camera, frames, at,
                 tuple(said), labels)  # fmt: skip


def _strip(scored: Scored, episodes: Episodes, camera: str, place: int, kind: Kind) -> Strip:
    near = torch.arange(max(0, place - _BEFORE), min(len(scored), place + _AFTER + 1))
    near = near[scored.episode[near] == scored.episode[place]]
    frames = episodes.read(scored.index[near].numpy())[camera]
    every = max(1, round(max(frames.shape[1:3]) / _SIDE))
    record = episodes.records[int(scored.episode[place])]
    return Strip(
        kind, record.id, int(scored.step[place]), float(scored.probabilities[place]), camera,
        np.ascontiguousarray(frames[:, ::every, ::every]), int((near == place).nonzero()[0, 0]),
        tuple(scored.probabilities[near].tolist()), tuple(scored.labels[near].tolist()),
    )  # fmt: skip
