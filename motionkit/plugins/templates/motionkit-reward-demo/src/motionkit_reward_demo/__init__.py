"""Reward 'demo': the light half. It imports no torch, so that listings and help stay quick."""

from __future__ import annotations

from motionkit.config import Group
from motionkit.plugins import Component
from pydantic import Field


class Options(Group):
    """Options of reward 'demo'; each becomes a flag, such as --reward.scale."""

    scale: float = Field(1.0, gt=0, description="Speed in m/s at which the score is 1/e.")


component = Component(
    summary="What reward 'demo' scores, in one line",
    options=Options,
    factory="motionkit_reward_demo.reward:DemoReward",
)
