"""Policy 'demo': the light half. It imports no torch, so that listings and help stay quick."""

from __future__ import annotations

from pathlib import Path

from motionkit.config import Group
from motionkit.plugins import Component
from pydantic import Field


class Options(Group):
    """Options of policy 'demo'; each becomes a flag, such as --policy.checkpoint."""

    checkpoint: Path | None = Field(None, description="File of weights (.safetensors); default: random weights.")
    hidden: int = Field(64, ge=1, description="Width of the network.")


component = Component(
    summary="What policy 'demo' is, in one line",
    options=Options,
    factory="motionkit_policy_demo.policy:DemoPolicy",
)
