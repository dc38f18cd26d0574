from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from motionkit.geometry import accumulate_rotations, bones_from_positions, positions_from_bones, rotations_above
from motionkit.motion import HUMANML

from .test_rotations import random_rotations

SHUFFLED = (3, 0, 0, -1, 2, 4)
"""A tree whose root is not first and whose children may come before their parents."""


@pytest.mark.parametrize("parents", [HUMANML.parents, SHUFFLED, (-1,)])
def test_accumulated_rotations_equal_a_walk_to_the_root(parents):
    local = random_rotations(5 * len(parents)).reshape(5, len(parents), 3, 3)
    made = accumulate_rotations(local, parents)
    for joint in range(len(parents)):
        expected, above = local[:, joint], parents[joint]
        while above >= 0:
            expected, above = local[:, above] @ expected, parents[above]
        torch.testing.assert_close(made[:, joint], expected)


def test_a_tree_that_was_met_where_gradients_are_off_is_learned_on_afterwards():
    parents = (-1, 0, 1, 1, 2, 0)  # of no other test
    local = random_rotations(len(parents))
    with torch.inference_mode():
        accumulate_rotations(local, parents), rotations_above(local, parents)
    weights = local.clone().requires_grad_()
    (accumulate_rotations(weights, parents).sum() + rotations_above(weights, parents).sum()).backward()
    assert bool((weights.grad != 0).any(dim=(-2, -1)).all())


def test_positions_are_sums_of_bones():
    bones = torch.randn(4, 6, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    positions = positions_from_bones(bones, SHUFFLED)
    np.testing.assert_allclose(positions[:, 5], bones[:, 5] + bones[:, 4] + bones[:, 2] + bones[:, 0] + bones[:, 3])
    assert torch.equal(positions[:, 3], bones[:, 3])


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 12), st.randoms(use_true_random=False))
def test_bones_and_positions_are_inverse(joints, rng):
    parents = tuple(-1 if joint == 0 else rng.randrange(joint) for joint in range(joints))
    positions = torch.tensor([[rng.uniform(-2, 2) for _ in range(3)] for _ in range(joints)], dtype=torch.float64)
    back = positions_from_bones(bones_from_positions(positions, parents), parents)
    np.testing.assert_allclose(back, positions, atol=1e-12)


@pytest.mark.parametrize("parents", [HUMANML.parents, (-1, 2, 0, 1, 2), (-1, 0)])
def test_rotations_above_are_those_of_the_parents(parents):
    local = random_rotations(5 * len(parents)).reshape(5, len(parents), 3, 3)
    world = accumulate_rotations(local, parents)
    torch.testing.assert_close(rotations_above(local, parents), world[:, list(parents[1:])])
