"""What a step is worth: the weighted sum of rewards that read images, the environment's own reward, or motions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from motionkit.environments.base import Flags, Floats, Frames, Step
from motionkit.errors import MotionkitError
from motionkit.rewards.base import FrameBatch, Reward, RewardScores, StepBatch
from motionkit.text import Prompt
from motionkit.trainers.ppo._motions import motion_of
from motionkit.trainers.ppo._settings import ScoringSettings

PREDICTED = "success"
"""Part of an image reward's scores, 0 or 1: whether it sees success."""


@dataclass(frozen=True)
class Term:
    """A reward of the sum.

    Attributes:
        reward: It.
        weight: Its weight.
        reads: ``image``, ``step`` or ``motion``.
    """

    reward: Reward
    weight: float
    reads: str


class Scorer:
    """Scores the steps of N copies.

    Args:
        terms: The rewards.
        settings: When image rewards pay.
        num_envs: Copies N.
        cameras: Names of the environment's cameras; a reward without `score_cameras` reads the first.
        device: Where frames are scored.

    Attributes:
        needs_frames: Whether a reward reads frames.
        predicts: Whether a reward says that it sees success.
        means: Mean of each reward over the steps since `take_means`.
    """

    def __init__(
        self, terms: Sequence[Term], settings: ScoringSettings, num_envs: int, cameras: Sequence[str],
        device: torch.device,
    ) -> None:  # fmt: skip
        self._terms, self._settings, self._device = tuple(terms), settings, device
        self._cameras = tuple(cameras)
        self._prompts = [Prompt(("fulfil the task",), (1,))] * num_envs
        # [N, n]: which of the newest steps paid, the newest last.
        self._paid = np.zeros((num_envs, settings.n), np.bool_)
        self._sums: dict[str, list[float]] = {}
        self._totals: list[Floats] = []
        self.needs_frames = any(term.reads == "image" for term in terms)
        self.predicts = self.needs_frames

    def predict(self, frames: Frames) -> Flags:
        """Return ``[N]``: the first image reward sees success in a frame."""
        for term in self._terms:
            if term.reads == "image":
                return self._predicted(self._look(term.reward, frames))
        raise ValueError("no reward reads images")

    def __call__(self, step: Step, frames: Frames) -> tuple[Floats, Flags | None]:
        """Return the reward ``[N]`` of a step, and whether an image reward sees success ``[N]``."""
        total = np.zeros(len(self._prompts), np.float32)
        predicted: Flags | None = None
        for term in self._terms:
            if term.reads == "image":
                scores = self._look(term.reward, frames)
                seen = self._predicted(scores)
                predicted = seen if predicted is None else predicted
                value = self._when(scores, seen, step.done)
            elif term.reads == "step":
                batch = StepBatch(torch.from_numpy(step.reward), torch.from_numpy(step.success))
                value = self._numbers(term.reward.score(batch, self._prompts))
            else:
                value = self._moved(term.reward, step)
            self._sums.setdefault(f"reward/{term.reward.name}/mean", []).append(float(value.mean()))
            total += np.float32(term.weight) * value
        # A copy: stable-baselines3 adds the critic's value to what it is given, where an episode is cut.
        self._totals.append(total.copy())
        return total, predicted

    def take_means(self) -> dict[str, float]:
        """Return figures of the sum and the mean of each reward since the last call, by metric name."""
        found = {name: float(np.mean(values)) for name, values in self._sums.items()}
        if self._totals:
            total = np.stack(self._totals)
            spread = {"mean": total.mean(), "std": total.std(), "min": total.min(), "max": total.max()}
            found |= {f"reward/{name}": float(value) for name, value in spread.items()}
        self._sums, self._totals = {}, []
        return found

    def state(self) -> NDArray[np.bool_]:
        """Return what the next score depends on."""
        return self._paid.copy()

    def load_state(self, state: NDArray[np.bool_]) -> None:
        """Put it back."""
        self._paid[:] = state

    def _look(self, reward: Reward, frames: Frames) -> RewardScores:
        several = getattr(reward, "score_cameras", None)
        if several is not None:
            found: RewardScores = several(
                {name: torch.from_numpy(np.ascontiguousarray(value)).to(self._device) for name, value in frames.items()}
            )
            return found
        # [N, H, W, 3] -> [N, 1, H, W, 3]: each frame is a sequence of one.
        first = torch.from_numpy(np.ascontiguousarray(frames[self._cameras[0]]))
        pictures = first[:, None].to(self._device)
        lengths = torch.ones(len(pictures), dtype=torch.int64, device=self._device)
        with torch.no_grad():
            found = reward.score(FrameBatch(pictures, lengths), self._prompts)
        return found

    def _predicted(self, scores: RewardScores) -> Flags:
        seen = scores.parts.get(PREDICTED)
        flags: Flags = (scores.total if seen is None else seen).cpu().numpy() >= 0.5
        return flags

    def _when(self, scores: RewardScores, seen: Flags, done: Flags) -> Floats:
        value = self._numbers(scores)
        if self._settings.mode == "terminal":
            value = value * done
        elif self._settings.mode == "k-of-n":
            self._paid = np.concatenate([self._paid[:, 1:], seen[:, None]], axis=1)
            enough = self._paid.sum(axis=1) >= self._settings.k
            self._paid[done] = False
            value = value * enough
        return value.astype(np.float32)

    def _moved(self, reward: Reward, step: Step) -> Floats:
        """Score the motions of the episodes that end with this step; others get nothing."""
        value = np.zeros(len(self._prompts), np.float32)
        for copy in np.flatnonzero(step.done).tolist():
            motion = motion_of(step.infos[copy])
            scores = reward.score(motion, [Prompt(("fulfil the task",), (int(motion.lengths[0]),))])
            value[copy] = self._numbers(scores)[0]
        return value

    @staticmethod
    def _numbers(scores: RewardScores) -> Floats:
        value: Floats = scores.total.detach().float().cpu().numpy()
        if not np.isfinite(value).all():
            raise MotionkitError("a reward is not finite.", why="PPO cannot learn from it.", code=1)
        return value


def refuse_unreadable(terms: Sequence[tuple[str, str]], environment: Any) -> None:
    """Refuse rewards that cannot read what an environment shows.

    Args:
        terms: Name of each reward and what it reads.
        environment: An open environment.

    Raises:
        MotionkitError: An image reward, and no camera.
    """
    for name, reads in terms:
        if reads == "image" and not environment.cameras:
            raise MotionkitError(
                f"the reward {name} reads images, and the environment has no camera.",
                fix="--reward env, or an environment with a camera: motionkit plugins list environments",
            )
