"""Reward `motion-critic`: the light half. It imports no torch, so that listings and help stay quick."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from motionkit.config import Group, Place
from motionkit.plugins import Component


class CriticOptions(Group):
    """Options of reward `motion-critic`; each becomes a flag, such as ``--reward.weights``."""

    weights: Annotated[Path | None, Place()] = Field(
        None, description="MotionCritic's weights, such as motioncritic_pre.pth (required; the package brings none)."
    )
    heads: int = Field(8, ge=1, le=1024, description="Attention heads, which the file does not tell.")
    form: Literal["score", "sigmoid"] = Field(
        "score", description="score: as the network gives it, up to cap; sigmoid: of that, from 0 to 1."
    )
    cap: float = Field(12.0, gt=0, description="Scores above it count as it, so that no motion wins by an outlier.")
    device: str = Field("", description="Device of the network, such as cuda:1; empty: that of the policy.")


component = Component(
    summary="What people prefer, as MotionCritic learned it: quality of a motion, without its text.",
    options=CriticOptions,
    factory="motionkit_reward_motion_critic.reward:CriticReward",
)

__all__ = ["CriticOptions", "component"]
