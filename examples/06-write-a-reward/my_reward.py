"""A reward in one file: how well the speed over ground fits a wanted one, segment by segment."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from pydantic import Field

from motionkit.config import Group
from motionkit.contracts.reward import RewardScores
from motionkit.motion import MotionBatch
from motionkit.plugins import Component
from motionkit.text import Prompt


class Options(Group):
    """Each field becomes a flag: --reward.speed, --reward.width."""

    speed: float = Field(1.2, ge=0, description="Wanted mean speed of the pelvis over ground in m/s.")
    width: float = Field(0.5, gt=0, description="Error in m/s at which the score has fallen to 1/e.")


class SpeedReward:
    """``exp(-|v - speed| / width)`` per segment, v its mean horizontal pelvis speed; a motion's total is the mean."""

    name = "speed"

    def __init__(self, options: Options, *, dataset: object = None, device: torch.device | str = "cpu") -> None:
        self.options = options

    def score(self, motions: MotionBatch, prompts: Sequence[Prompt]) -> RewardScores:
        """Score N motions; frames past a motion's length never count."""
        pelvis = motions.joints[:, :, 0, [0, 2]]  # [N, T, 2] metres on the ground
        speed = pelvis.diff(dim=1).norm(dim=-1) * motions.fps  # [N, T-1]
        mine = torch.zeros(len(motions), max(len(prompt.segments) for prompt in prompts), device=speed.device)
        counts = torch.tensor([len(prompt.segments) for prompt in prompts], device=speed.device)
        for i, prompt in enumerate(prompts):
            for k, (start, end) in enumerate(prompt.bounds):
                error = (speed[i, start : end - 1].mean() - self.options.speed).abs()
                mine[i, k] = torch.exp(-error / self.options.width)
        return RewardScores(total=mine.sum(dim=1) / counts, segments=mine)


component = Component(
    summary="Speed over ground against a wanted one",
    options=Options,
    factory=f"{__name__}:SpeedReward",
    gradient=True,  # made of torch operations on the joints, so it can be differentiated
)
