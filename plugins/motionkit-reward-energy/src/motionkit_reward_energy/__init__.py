"""Reward `energy`: the light half. It imports no torch, so that listings and help stay quick."""

from __future__ import annotations

from pydantic import Field

from motionkit.config import Group
from motionkit.plugins import Component


class EnergyOptions(Group):
    """Options of reward `energy`; each becomes a flag, such as ``--reward.budget``."""

    budget: float = Field(1.0, gt=0, description="Mean squared joint speed in m²/s² at which the score is 1/e.")


component = Component(
    summary="Prefer motions that spend little kinetic energy.",
    options=EnergyOptions,
    factory="motionkit_reward_energy.reward:EnergyReward",
)

__all__ = ["EnergyOptions", "component"]
