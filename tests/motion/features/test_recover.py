"""Joints from features, there and back, and mirrored."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from motionkit.errors import MotionkitError
from motionkit.geometry import (
    accumulate_rotations,
    bones_from_positions,
    matrix_from_6d,
    positions_from_bones,
    yaw_matrix,
)
from motionkit.motion import (
    HUMANML,
    KIT,
    MotionBatch,
    Skeleton,
    feature_layout,
    features_to_joints,
    joints_to_features,
    mirror,
    mirror_features,
    mirror_text,
    resize_features,
    with_frame_after,
)
from motionkit.motion.features.extract import canonicalise, retarget
from motionkit.rigs import kit_bones
from motionkit.rigs.bodymap import body_to_kit
from motionkit.starter import generate

from ...made.bodies import mirror_features as mirrored_by_blocks
from ...made.bodies import walker


def joints_by_rotations(features: torch.Tensor, skeleton: Skeleton, offsets: torch.Tensor) -> torch.Tensor:
    """Joints ``[T, J, 3]`` by stored rotations, with bones ``[J, 3]`` in metres (HumanML3D's ``recover_from_rot``)."""
    angle, root = skeleton.trajectory(features)
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
    angle, root = HUMANML.trajectory(vectors)
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


def even(skeleton):
    """The same body with right bones as long as left ones."""
    offsets = np.array(skeleton.target_offsets)
    for left, right in skeleton.mirror_pairs:
        offsets[right] = offsets[left] * [-1, 1, 1]
    return replace(skeleton, target_offsets=tuple(map(tuple, offsets)))


def test_mirror_equals_the_recorded_one(shared: Path):
    data = np.load(shared / "fixtures/mdm/features_synthetic_t2m.npz")
    assert np.array_equal(mirror(torch.from_numpy(data["raw_joints"]), HUMANML).numpy(), data["mirrored_raw"])


@pytest.mark.parametrize("skeleton", [HUMANML, KIT], ids=["humanml", "kit"])
def test_twice_is_once_less(skeleton):
    joints = walker(30, 1, skeleton=skeleton)
    assert torch.equal(mirror(mirror(joints, skeleton), skeleton), joints)
    vectors = joints_to_features(joints, skeleton, target=False)
    assert torch.equal(mirror_features(mirror_features(vectors, skeleton), skeleton), vectors)


def test_mirrored_features_are_those_of_the_mirrored_motion():
    body = even(HUMANML)
    joints = retarget(walker(60, 2, turn=0.04), body)
    direct = joints_to_features(mirror(joints, body), body)
    np.testing.assert_allclose(mirror_features(joints_to_features(joints, body), body), direct, atol=1e-9)


@pytest.mark.parametrize("skeleton", [HUMANML, KIT], ids=["humanml", "kit"])
def test_columns_are_exchanged_as_blocks_are(skeleton):
    rows = torch.randn(3, 5, skeleton.width)
    assert torch.equal(mirror_features(rows, skeleton), mirrored_by_blocks(rows, skeleton))


@pytest.mark.parametrize("skeleton", [HUMANML, KIT], ids=["humanml", "kit"])
def test_features_of_a_larger_body(skeleton):
    joints = walker(40, 3, skeleton=skeleton)
    rows = joints_to_features(joints, skeleton, target=False)
    larger = joints_to_features(joints * 1.2, skeleton, target=False)
    found = resize_features(rows, skeleton, torch.tensor(1.2, dtype=torch.float64))
    torch.testing.assert_close(found[:, :-4], larger[:, :-4], rtol=1e-9, atol=1e-9)
    assert torch.equal(found[:, -4:], rows[:, -4:]), "contacts stay"


def test_mirror_swaps_sides():
    joints = torch.arange(66.0).reshape(1, 22, 3)
    made = mirror(joints, HUMANML)
    assert made[0, 7].tolist() == [-24.0, 25.0, 26.0], "left ankle is the mirrored right ankle"
    assert made[0, 15].tolist() == [-45.0, 46.0, 47.0], "the head stays the head"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a man kicks with his left leg", "a man kicks with his right leg"),
        ("turns clockwise, Right hand up", "turns counterclockwise, Left hand up"),
        ("walks counter-clockwise", "walks clockwise"),
        ("stands upright, brightly", "stands upright, brightly"),
        ("steps leftwards", "steps rightwards"),
        ("LEFTWARD, Leftward, LEFT", "RIGHTWARD, Rightward, RIGHT"),
        ("一个人用左手挥手,然后向右走", "一个人用右手挥手,然后向左走"),
        ("顺时针转一圈,再逆时针转", "逆时针转一圈,再顺时针转"),
        ("反时针,順時針,逆時針", "顺时针,逆時針,順時針"),
        ("左右摇摆,大约十步左右,左顾右盼", "左右摇摆,大约十步左右,左顾右盼"),
        ("用left手,向Right转", "用right手,向Left转"),
    ],
)
def test_words(text, expected):
    assert mirror_text(text) == expected


@settings(max_examples=50, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            [
                "left",
                "right",
                "clockwise",
                "counterclockwise",
                "Left",
                "a",
                "walks,",
                "rightward",
                "bright",
                "LEFT",
                "左腿",
                "右",
                "左右",
                "逆时针",
            ]
        ),
        max_size=8,
    )
)
def test_words_twice(words):
    text = " ".join(words)
    assert mirror_text(mirror_text(text)) == text
