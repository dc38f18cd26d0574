"""A new reward."""

from motionkit.plugins.scaffold import package

FILES = package(
    "reward",
    usage="motionkit grpo --reward tmr-dense --reward $name=0.1 --reward.$name.scale 2",
    light='''\
"""Reward '$name': the light half. It imports no torch, so that listings and help stay quick."""

from __future__ import annotations

from motionkit.config import Group
from motionkit.plugins import Component
from pydantic import Field


class Options(Group):
    """Options of reward '$name'; each becomes a flag, such as --reward.scale."""

    scale: float = Field(1.0, gt=0, description="Speed in m/s at which the score is 1/e.")


component = Component(
    summary="What reward '$name' scores, in one line",
    options=Options,
    factory="$module.reward:$cls",
)
''',
    code='''\
"""Reward '$name': the heavy half."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from motionkit.contracts.reward import RewardScores
from motionkit.motion import MotionBatch
from motionkit.text import Prompt

from $module import Options


class $cls:
    """An example to replace: exp(-v / scale), v the mean speed of the root over ground in m/s."""

    name = "$name"

    def __init__(self, options: Options, *, dataset: object = None, device: torch.device | str = "cpu") -> None:
        self.options = options

    def score(self, motions: MotionBatch, prompts: Sequence[Prompt]) -> RewardScores:
        """Score N motions in one pass; frames past the end of a motion never count."""
        root = motions.joints[..., 0, :]  # [N, T, 3] in metres, Y up
        speed = root.diff(dim=1)[..., [0, 2]].norm(dim=-1) * motions.fps  # [N, T - 1]
        valid = motions.mask[:, 1:]
        mean = torch.where(valid, speed, 0.0).sum(dim=1) / valid.sum(dim=1).clamp(min=1)
        return RewardScores(total=torch.exp(-mean / self.options.scale))
''',
    test='''\
"""The contract that every reward keeps."""

from motionkit.testing import check_reward


def test_contract() -> None:
    check_reward("$name")
''',
)
