"""Features from joints, and their statistics."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from motionkit.errors import MotionkitError
from motionkit.geometry import bones_from_positions, matrix_to_6d, rotation_between, yaw_matrix
from motionkit.motion import (
    HUMANML,
    KIT,
    Normalizer,
    feature_layout,
    feature_stats,
    feature_width,
    features_to_joints,
    joints_to_features,
)
from motionkit.motion.features.extract import canonicalise, local_turns, retarget, smooth_heading

from ...made.bodies import slow_features, walker


def test_widths():
    assert (feature_width(HUMANML), feature_width(KIT)) == (263, 251)
    assert [block.stop for block in feature_layout(HUMANML).blocks] == [1, 3, 4, 67, 193, 259, 263]
    assert [block.stop for block in feature_layout(KIT).blocks] == [1, 3, 4, 64, 184, 247, 251]


def test_extraction_equals_recorded_features(shared: Path):
    data = np.load(shared / "fixtures/mdm/features_synthetic_t2m.npz")
    joints = torch.from_numpy(data["raw_joints"])
    for name, made, tolerance in (
        ("uniform_skeleton", retarget(joints, HUMANML), 1e-5),
        ("global_positions", canonicalise(retarget(joints, HUMANML), HUMANML), 1e-5),
        ("features", joints_to_features(joints, HUMANML), 1e-5),
        ("mirrored_features", joints_to_features(torch.from_numpy(data["mirrored_raw"]), HUMANML), 1.5e-5),
    ):
        np.testing.assert_allclose(made.numpy(), data[name], atol=tolerance, rtol=0, err_msg=name)
    contacts = feature_layout(HUMANML).contacts
    assert np.array_equal(joints_to_features(joints, HUMANML)[:, contacts].numpy(), data["features"][:, contacts])


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_extraction_of_a_public_clip(shared: Path, dtype: torch.dtype):
    data = np.load(shared / "fixtures/mdm/features_012314.npz")
    made = joints_to_features(torch.from_numpy(data["new_joints"]).to(dtype), HUMANML)
    assert made.dtype == dtype
    np.testing.assert_allclose(made.numpy(), data["processed_from_new_joints"], atol=1e-5, rtol=0)


@pytest.mark.parametrize("skeleton", [HUMANML, KIT], ids=["humanml", "kit"])
@pytest.mark.parametrize("turn", [0.0, 0.06])
def test_extraction_equals_the_slow_version(skeleton, turn):
    joints = canonicalise(walker(70, seed=3, turn=turn, skeleton=skeleton), skeleton)
    fast = joints_to_features(joints, skeleton, target=False)
    slow = slow_features(joints.numpy() / skeleton.unit, skeleton)
    np.testing.assert_allclose(fast.numpy(), slow, atol=1e-9 / skeleton.unit, rtol=0)


def test_batched_and_padded_clips_equal_single_ones():
    clips = [walker(frames, seed=frames, turn=0.02) for frames in (40, 61, 97)]
    lengths = torch.tensor([len(clip) for clip in clips])
    padded = torch.full((3, 97, 22, 3), float("nan"), dtype=torch.float64)
    for row, clip in zip(padded, clips, strict=True):
        row[: len(clip)] = clip
    batch = joints_to_features(padded, HUMANML, lengths)
    for row, clip in zip(batch, clips, strict=True):
        np.testing.assert_allclose(row[: len(clip) - 1], joints_to_features(clip, HUMANML), atol=1e-12)
        assert not row[len(clip) - 1 :].any()


@pytest.mark.parametrize("turn", [0.0, 0.11, -0.11])
def test_round_trip(turn):
    """Headings that pass half a turn come back too."""
    joints = canonicalise(walker(120, seed=1, turn=turn), HUMANML)
    back = features_to_joints(joints_to_features(joints, HUMANML, target=False), HUMANML)
    np.testing.assert_allclose(back, joints[:-1], atol=1e-9)


def test_peer_turns_differ_only_where_the_heading_passes_half_a_turn():
    joints = walker(120, seed=1, turn=0.11)
    ours = joints_to_features(joints, HUMANML)
    peer = joints_to_features(joints, HUMANML, peer_turns=True)
    differs = (ours - peer).abs() > 1e-9
    assert differs[:, 1:].sum() == 0
    assert 1 <= int(differs[:, 0].sum()) <= 3
    rows = differs[:, 0].nonzero()[:, 0]
    torch.testing.assert_close(peer[rows, 0], -ours[rows, 0])


def test_retarget_gives_target_bones_and_keeps_directions():
    joints = walker(50, seed=5)
    moved = retarget(joints, HUMANML)
    for joint, parent in list(enumerate(HUMANML.parents))[1:]:
        bone, old = moved[:, joint] - moved[:, parent], joints[:, joint] - joints[:, parent]
        length = np.linalg.norm(HUMANML.target_offsets[joint])
        np.testing.assert_allclose(bone.norm(dim=-1), length, atol=1e-12)
        torch.testing.assert_close(bone / bone.norm(dim=-1, keepdim=True), old / old.norm(dim=-1, keepdim=True))


def test_canonical_pose():
    joints = canonicalise(walker(50, seed=5, turn=0.02), HUMANML)
    assert float(joints[..., 1].min()) == pytest.approx(0.0, abs=1e-12)
    assert joints[0, 0, [0, 2]].abs().max() < 1e-12
    across = joints[0, 1] - joints[0, 2] + joints[0, 16] - joints[0, 17]
    assert float(across[0]) > 0
    assert abs(float(across[2])) < 1e-9


def test_bad_joints_are_refused():
    for joints, skeleton, word in (
        (torch.zeros(10, 21, 3), HUMANML, r"\[10, 21, 3\]"),
        (torch.zeros(1, 22, 3), HUMANML, "frames >= 2"),
        (walker(20, skeleton=KIT), KIT, "target bones"),
        (torch.zeros(10, 22, 3), HUMANML, "legs"),
    ):
        with pytest.raises(MotionkitError, match=word):
            joints_to_features(joints, skeleton)


def test_bones_against_their_rest_direction():
    """Arms straight up and a bone without length: turns are those of `rotation_between`, and nothing is NaN."""
    joints = canonicalise(walker(30, seed=2), HUMANML)
    for t, lean in ((3, 0.0), (4, 1e-9), (5, 1e-5), (6, 1e-3), (7, 0.1)):
        shoulder, elbow = HUMANML.index("left_shoulder"), HUMANML.index("left_elbow")
        joints[t, elbow] = joints[t, shoulder] + torch.tensor([lean, 0.3, 0.0], dtype=torch.float64)
    joints[8, HUMANML.index("head")] = joints[8, HUMANML.index("neck")]
    features = joints_to_features(joints, HUMANML, target=False, align=False)
    assert torch.isfinite(features).all()
    right_hip, left_hip, right_shoulder, left_shoulder = HUMANML.face_joints
    across = joints[:, left_hip] - joints[:, right_hip] + joints[:, right_shoulder] - joints[:, left_shoulder]
    angle = -smooth_heading(*across.unbind(-1))
    angle[0] = 0.0
    rest = joints.new_tensor(HUMANML.raw_offsets)[1:]
    world = rotation_between(rest, bones_from_positions(joints, HUMANML.parents)[:, 1:])
    world = torch.cat([yaw_matrix(angle)[:, None], world], dim=1)
    before = world[:, list(HUMANML.rotation_parents[1:])]
    slow = matrix_to_6d(before.transpose(-1, -2) @ world[:, 1:]).flatten(1)[:-1]
    made = features[:, feature_layout(HUMANML).rotations]
    error = (made - slow).abs().amax(dim=1)
    # A billionth off straight up, the two disagree about rounding; elsewhere they agree.
    assert float(error[[3, *range(5, 29)]].max()) < 1e-8
    assert float(error[:3].max()) < 1e-12


def test_one_clip_equals_itself_in_a_batch():
    """Clips go through in passes; a pass is cut where it must not show."""
    clips = torch.stack([walker(300, seed=seed, turn=0.01 * seed) for seed in range(11)])
    batch = joints_to_features(clips.reshape(11, 1, 300, 22, 3), HUMANML)
    assert batch.shape == (11, 1, 299, 263)
    for clip, row in zip(clips, batch, strict=True):
        np.testing.assert_allclose(row[0], joints_to_features(clip, HUMANML), atol=1e-12)
    assert joints_to_features(clips[:0], HUMANML).shape == (0, 299, 263)


def test_extraction_passes_gradients_on():
    joints = walker(12).requires_grad_(True)
    joints_to_features(joints, HUMANML)[..., :-4].square().sum().backward()
    assert joints.grad is not None
    assert torch.isfinite(joints.grad).all()
    assert float(joints.grad.abs().max()) > 0


def test_bones_at_rest_have_a_gradient_beside_one_that_points_the_other_way():
    # Along an axis, so that the cosine is exactly 1; a leg that is kicked up makes all bones take the other formula.
    rest = torch.tensor(HUMANML.raw_offsets, dtype=torch.float32)[1:]
    directions = rest[..., None].repeat(1, 1, 2)
    directions[HUMANML.joint_names.index("left_knee") - 1, :, 1] *= -1
    turns = local_turns(directions.requires_grad_(), torch.zeros(2), HUMANML)
    turns.sum().backward()
    assert directions.grad.isfinite().all()


def test_statistics_by_hand():
    rng = np.random.default_rng(0)
    clips = [rng.normal(3.0, rng.uniform(0.5, 2.0, 263), (frames, 263)) for frames in (7, 40, 13)]
    mean, std = feature_stats([torch.from_numpy(clip) for clip in clips], HUMANML)
    rows = np.concatenate(clips)
    np.testing.assert_allclose(mean, rows.mean(axis=0), rtol=1e-6)
    for block in feature_layout(HUMANML).blocks:
        np.testing.assert_allclose(std[block], rows.std(axis=0)[block].mean(), rtol=1e-6)


def test_public_std_is_averaged_by_the_same_blocks(shared: Path):
    std = np.load(shared / "fixtures/mdm/features_012314.npz")["Std"]
    values = [np.unique(std[block]) for block in feature_layout(HUMANML).blocks]
    assert [len(value) for value in values] == [1] * 7
    assert len(np.unique(std)) == 7


def test_large_steady_values_keep_their_spread():
    rows = 1e6 + torch.randn(1000, 263, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) * 1e-3
    _, std = feature_stats([rows[:10], rows[10:]], HUMANML)
    assert float(std[100]) == pytest.approx(1e-3, rel=0.01)


def test_a_block_that_never_varies_gets_one():
    rows = torch.randn(50, 263)
    rows[:, 259:] = 1.0
    _, std = feature_stats([rows], HUMANML)
    assert std[259:].tolist() == [1.0] * 4


def test_no_frames():
    with pytest.raises(MotionkitError, match="no frames"):
        feature_stats([], HUMANML)


def test_normalizer_inverts():
    normalizer = Normalizer(torch.randn(263), torch.rand(263) + 0.1)
    rows = torch.randn(4, 9, 263)
    torch.testing.assert_close(normalizer.denormalize(normalizer.normalize(rows)), rows, atol=1e-5, rtol=1e-5)
    assert normalizer.to("cpu").width == 263


@pytest.mark.parametrize("std", [torch.zeros(4), torch.full((4,), float("nan")), torch.ones(3)])
def test_normalizer_refuses(std):
    with pytest.raises(MotionkitError):
        Normalizer(torch.zeros(4), std)
