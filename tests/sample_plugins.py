"""A settings model and two plugins of its own, so that these tests need none of the real ones."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from motionkit.config import Chosen, Cli, Group, Settings, slot, slots
from motionkit.plugins import Component


class Optim(Group):
    """Optimiser."""

    learning_rate: Annotated[float, Cli("--learning-rate")] = Field(1e-4, gt=0, description="Step size.")
    weight_decay: Annotated[float, Cli()] = Field(0.0, ge=0, description="Decay.")
    betas: tuple[float, float] = Field((0.9, 0.99), description="Moments.")


class Sample(Settings):
    """Settings for tests."""

    num_steps: Annotated[int, Cli("--num-steps")] = Field(10, ge=1, description="Steps.")
    mode: Annotated[Literal["fast", "slow"], Cli("--mode")] = Field("fast", description="Speed [of all].")
    lora: Annotated[bool, Cli("--lora")] = Field(False, description="Adapters.")
    track: Annotated[tuple[str, ...], Cli("--track")] = Field((), description="Trackers.")
    note: str | None = Field(None, description="Anything.")
    optim: Optim = Optim(weight_decay=0.01)
    policy: Chosen = slot("policies", "small")
    reward: tuple[Chosen, ...] = slots("rewards", ("near",))


class Near(Group):
    """Options of reward near."""

    alpha: float = Field(0.5, ge=0, description="Pull.")
    scale: float = Field(1.0, description="Scale.")


class Far(Group):
    """Options of reward far."""

    alpha: float = Field(0.1, ge=0, description="Push.")
    reach: int = Field(3, description="Reach.")
    causal: bool = Field(True, description="Causal.")


class Small(Group):
    """Options of policy small."""

    checkpoint: str = Field("starter", description="Weights.")


near = Component(summary="Near.", options=Near, factory="builtins:dict")
far = Component(summary="Far.", options=Far, factory="builtins:dict")
small = Component(summary="Small.", options=Small, factory="builtins:dict")
large = Component(summary="Large.", options=Near, factory="builtins:dict")
