"""Reward `energy`: the heavy half."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from motionkit.contracts.reward import RewardScores
from motionkit.motion import MotionBatch
from motionkit.text import Prompt
from motionkit_reward_energy import EnergyOptions


class EnergyReward:
    """``exp(-E / budget)`` with E the mean squared speed of all joints over a motion's valid frames."""

    name = "energy"

    def __init__(self, options: EnergyOptions, *, dataset: object = None, device: torch.device | str = "cpu") -> None:
        self.options = options

    def score(self, motions: MotionBatch, prompts: Sequence[Prompt]) -> RewardScores:
        """Score N motions in one pass; a step counts when both of its frames are valid."""
        steps = motions.joints.diff(dim=1) * motions.fps
        squared = steps.square().sum(dim=-1).mean(dim=-1)  # [N, T-1], mean over joints
        valid = motions.mask[:, 1:]
        spent = torch.where(valid, squared, 0.0).sum(dim=1) / valid.sum(dim=1).clamp(min=1)
        return RewardScores(total=torch.exp(-spent / self.options.budget), parts={"energy": spent})
