"""Reward 'demo': the heavy half."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from motionkit.contracts.reward import RewardScores
from motionkit.motion import MotionBatch
from motionkit.text import Prompt

from motionkit_reward_demo import Options


class DemoReward:
    """An example to replace: exp(-v / scale), v the mean speed of the root over ground in m/s."""

    name = "demo"

    def __init__(self, options: Options, *, dataset: object = None, device: torch.device | str = "cpu") -> None:
        self.options = options

    def score(self, motions: MotionBatch, prompts: Sequence[Prompt]) -> RewardScores:
        """Score N motions in one pass; frames past the end of a motion never count."""
        root = motions.joints[..., 0, :]  # [N, T, 3] in metres, Y up
        speed = root.diff(dim=1)[..., [0, 2]].norm(dim=-1) * motions.fps  # [N, T - 1]
        valid = motions.mask[:, 1:]
        mean = torch.where(valid, speed, 0.0).sum(dim=1) / valid.sum(dim=1).clamp(min=1)
        return RewardScores(total=torch.exp(-mean / self.options.scale))
