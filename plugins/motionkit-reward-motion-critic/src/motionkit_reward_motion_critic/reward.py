"""Reward `motion-critic`: the heavy half."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from motionkit.contracts.reward import RewardScores
from motionkit.errors import MotionkitError
from motionkit.motion import HUMANML, MotionBatch
from motionkit.text import Prompt
from motionkit_reward_motion_critic import CriticOptions
from motionkit_reward_motion_critic.body import FPS, WINDOW, critic_input, windows
from motionkit_reward_motion_critic.network import read_critic

_AT_ONCE = 16  # windows per pass of the network: bounds memory


class CriticReward:
    """MotionCritic's score, the mean over windows of 3 seconds; NaN for a motion that is not finite.

    Prompts are not read. There is no gradient: the rotations behind the joints are found by a solver.

    Raises:
        MotionkitError: No weights, or weights of something else; a dataset of another body or frame rate.
    """

    name = "motion-critic"
    features = HUMANML.name

    def __init__(self, options: CriticOptions, *, dataset: object = None, device: torch.device | str = "cpu") -> None:
        if options.weights is None:
            raise MotionkitError(
                "motion-critic has no weights.", why="the package brings none: their authors give them out.",
                fix="--reward.weights motioncritic_pre.pth",
            )  # fmt: skip
        if dataset is not None and getattr(dataset, "has_clips", True):
            _require(getattr(dataset, "skeleton", HUMANML).name, getattr(dataset, "fps", FPS))
        self.options = options
        self.network = read_critic(options.weights.expanduser(), options.heads).to(options.device or device)
        if self.network.longest < WINDOW:
            raise MotionkitError(
                f"{options.weights} reads {self.network.longest} frames at most; motions are scored by {WINDOW}."
            )
        if options.form == "sigmoid":
            self.bounds = (0.0, 1.0)

    @torch.no_grad()
    def score(self, motions: MotionBatch, prompts: Sequence[Prompt]) -> RewardScores:
        """Score N motions in one pass."""
        _require(motions.skeleton.name, motions.fps)
        parts: list[Tensor] = []
        owners: list[int] = []
        for row, length in enumerate(motions.lengths.tolist()):
            joints = motions.joints[row, :length]
            if length and bool(joints.isfinite().all()):
                found = windows(critic_input(joints))
                parts += found
                owners += [row] * len(found)
        total = torch.zeros(len(motions))
        for start in range(0, len(parts), _AT_ONCE):
            seen = torch.stack(parts[start : start + _AT_ONCE]).to(next(self.network.parameters()).device)
            total.index_add_(0, torch.tensor(owners[start : start + _AT_ONCE]), self.network(seen).float().cpu())
        counts = torch.bincount(torch.tensor(owners, dtype=torch.int64), minlength=len(motions))
        score = torch.where(counts > 0, total / counts.clamp_min(1), torch.nan).to(motions.device)
        capped = score.clamp(max=self.options.cap)
        return RewardScores(
            total=capped.sigmoid() if self.options.form == "sigmoid" else capped, parts={"critic": score}
        )


def _require(skeleton: str, fps: float) -> None:
    if skeleton != HUMANML.name or abs(fps - FPS) > 1e-6:
        raise MotionkitError(
            f"motion-critic reads the {HUMANML.joints} joints of HumanML3D at {FPS:g} fps, not {skeleton} at {fps:g}.",
            fix="convert the dataset: motionkit convert FOLDER OUT --to humanml",
        )
