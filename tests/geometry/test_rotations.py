from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from motionkit.geometry import (
    heading,
    matrix_from_6d,
    matrix_from_quaternion,
    matrix_to_6d,
    matrix_to_quaternion,
    rotate_yaw,
    rotation_between,
    yaw_matrix,
)

coordinate = st.floats(-5, 5, allow_subnormal=False)
vector = st.tuples(coordinate, coordinate, coordinate).filter(lambda v: math.hypot(*v) > 1e-3)


def random_rotations(count: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    matrix, _ = torch.linalg.qr(torch.randn(count, 3, 3, generator=generator, dtype=torch.float64))
    return matrix * torch.linalg.det(matrix)[:, None, None]


def test_six_dimensions_are_the_first_two_columns():
    matrix = random_rotations(20)
    six = matrix_to_6d(matrix)
    assert torch.equal(six[:, :3], matrix[:, :, 0])
    assert torch.equal(six[:, 3:], matrix[:, :, 1])
    torch.testing.assert_close(matrix_from_6d(six), matrix)


def test_six_dimensions_need_not_be_orthonormal():
    six = torch.randn(50, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    matrix = matrix_from_6d(six)
    torch.testing.assert_close(matrix @ matrix.transpose(-1, -2), torch.eye(3).double().expand(50, 3, 3))
    torch.testing.assert_close(torch.linalg.det(matrix), torch.ones(50).double())
    first = six[:, :3] / six[:, :3].norm(dim=-1, keepdim=True)
    torch.testing.assert_close(matrix[:, :, 0], first)


def test_quaternions_are_w_first():
    half = 0.35
    quaternion = torch.tensor([math.cos(half), 0.0, math.sin(half), 0.0], dtype=torch.float64)
    torch.testing.assert_close(matrix_from_quaternion(3.0 * quaternion), yaw_matrix(torch.tensor(0.7).double()))
    matrix = random_rotations(30, 2)
    torch.testing.assert_close(matrix_from_quaternion(matrix_to_quaternion(matrix)), matrix)


@settings(max_examples=100, deadline=None)
@given(vector, vector)
def test_rotation_between_two_directions(u, v):
    source, target = (torch.tensor(x, dtype=torch.float64) for x in (u, v))
    matrix = rotation_between(source, target)
    np.testing.assert_allclose(matrix @ matrix.T, np.eye(3), atol=1e-9)
    turned = matrix @ source / source.norm()
    np.testing.assert_allclose(turned, target / target.norm(), atol=1e-6)
    angle = math.acos(max(-1.0, min(1.0, float(source @ target / source.norm() / target.norm()))))
    trace = math.acos(max(-1.0, min(1.0, (float(matrix.trace()) - 1) / 2)))
    assert trace == pytest.approx(angle, abs=1e-5), "it is the smallest such rotation"


@pytest.mark.parametrize("axis", range(3))
def test_opposite_and_missing_directions(axis):
    source = torch.zeros(3, dtype=torch.float64)
    source[axis] = 2.0
    matrix = rotation_between(source, -source)
    np.testing.assert_allclose(matrix @ source, -source, atol=1e-12)
    assert torch.linalg.det(matrix) == pytest.approx(1.0)
    assert torch.equal(rotation_between(source, torch.zeros(3).double()), torch.eye(3).double())


@settings(max_examples=50, deadline=None)
@given(vector, st.floats(-7, 7))
def test_yaw(v, angle):
    vectors, angles = torch.tensor(v, dtype=torch.float64), torch.tensor(angle, dtype=torch.float64)
    np.testing.assert_allclose(rotate_yaw(vectors, angles), yaw_matrix(angles) @ vectors, atol=1e-9)
    forward = rotate_yaw(torch.tensor([0.0, 0.0, 1.0]).double(), angles)
    assert math.cos(float(heading(forward)) - angle) == pytest.approx(1.0)


def test_z_turns_towards_x():
    turned = rotate_yaw(torch.tensor([0.0, 2.0, 1.0]), torch.tensor(math.pi / 2))
    torch.testing.assert_close(turned, torch.tensor([1.0, 2.0, 0.0]), atol=1e-6, rtol=0)
