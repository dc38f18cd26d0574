from __future__ import annotations

import math

import numpy as np
import pytest
import roma
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from motionkit.geometry import (
    angle_between,
    heading,
    matrix_from_6d,
    matrix_from_quaternion,
    matrix_from_rotvec,
    matrix_to_6d,
    matrix_to_quaternion,
    matrix_to_rotvec,
    nearest_rotation,
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


def turns() -> torch.Tensor:
    """Rotation vectors of all sizes: none, tiny, any, half a turn and nearly that, about axes and between them."""
    axes = torch.randn(40, 3, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    axes = torch.cat([torch.nn.functional.normalize(axes, dim=-1), torch.eye(3).double(), -torch.eye(3).double()])
    sizes = [0.0, 1e-9, 1e-6, 1e-4, 1e-3, 0.1, 1.0, 2.0, 3.0, math.pi - 1e-6, math.pi]
    return (torch.tensor(sizes, dtype=torch.float64)[:, None, None] * axes).flatten(0, 1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_rotation_vectors_are_those_of_roma(dtype: torch.dtype):
    vectors = turns().to(dtype)
    matrices = matrix_from_rotvec(vectors)
    atol = 1e-6 if dtype == torch.float32 else 1e-11
    torch.testing.assert_close(matrices, roma.rotvec_to_rotmat(vectors), atol=atol, rtol=0)
    # At half a turn either sign is right, and rounding decides.
    back, theirs = matrix_to_rotvec(matrices), roma.rotmat_to_rotvec(matrices)
    assert float(back.norm(dim=-1).max()) <= math.pi + 1e-6
    torch.testing.assert_close(matrix_from_rotvec(back), matrices, atol=2 * atol, rtol=0)
    below = vectors.norm(dim=-1) < 3.01
    torch.testing.assert_close(back[below], theirs[below], atol=2 * atol, rtol=0)


def test_gradients_of_rotation_vectors_are_those_of_differences():
    vectors = turns()
    vectors = vectors[vectors.norm(dim=-1) < 3.01].requires_grad_()
    weights = torch.randn(len(vectors), 3, 3, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    (matrix_from_rotvec(vectors) * weights).sum().backward()
    theirs = vectors.detach().clone().requires_grad_()
    (roma.rotvec_to_rotmat(theirs) * weights).sum().backward()
    # roma takes the first term alone below 1e-6.
    torch.testing.assert_close(vectors.grad, theirs.grad, atol=5e-6, rtol=0)
    assert torch.autograd.gradcheck(matrix_from_rotvec, (vectors.detach()[::7].requires_grad_(),))
    turn = matrix_from_rotvec(torch.tensor([0.2, -0.1, 0.3], dtype=torch.float64))

    def there_and_back(vector: torch.Tensor) -> torch.Tensor:
        return matrix_to_rotvec(matrix_from_rotvec(vector) @ turn)

    assert torch.autograd.gradcheck(there_and_back, (vectors.detach()[::7].requires_grad_(),))
    at_rest = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda vector: matrix_to_rotvec(matrix_from_rotvec(vector)), (at_rest,))


def test_quaternions_and_six_dimensions_are_those_of_roma():
    matrices = roma.rotvec_to_rotmat(turns())
    ours, theirs = matrix_to_quaternion(matrices), roma.quat_xyzw_to_wxyz(roma.rotmat_to_unitquat(matrices))
    assert float((ours * theirs).sum(-1).abs().min()) > 1 - 1e-12
    torch.testing.assert_close(matrix_from_quaternion(2 * theirs), matrices, atol=1e-12, rtol=0)
    six = torch.randn(30, 6, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    theirs = roma.special_gramschmidt(six.unflatten(-1, (2, 3)).mT)
    torch.testing.assert_close(matrix_from_6d(six), theirs, atol=1e-13, rtol=0)


def test_the_nearest_rotation_is_that_of_roma_and_never_a_mirror():
    matrices = torch.randn(60, 3, 3, generator=torch.Generator().manual_seed(6), dtype=torch.float64)
    nearest = nearest_rotation(matrices)
    torch.testing.assert_close(nearest, roma.special_procrustes(matrices), atol=1e-7, rtol=0)
    torch.testing.assert_close(torch.linalg.det(nearest), torch.ones(60).double())
    torch.testing.assert_close(nearest_rotation(3.0 * nearest), nearest)


def test_the_angle_between_rotations():
    first = random_rotations(1)[0]
    for angle in (0.0, 1e-7, 0.3, 2.0, math.pi):
        second = first @ matrix_from_rotvec(torch.tensor([angle, 0.0, 0.0], dtype=torch.float64))
        assert float(angle_between(first, second)) == pytest.approx(angle, abs=1e-9 + 1e-6 * (angle > 3))
