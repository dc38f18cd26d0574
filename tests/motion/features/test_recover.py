from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from motionkit.errors import MotionkitError
from motionkit.geometry import accumulate_rotations, matrix_from_6d, positions_from_bones, yaw_matrix
from motionkit.motion import (
    HUMANML,
    KIT,
    MotionBatch,
    Skeleton,
    features_to_joints,
    joints_to_features,
    root_trajectory,
)
from motionkit.motion.features.extract import canonicalise
from motionkit.motion.features.recover import feature_layout

from ...made.bodies import walker


def joints_by_rotations(features: torch.Tensor, skeleton: Skeleton, offsets: torch.Tensor) -> torch.Tensor:
    """Joints ``[T, J, 3]`` by stored rotations, with bones ``[J, 3]`` in metres (HumanML3D's ``recover_from_rot``)."""
    angle, root = root_trajectory(features, skeleton)
    six = features[:, feature_layout(skeleton).rotations].reshape(len(features), -1, 6)
    local = torch.cat([yaw_matrix(-angle)[:, None], matrix_from_6d(six)], dim=1)
    rotations = accumulate_rotations(local, skeleton.rotation_parents)
    bones = (rotations @ offsets.to(features)[..., None]).squeeze(-1)
    return positions_from_bones(torch.cat([root[:, None], bones[:, 1:]], dim=1), skeleton.parents)


def features(frames: int = 40, seed: int = 0, **options) -> torch.Tensor:
    return joints_to_features(walker(frames + 1, seed, **options), HUMANML)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_recovery_of_a_public_clip(shared: Path, dtype):
    data = np.load(shared / "fixtures/mdm/features_012314.npz")
    vectors = torch.from_numpy(data["joint_vecs"]).to(dtype)
    ric = features_to_joints(vectors, HUMANML)
    np.testing.assert_allclose(ric.numpy(), data["recovered_ric"], atol=1e-6, rtol=0)
    np.testing.assert_allclose(ric.numpy(), data["new_joints"], atol=1e-6, rtol=0)
    rot = joints_by_rotations(vectors, HUMANML, torch.tensor(HUMANML.target_offsets))
    np.testing.assert_allclose(rot.numpy(), data["recovered_rot"], atol=1e-6, rtol=0)
    assert float((rot - ric).abs().max()) < 2e-6
    angle, root = root_trajectory(vectors, HUMANML)
    np.testing.assert_allclose(root.numpy(), data["recovered_root_pos"], atol=1e-6, rtol=0)
    half = -0.5 * angle
    quaternion = torch.stack([half.cos(), 0 * half, half.sin(), 0 * half], dim=-1)
    np.testing.assert_allclose(quaternion.numpy(), data["recovered_root_quat"], atol=1e-6, rtol=0)


def test_recovery_of_the_synthetic_clip(shared: Path):
    data = np.load(shared / "fixtures/mdm/features_synthetic_t2m.npz")
    made = features_to_joints(torch.from_numpy(data["features"]), HUMANML)
    np.testing.assert_allclose(made.numpy(), data["recovered_ric"], atol=1e-6, rtol=0)


def test_both_recoveries_agree():
    vectors = features(60, 4, turn=0.05)
    np.testing.assert_allclose(
        joints_by_rotations(vectors, HUMANML, torch.tensor(HUMANML.target_offsets, dtype=vectors.dtype)),
        features_to_joints(vectors, HUMANML),
        atol=1e-12,
    )


def test_kit_recovers_metres_and_the_stored_rotations():
    joints = canonicalise(walker(50, seed=2, turn=0.03, skeleton=KIT), KIT)
    vectors = joints_to_features(joints, KIT, target=False)
    assert vectors.shape == (49, 251)
    assert float(vectors[:, 3].mean()) > 300.0, "stored heights are in MMM units"
    np.testing.assert_allclose(features_to_joints(vectors, KIT), joints[:-1], atol=1e-9)
    lengths = torch.tensor([(joints[0, j] - joints[0, max(p, 0)]).norm() for j, p in enumerate(KIT.parents)])
    offsets = torch.tensor(KIT.raw_offsets) * lengths[:, None]
    rot = joints_by_rotations(vectors, KIT, offsets)
    np.testing.assert_allclose(rot, joints[:-1], atol=1e-6)


@pytest.mark.parametrize(
    ("padding", "told"),
    [(float("nan"), True), (float("nan"), False), (float("inf"), True), (float("inf"), False), (1e38, True)],
)
def test_padding_reaches_neither_values_nor_gradients(padding, told):
    lengths = torch.tensor([25, 40])
    clean = torch.stack([features(40, 1), features(40, 2)]).float()
    valid = torch.arange(40) < lengths[:, None]
    dirty = torch.where(valid[..., None], clean, padding)

    def run(batch: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        batch = batch.clone().requires_grad_()
        joints = features_to_joints(batch, HUMANML, lengths if told else None)
        kept = torch.where(valid[..., None, None], joints, 0.0)
        kept.square().sum().backward()
        return kept.detach(), batch.grad

    values, gradient = run(dirty)
    expected, slope = run(torch.where(valid[..., None], clean, 0.0))
    assert torch.equal(values, expected)
    assert torch.isfinite(gradient).all()
    torch.testing.assert_close(gradient[valid], slope[valid], rtol=1e-6, atol=1e-6)
    assert not gradient[~valid].any()


def test_a_bad_valid_frame_spoils_itself_and_what_follows_only():
    batch = torch.stack([features(30, 1), features(30, 2)]).requires_grad_()
    spoilt = batch * 1.0
    spoilt[0, 12, 30] = float("nan")
    joints = features_to_joints(spoilt, HUMANML)
    assert torch.isfinite(joints[0, :12]).all()
    assert torch.isnan(joints[0, 12:]).all()
    assert torch.isfinite(joints[1]).all()
    joints[0, :12].sum().backward()
    assert torch.isfinite(batch.grad).all()


def test_gradients_are_right():
    vectors = features(5, 3).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: features_to_joints(x, HUMANML)[..., ::5, :], vectors)


def test_half_precision_is_computed_in_float32():
    vectors = features(60, 4)
    joints = features_to_joints(vectors.bfloat16(), HUMANML)
    assert joints.dtype == torch.float32
    assert torch.equal(joints, features_to_joints(vectors.bfloat16().float(), HUMANML))


def test_leading_dimensions_do_not_matter():
    batch = torch.stack([features(30, seed) for seed in range(6)]).reshape(2, 3, 30, 263)
    joints = features_to_joints(batch, HUMANML)
    assert joints.shape == (2, 3, 30, 22, 3)
    torch.testing.assert_close(joints[1, 2], features_to_joints(batch[1, 2], HUMANML))


def test_motion_batch():
    batch = MotionBatch(torch.full((2, 30, 263), float("nan")), torch.tensor([10, 30]), skeleton=HUMANML, fps=20.0)
    batch.features[0, :10] = features(10, 1).float()
    batch.features[1] = features(30, 2).float()
    assert len(batch) == 2
    assert batch.mask.sum(dim=1).tolist() == [10, 30]
    assert batch.joints is batch.joints
    assert torch.isfinite(batch.joints[batch.mask]).all()


@pytest.mark.parametrize("width", [251, 260])
def test_wrong_width_is_named(width):
    with pytest.raises(MotionkitError, match="263") as caught:
        features_to_joints(torch.zeros(4, width), HUMANML)
    assert ("KIT" in caught.value.why) == (width == 251)
