"""States relative to the heading."""

from __future__ import annotations

import math

import pytest
import roma
import torch

from motionkit.geometry import rotate_yaw
from motionkit.motion.prediction import MotionState, follow, path_points, state_positions


def random_steps(frames: int) -> torch.Tensor:
    return torch.randn(frames, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def test_steps_add_up_one_by_one() -> None:
    steps = random_steps(12)
    place, yaw = torch.zeros(3, dtype=torch.float64), torch.zeros((), dtype=torch.float64)
    places, yaws = follow(steps)
    for number, (x, z, turn) in enumerate(steps):
        place = place + rotate_yaw(torch.stack([x, torch.zeros_like(x), z]), yaw)
        yaw = yaw + turn
        torch.testing.assert_close(places[number], place[[0, 2]])
        torch.testing.assert_close(yaws[number], yaw)


def test_points_of_a_path_are_seen_from_its_start() -> None:
    steps = random_steps(12)
    points = path_points(steps, 5).view(2, 4)
    places, yaws = follow(steps)
    for row, frame in zip(points, (4, 9), strict=True):
        torch.testing.assert_close(row[:2], places[frame])
        assert math.remainder(math.atan2(float(row[2]), float(row[3])) - float(yaws[frame]), 2 * math.pi) == (
            pytest.approx(0.0, abs=1e-9)
        )


def test_positions_are_those_of_a_chain_walked_along() -> None:
    rotations = roma.random_rotmat(2 * 3, dtype=torch.float64).view(2, 3, 3, 3)
    steps = torch.tensor([[0.0, 1.0, math.pi / 2], [0.0, 2.0, 0.0]], dtype=torch.float64)
    state = MotionState(rotations, steps, torch.tensor([0.9, 1.0], dtype=torch.float64), torch.zeros(2, 2))
    offsets = torch.tensor([[9.0, 9, 9], [0, 0.5, 0], [0, 0.25, 0]], dtype=torch.float64)
    turn = roma.rotvec_to_rotmat(torch.tensor([0.0, math.pi / 2, 0], dtype=torch.float64))
    root = [torch.tensor([0.0, 0.9, 1.0]).double(), torch.tensor([2.0, 1.0, 1.0]).double()]
    found = state_positions(state, offsets, (-1, 0, 1))
    for frame in (0, 1):
        hips = turn @ rotations[frame, 0]
        middle = root[frame] + hips @ offsets[1]
        end = middle + hips @ rotations[frame, 1] @ offsets[2]
        torch.testing.assert_close(found[frame], torch.stack([root[frame], middle, end]))
    posed = state_positions(state, offsets, (-1, 0, 1), pose_only=True)
    torch.testing.assert_close(posed[0, 2], offsets[1] + rotations[0, 1] @ offsets[2])
