"""The reward against a value worked out by hand, and against the contract of every reward."""

from __future__ import annotations

import math

import pytest
import torch

from motionkit.motion import HUMANML, MotionBatch, feature_width
from motionkit.testing import check_reward
from motionkit.text import Prompt
from motionkit_reward_energy import EnergyOptions
from motionkit_reward_energy.reward import EnergyReward


def gliding(speed: float, frames: int = 12, fps: float = 20.0) -> MotionBatch:
    """A stiff body whose root glides along +Z at `speed` metres per second."""
    features = torch.zeros(1, frames, feature_width(HUMANML))
    features[..., 2] = speed / fps  # root velocity in z, metres per frame
    return MotionBatch(features, torch.tensor([frames]), skeleton=HUMANML, fps=fps)


def test_contract() -> None:
    check_reward("energy")


@pytest.mark.parametrize("speed", [0.0, 0.5, 2.0])
def test_a_body_that_glides_spends_its_speed_squared(speed: float) -> None:
    reward = EnergyReward(EnergyOptions(budget=2.0))
    total = reward.score(gliding(speed), [Prompt(("glide",), (12,))]).total
    assert total.item() == pytest.approx(math.exp(-(speed**2) / 2.0), rel=1e-4)
