"""Rewards of episodes as plugins: the success classifier's, and the environment's own. Light half, no torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from motionkit.config import Cli, Group, split_commas
from motionkit.plugins import Component


class EnvOptions(Group):
    """Options of `env`: none."""


environment_reward = Component(
    "The environment's own reward, step by step (ppo)", EnvOptions, "motionkit_success.reward_frames:Env", reads="step"
)


class SuccessOptions(Group):
    """Options of `success-classifier`."""

    checkpoint: str = Field(
        "",
        description="Run of reward-train, a checkpoint, the guide's checkpoint.pt, or an id of the Hugging Face hub; "
        "default: the newest run.",
    )
    output: Literal["binary", "continuous"] = Field(
        "binary", description="binary: 1 from the classifier's threshold on, else 0; continuous: the probability."
    )
    mode: Literal["last", "any", "k-of-n"] = Field(
        "last", description="Which frames of an episode count: the last, the best, or the k-th best of the last n."
    )
    threshold: float = Field(
        0.0, ge=0, le=1, description="Probability from which it is a success; 0: the classifier's."
    )
    k: int = Field(3, ge=1, le=10_000, description="Frames that must agree, with k-of-n.")
    n: int = Field(5, ge=1, le=10_000, description="Last frames that are looked at, with k-of-n.")
    cameras: Annotated[tuple[str, ...], BeforeValidator(split_commas), Cli(hidden=True)] = Field(
        (), description="Cameras that the classifier must have; none: whichever it has."
    )
    image_size: Annotated[tuple[int, ...], Cli(hidden=True)] = Field(
        (), max_length=3, description="Size of images that it must be made for, height and width; (): whichever."
    )
    hidden: Annotated[int, Cli(hidden=True)] = Field(
        0, ge=0, description="Width that a resnet10 must have; 0: whichever it has."
    )
    blocks: Annotated[int, Cli(hidden=True)] = Field(
        0, ge=0, description="Spatial sums that a resnet10 must have; 0: whichever it has."
    )

    def idle(self) -> Mapping[str, str]:
        """Return the options that have no effect; see `Group.idle`."""
        return {} if self.mode == "k-of-n" else dict.fromkeys(("k", "n"), "mode is not k-of-n")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.mode == "k-of-n" and self.k > self.n:
            raise ValueError(f"k {self.k} is more than n {self.n}: so many frames never agree")
        return self


success_classifier = Component(
    "What a trained success classifier says of an episode's frames",
    SuccessOptions,
    "motionkit_success.reward_frames:SuccessReward",
    reads="image",
)
