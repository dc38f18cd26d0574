"""A soft gait: its formula on made-up motion, and what it calls the starter's movements."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.predictor.clips import motion_state
from motionkit.predictor.data import _motion
from motionkit.rigs import GAITS, leg_length, soft_gait
from motionkit.starter import OFFSETS, PARENTS, Order, perform

FPS, LEG = 30.0, 0.9


def going(speed: float, frames: int = 60) -> Tensor:
    steps = torch.zeros(frames, 3, dtype=torch.float64)
    steps[:, 1] = speed / FPS
    return steps


@pytest.mark.parametrize(
    ("speed", "gait"), [(0.0, "idle"), (0.1, "idle"), (0.6, "walk"), (1.4, "walk"), (2.9, "run"), (-1.4, "walk")]
)
def test_speed_decides_on_the_ground(speed: float, gait: str) -> None:
    found = soft_gait(going(speed), torch.ones(60, 2, dtype=torch.float64), FPS, LEG)
    assert found.sum(-1).allclose(torch.ones(60, dtype=torch.float64))
    assert found.argmax(-1).unique().tolist() == [GAITS.index(gait)]


def test_the_walk_becomes_a_run_at_half_the_froude_number_1() -> None:
    speed = math.sqrt(0.5 * 9.81 * LEG)
    found = soft_gait(going(speed), None, FPS, LEG)[30]
    assert found.tolist() == pytest.approx([0, 0.5, 0.5, 0], abs=1e-6)
    shorter = soft_gait(going(speed), None, FPS, LEG / 2)[30]
    assert shorter[2] > 0.98


def test_only_a_long_flight_is_a_jump() -> None:
    def flying(frames: int) -> Tensor:
        contacts = torch.ones(60, 2, dtype=torch.float64)
        contacts[20 : 20 + frames] = 0.0
        return soft_gait(going(0.0), contacts, FPS, LEG)[:, 3]

    long = flying(9)
    assert (long > 0.5).nonzero()[:, 0].tolist() == list(range(20, 29))
    assert flying(7).max() < 0.01
    one = torch.ones(60, 2, dtype=torch.float64)
    one[20:40, 0] = 0.0  # on one leg
    assert soft_gait(going(0.0), one, FPS, LEG)[:, 3].max() < 0.01
    assert soft_gait(going(0.0), None, FPS, LEG)[:, 3].max() == 0


def test_swaying_in_place_is_no_walk() -> None:
    steps = going(0.8)
    steps[:, 1] *= torch.where(torch.arange(60) % 15 < 7.5, 1.0, -1.0)
    assert soft_gait(steps, None, FPS, LEG)[15:45, 0].min() > 0.9


def test_short_clips_and_legs_without_length() -> None:
    assert soft_gait(going(1.0, 1), torch.zeros(1, 2, dtype=torch.float64), FPS, LEG).shape == (1, 4)
    assert soft_gait(going(1.0, 0), torch.zeros(0, 2, dtype=torch.float64), FPS, LEG).shape == (0, 4)
    with pytest.raises(MotionkitError, match="length of the legs"):
        soft_gait(going(1.0), None, FPS, 0.0)


@pytest.mark.parametrize(
    ("name", "gait", "share"),
    [
        ("wave/right", "idle", 0.9),
        ("walk/normal", "walk", 0.8),
        ("run/normal", "run", 0.8),
        ("jump/high", "jump", 0.15),
    ],
)
def test_the_starters_movements_are_what_their_names_say(name: str, gait: str, share: float) -> None:
    motion = _motion(perform([Order(name, 90, 3)], fps=FPS)[0])
    state, _ = motion_state(motion)
    leg = leg_length(motion.names, motion.parents, motion.offsets)
    found = soft_gait(state.steps, state.contacts, FPS, leg)
    assert float((found.argmax(-1) == GAITS.index(gait)).double().mean()) > share


def test_legs_are_measured_from_the_root_to_the_ankles() -> None:
    offsets = torch.tensor(OFFSETS)
    motion = _motion(perform([Order("wave/right", 2, 0)], fps=FPS)[0])
    chain = [motion.names.index(name) for name in motion.names if name in ("left_hip", "left_knee", "left_ankle")]
    assert len(chain) == 3
    assert leg_length(motion.names, PARENTS, offsets) == pytest.approx(
        float(offsets[chain].norm(dim=-1).sum()), rel=0.02
    )
    assert leg_length(("a", "b"), (-1, 0), torch.ones(2, 3)) == 0.0
