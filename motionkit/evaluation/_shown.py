"""Motions of a held-out measurement that are kept to be looked at, before training and after it."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from motionkit.errors import MotionkitError
from motionkit.motion import MotionBatch
from motionkit.rewards.mix import Scored
from motionkit.runs import Run, disk_errors, write_bytes_atomic
from motionkit.text import Prompt


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
    def first(
        cls, motions: MotionBatch, prompts: Sequence[Prompt], scored: Scored, per_prompt: int, count: int
    ) -> Shown:
        """Keep the first sample of the first `count` prompts.

        Args:
            motions: ``P * per_prompt`` motions, prompt after prompt.
            prompts: What each of them was asked for.
            scored: Their scores.
            per_prompt: Samples of each prompt.
            count: Most prompts.
        """
        rows = range(0, min(len(prompts), count * per_prompt), per_prompt)
        asked = [prompts[row] for row in rows]
        features = motions.features.float().cpu().numpy()
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
            skeleton=motions.skeleton.name,
            fps=motions.fps,
        )

    def keep(self, run: Run, name: str) -> None:
        """Write the motions to ``RUN/heldout/NAME.npz``, as output of the run.

        Raises:
            MotionkitError: They cannot be written.
        """
        folder = run.artifact("heldout")
        with disk_errors("write the held-out motions", folder):
            folder.mkdir(exist_ok=True)
            self.save(folder / f"{name}.npz")

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

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a file that `save` wrote.

        Raises:
            MotionkitError: It is missing, damaged or something else.
        """
        try:
            with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as file:
                rows, about = file["features"].astype(np.float32), json.loads(str(file["about"]))
            texts = [str(text) for text in about["texts"]]
            bounds = [[(int(start), int(end)) for start, end in one] for one in about["bounds"]]
            rewards = [float("nan") if value is None else float(value) for value in about["rewards"]]
            segments = [[float(value) for value in one] for one in about["segments"]]
            skeleton, fps = str(about["skeleton"]), float(about["fps"])
        except FileNotFoundError as error:
            raise MotionkitError(f"{path} is missing.") from error
        except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
            raise MotionkitError(f"{path} cannot be read as held-out motions.", why=str(error)) from error
        ends = np.cumsum([one[-1][1] if one else 0 for one in bounds])
        sizes = {len(texts), len(bounds), len(rewards), len(segments)}
        fits = rows.ndim == 2 and len(texts) > 0 and len(sizes) == 1 and ends[-1] == len(rows)
        if not fits or any(len(one) != len(two) or not one for one, two in zip(bounds, segments, strict=True)):
            raise MotionkitError(f"{path} cannot be read as held-out motions.", why="its parts do not fit each other.")
        return cls(np.split(rows, ends[:-1]), texts, bounds, rewards, segments, skeleton, fps)
