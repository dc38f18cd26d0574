"""Environment 'demo': the light half. It imports no gymnasium, so that listings and help stay quick."""

from __future__ import annotations

from pydantic import Field

from motionkit.config import Group
from motionkit.plugins import Component


class Options(Group):
    """Options of environment 'demo'; each becomes a flag, such as --env.max-steps."""

    max_steps: int = Field(20, ge=1, description="Steps of an episode.")
    size: int = Field(32, ge=16, description="Height and width of the picture in pixels.")


component = Component(
    summary="What one does in environment 'demo', in one line",
    options=Options,
    factory="motionkit_environment_demo.environment:DemoEnvironment",
)
