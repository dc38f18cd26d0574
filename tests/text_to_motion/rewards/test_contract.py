"""Every reward of this folder keeps the contract that third parties are held to."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from motionkit.testing import check_component, check_reward
from motionkit.text_to_motion.rewards.components import CosineOptions, DenseOptions, MatchingOptions, PhysicsOptions
from motionkit.text_to_motion.rewards.joint_space import TmrCosine, TmrDense, TmrMatching
from motionkit.text_to_motion.rewards.motion_terms import Physics
from motionkit.text_to_motion.tmr.model import ActorSizes, new_tmr

from ...made.texts import HashEncoder


@pytest.mark.parametrize("name", ["tmr-cosine", "tmr-matching", "tmr-dense", "physics", "movement"])
def test_light_half(name):
    check_component("rewards", name)


@pytest.mark.parametrize("reward", [TmrCosine, TmrMatching, TmrDense])
def test_tmr_rewards(reward):
    options = {TmrCosine: CosineOptions(), TmrMatching: MatchingOptions(), TmrDense: DenseOptions()}[reward]
    tmr = new_tmr(ActorSizes(263, 16, 32, 1, 2), torch.zeros(263), torch.ones(263), HashEncoder())
    check_reward(reward(options, space=tmr))


@pytest.mark.parametrize("shape", ["reward", "guide"])
def test_physics(shape):
    check_reward(Physics(PhysicsOptions(shape=shape, r_s=0.2, r_j=60.0)))


def test_light_halves_need_no_torch():
    modules = ("motionkit.text_to_motion.rewards.components", "motionkit.text_to_motion.rewards.mdm")
    code = f"import sys, {', '.join(modules)}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
