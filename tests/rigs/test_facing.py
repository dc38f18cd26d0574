"""One answer to which way a body faces, for every body and everything that asks."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from motionkit.clips.profile.statistics import profile_sources
from motionkit.formats.mpl.npz import mpl_arrays
from motionkit.geometry import unwrap
from motionkit.motion import HUMANML, KIT, Clip, JointMotion, Skeleton
from motionkit.rigs import find_feet, solve
from motionkit.rigs.bodymap import find_roles, front_of
from motionkit.rigs.rest import body_to_kit

from ..clips.profile.sets import Source
from ..made.persons import person


def walk(skeleton: Skeleton, turn: float = 0.0) -> JointMotion:
    """Two seconds of a walk ahead, on the joints of either format."""
    joints = person(40, 20.0, 1.0, turn).positions()
    return JointMotion(
        skeleton.joint_names, skeleton.parents, body_to_kit(joints) if skeleton is KIT else joints, skeleton.fps
    )


@pytest.mark.parametrize("skeleton", [HUMANML, KIT], ids=["humanml", "kit"])
@pytest.mark.parametrize("turn", [0.0, 2.0, -2.0])
def test_a_body_faces_where_it_walks(skeleton: Skeleton, turn: float) -> None:
    motion = walk(skeleton, turn)
    front = front_of(motion.positions(), find_roles(motion.names, motion.parents))
    assert front is not None
    wanted = turn * torch.arange(40, dtype=torch.float64) / 20.0
    assert float((unwrap(front[0]) - wanted).abs().max()) < 0.05
    assert bool(front[1].all())


@pytest.mark.parametrize("skeleton", [HUMANML, KIT], ids=["humanml", "kit"])
def test_a_profile_says_that_it_walks_ahead(skeleton: Skeleton) -> None:
    bins = profile_sources([Source("a", [Clip(walk(skeleton))])]).travel_bins
    ahead = len(bins) // 2
    assert float(bins[ahead]) == float(sum(bins)), "ahead is the middle bin"


@pytest.mark.parametrize("skeleton", [HUMANML, KIT], ids=["humanml", "kit"])
def test_the_predictor_sees_it_walk_ahead_on_feet(skeleton: Skeleton) -> None:
    motion = solve(walk(skeleton)).motion
    arrays = mpl_arrays(Clip(motion), "")
    ahead = np.asarray(arrays["traj_dir"]).reshape(len(arrays["heading"]), -1, 2)[20, 2]
    assert ahead[0] > 0.99
    assert find_feet(motion.names, motion.parents) is not None
    assert '"soft_contacts": "synthesised"' in str(arrays["meta_json"])


def test_a_body_on_its_side_tells_nothing() -> None:
    roles = {"left hip": 0, "right hip": 1}
    lying = torch.tensor([[[0.0, 0.3, 0.0], [0.0, 0.0, 0.0]], [[0.3, 0.0, 0.0], [0.0, 0.0, 0.0]]])
    front = front_of(lying, roles)
    assert front is not None
    assert front[1].tolist() == [False, True]
    assert float(front[0][1]) == pytest.approx(0.0)
    assert front_of(lying, {"left hip": 0}) is None


def test_unwrapping_keeps_the_first_angle() -> None:
    angles = torch.linspace(3.0, 30.0, 200, dtype=torch.float64)
    wrapped = torch.atan2(angles.sin(), angles.cos())
    np.testing.assert_allclose(unwrap(wrapped), np.unwrap(wrapped.numpy()), atol=1e-9)
    assert math.isclose(float(unwrap(wrapped)[0]), float(wrapped[0]))
