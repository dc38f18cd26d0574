"""The environment's own reward."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from motionkit.rewards.base import RewardScores, StepBatch
from motionkit.rewards.env import EnvOptions
from motionkit.text import Prompt


class Env:
    """Returns what the environment gave.

    Args:
        options: None.
        dataset: Not used.
        device: Where scores are.
    """

    name = "env"

    def __init__(self, options: EnvOptions, *, dataset: object = None, device: torch.device | str = "cpu") -> None:
        self.options = options

    def score(self, steps: StepBatch, prompts: Sequence[Prompt]) -> RewardScores:
        """Return the reward of each step as its score."""
        return RewardScores(total=steps.rewards.float())
