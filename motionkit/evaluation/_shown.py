"""Motions of a held-out measurement that are kept to be looked at, before training and after it."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from motionkit.evaluation._sample import Samples
from motionkit.rewards.mix import Scored
from motionkit.runs import write_bytes_atomic


@dataclass(frozen=True)
class Shown:
    """P motions, one per prompt, as they were measured.

    Attributes:
        features: Each ``[T, D]`` float32, unnormalised.
        texts: Text of each; `` | `` between segments.
        bounds: First and last frame + 1 of each segment.
        rewards: Total of the training rewards, NaN where one could not be computed.
        segments: Reward of each segment, as many as `bounds` has.
        skeleton: Name of the body.
        fps: Frames per second.
    """

    features: list[NDArray[np.float32]]
    texts: list[str]
    bounds: list[list[tuple[int, int]]]
    rewards: list[float]
    segments: list[list[float]]
    skeleton: str
    fps: float

    @classmethod
    def first(cls, samples: Samples, scored: Scored, per_prompt: int, count: int) -> Shown:
        """Keep the first sample of the first `count` prompts.

        Args:
            samples: ``P * per_prompt`` samples, prompt after prompt.
            scored: Their scores.
            per_prompt: Samples of each prompt.
            count: Most prompts.
        """
        rows = range(0, min(len(samples.prompts), count * per_prompt), per_prompt)
        asked = [samples.prompts[row] for row in rows]
        features = samples.motions.features.float().cpu().numpy()
        totals = np.where(scored.finite.cpu().numpy(), scored.total.cpu().numpy(), np.nan)
        segments = scored.segments.cpu().numpy()
        return cls(
            features=[features[row, : prompt.length] for row, prompt in zip(rows, asked, strict=True)],
            texts=[" | ".join(prompt.segments) for prompt in asked],
            bounds=[list(prompt.bounds) for prompt in asked],
            rewards=[float(totals[row]) for row in rows],
            segments=[
                [float(value) for value in segments[row, : len(prompt.segments)]]
                for row, prompt in zip(rows, asked, strict=True)
            ],
            skeleton=samples.motions.skeleton.name,
            fps=samples.motions.fps,
        )

    def save(self, path: Path) -> None:
        """Write an .npz file: ``features`` ``[sum of T, D]``, motion after motion, and the rest as JSON in ``about``.

        Raises:
            OSError: It cannot be written.
        """
        about = {
            "texts": self.texts,
            "bounds": self.bounds,
            "rewards": [value if value == value else None for value in self.rewards],
            "segments": self.segments,
            "skeleton": self.skeleton,
            "fps": self.fps,
        }
        buffer = io.BytesIO()
        np.savez_compressed(buffer, features=np.concatenate(self.features), about=np.array(json.dumps(about)))
        write_bytes_atomic(path, buffer.getvalue())
