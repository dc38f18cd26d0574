"""There and back: joints to features to joints, features to joints to features.

What the format cannot give back: the frame after the last row is stored as velocities only (`with_frame_after` takes it
from there), and where a generated or averaged motion contradicts itself there is nothing to come back to.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from motionkit.geometry import bones_from_positions
from motionkit.motion import HUMANML, KIT, feature_layout, features_to_joints, joints_to_features, with_frame_after
from motionkit.motion.features.extract import canonicalise, retarget
from motionkit.rigs import kit_bones
from motionkit.rigs.rest import body_to_kit
from motionkit.starter import generate

from ...made.bodies import walker

ACTIONS = ("walk", "turn", "jump", "kick")


def bodies(skeleton) -> list[torch.Tensor]:
    """Starter clips and walkers, those with headings past half a turn among them."""
    clips = [torch.from_numpy(generate(action, frames=70).joints) for action in ACTIONS]
    if skeleton is KIT:
        clips = [body_to_kit(clip) for clip in clips]
    return clips + [walker(70, seed=1, turn=turn, skeleton=skeleton) for turn in (0.0, 0.06, -0.11)]


def bones_of(skeleton) -> torch.Tensor | None:
    return kit_bones() if skeleton is KIT else None


@pytest.mark.parametrize("skeleton", [HUMANML, KIT], ids=["humanml", "kit"])
def test_joints_features_joints(skeleton):
    """Within 1e-5 m, in the single precision that files have."""
    for joints in bodies(skeleton):
        placed = canonicalise(retarget(joints, skeleton, bones_of(skeleton)), skeleton)
        features = joints_to_features(joints, skeleton, bones=bones_of(skeleton)).float()
        assert float((features_to_joints(features, skeleton) - placed[:-1]).abs().max()) < 1e-5
        assert float((with_frame_after(features, skeleton) - placed).abs().max()) < 1e-5


@pytest.mark.parametrize("skeleton", [HUMANML, KIT], ids=["humanml", "kit"])
def test_features_joints_features(skeleton):
    """Within 1e-5 without alignment and fitting (lengths in metres), 0.015 with them, in single precision."""
    layout = feature_layout(skeleton)
    for joints in bodies(skeleton):
        features = joints_to_features(joints, skeleton, bones=bones_of(skeleton))
        for stored, off, aligned in ((features, 1e-9, 1e-9), (features.float(), 1e-5, 0.015)):
            back = with_frame_after(stored.double(), skeleton)
            exact = joints_to_features(back, skeleton, target=False, align=False)
            again = joints_to_features(back, skeleton, bones=bones_of(skeleton))
            steady = _steady(back, skeleton)[:-1]
            assert float(steady.double().mean()) > 0.3
            for made, tolerance in ((exact, off), (again, aligned)):
                error = (made - stored).abs()
                for block in (layout.root_velocity, layout.root_height, layout.positions, layout.velocities):
                    assert float(error[:, block].max()) < tolerance / skeleton.unit
                assert float(error[:, layout.yaw_rate].max()) < tolerance
                turns = error[:, layout.rotations].reshape(len(error), -1, 6)
                assert float(turns[steady].max()) < tolerance
                assert torch.equal(made[:, layout.contacts], stored[:, layout.contacts].to(made))


def _steady(joints: torch.Tensor, skeleton) -> torch.Tensor:
    """Whether the rotation of each joint but the root is well defined, ``[T, J - 1]``.

    Where a bone points nearly against its direction at rest (KIT's hips and shoulders always do), the smallest
    rotation between the two hangs on the last digits of its ends, and so does the one that counts from it.
    """
    bones = torch.nn.functional.normalize(bones_from_positions(joints, skeleton.parents), dim=-1)
    fine = (bones * bones.new_tensor(skeleton.raw_offsets)).sum(-1) > -0.9
    fine[:, 0] = True
    return (fine & fine[:, list(skeleton.rotation_parents)])[:, 1:]


def test_a_public_clip(shared: Path):
    data = np.load(shared / "fixtures/mdm/features_012314.npz")
    features = torch.from_numpy(data["joint_vecs"])
    joints = features_to_joints(features, HUMANML)
    np.testing.assert_allclose(joints, data["new_joints"], atol=1e-5)
    back = with_frame_after(features, HUMANML)
    exact = joints_to_features(back, HUMANML, target=False, align=False)
    assert float((exact - features).abs().max()) < 1e-5
    assert float((joints_to_features(back, HUMANML) - features).abs().max()) < 1e-5
    # The original has the stored frames only; its headings change because smoothing ends a frame earlier.
    aligned = joints_to_features(joints, HUMANML)
    assert 1e-3 < float((aligned - features[:-1]).abs().max()) < 0.015


def test_the_frame_after_is_the_one_that_was_there():
    for skeleton in (HUMANML, KIT):
        batch = torch.stack(
            [canonicalise(walker(30, seed=seed, turn=0.05, skeleton=skeleton), skeleton) for seed in (0, 1)]
        )
        features = joints_to_features(batch, skeleton, target=False)
        np.testing.assert_allclose(with_frame_after(features, skeleton)[:, -1], batch[:, -1], atol=1e-12)
