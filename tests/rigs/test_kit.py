"""Rigs by name, and the body of KIT."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from motionkit.errors import MotionkitError
from motionkit.formats.bvh import read_bvh, write_bvh
from motionkit.geometry import bones_from_positions
from motionkit.motion import HUMANML, KIT, JointMotion, Motion, Skeleton, features_to_joints, joints_to_features, mirror
from motionkit.motion.features.extract import canonicalise, retarget
from motionkit.rigs import kit_bones, solve, to_body
from motionkit.rigs.bodymap import body_to_kit, map_body
from motionkit.rigs.detect import UNITS
from motionkit.rigs.rest import smpl_joints
from motionkit.rigs.roles import KIT_RIG, find_roles, rig_names
from motionkit.starter import generate

from ..made.bodies import mirror_features, walker
from .rig_names import MOTIONBUILDER, RIGS

MEAN_POSE = {
    "BP": (0.0, 0.119, 0.011), "BT": (0.0, 0.167, -0.017), "BLN": (0.0, 0.061, 0.013), "BUN": (0.0, 0.034, 0.024),
    "LH": (-0.070, 0.0, 0.0), "LK": (-0.049, -0.341, 0.052), "LMrot": (-0.007, -0.030, 0.025),
    "LF": (-0.023, -0.031, 0.060), "LS": (-0.152, 0.0, 0.0),
}  # fmt: skip
"""Bones of the mean pose of public KIT features, in metres (a published statistic, mirrored clips included)."""


def starter(action: str, frames: int = 80, fps: float = 20.0) -> JointMotion:
    joints = torch.from_numpy(generate(action, frames=frames, fps=fps).joints)
    return JointMotion(HUMANML.joint_names, HUMANML.parents, joints, fps)


def test_the_map_gives_the_mean_pose_of_the_public_data():
    """The starter's people, on KIT's joints, stand as KIT's do: every bone within 25 degrees, most far closer."""
    motion = to_body(starter("walk"), KIT, 12.5)
    motion = canonicalise(motion, KIT)
    for name, bone in MEAN_POSE.items():
        joint = KIT.index(name)
        made = (motion[:, joint] - motion[:, KIT.parents[joint]]).mean(dim=0)
        wanted = torch.tensor(bone, dtype=made.dtype)
        cosine = float(made @ wanted / made.norm() / wanted.norm())
        assert cosine > np.cos(np.radians(25)), name


def test_the_right_side_stays_the_right_side():
    joints = walker(5)
    kit = body_to_kit(joints)
    right_hip, left_hip, right_shoulder, left_shoulder = KIT.face_joints
    for side, hip, shoulder in (("left", left_hip, left_shoulder), ("right", right_hip, right_shoulder)):
        assert torch.equal(kit[:, hip + 2], joints[:, HUMANML.index(f"{side}_ankle")])
        assert torch.equal(kit[:, hip + 4], joints[:, HUMANML.index(f"{side}_foot")])
        assert torch.equal(kit[:, shoulder + 2], joints[:, HUMANML.index(f"{side}_wrist")])
    feet = [HUMANML.joint_names[HUMANML.feet[place]].split("_")[0] for place in (0, 2)]
    assert feet == ["left", "right"]
    torch.testing.assert_close(kit[:, KIT.feet[1]], joints[:, HUMANML.feet[1]])


def test_a_skeleton_names_the_side_that_its_joints_are_on():
    """Public features face +Z (toes and knees before the hips), so that the left of a person is at +X."""
    assert min(MEAN_POSE["LF"][2], MEAN_POSE["LK"][2]) > 0
    plain = dict(zip(KIT.joint_names, KIT_RIG, strict=True))
    for name in ("LH", "LS"):
        assert ("left" in plain[name]) == (MEAN_POSE[name][0] > 0)
    assert len(set(KIT_RIG)) == KIT.joints
    for left, right in KIT.mirror_pairs:
        assert {KIT_RIG[left].split("_")[0], KIT_RIG[right].split("_")[0]} == {"left", "right"}
        assert KIT_RIG[left].split("_")[1] == KIT_RIG[right].split("_")[1]
    joints = walker(5)
    kit = body_to_kit(joints)
    for name in ("left_hip", "right_knee", "left_ankle", "right_foot", "left_shoulder", "right_elbow", "left_wrist"):
        torch.testing.assert_close(kit[:, KIT_RIG.index(name)], joints[:, HUMANML.index(name)])
    assert rig_names(("LF", "LS", "LF End")) == ("LF", "LS", "LF End"), "another skeleton means what it says"


def test_kit_motions_in_a_bvh_file_have_their_left_on_the_left(tmp_path):
    joints = to_body(starter("walk", 60), KIT, KIT.fps)
    solved = solve(JointMotion(KIT.joint_names, KIT.parents, joints, KIT.fps)).motion
    write_bvh(tmp_path / "a.bvh", solved)
    again = read_bvh(tmp_path / "a.bvh")[0].motion
    body = find_roles(again.names, again.parents)
    places = again.positions()
    wanted = starter("walk", 60).resample(KIT.fps).joints
    for role, name in (("left ankle", "left_ankle"), ("right wrist", "right_wrist"), ("left elbow", "left_elbow")):
        assert float((places[:, body[role]] - wanted[:, HUMANML.index(name)]).norm(dim=-1).mean()) < 0.03
    back = to_body(again, KIT, again.fps)
    assert float((back - joints).norm(dim=-1).mean()) < 0.03, "and go back to where KIT has them"


def test_the_map_moves_with_the_body():
    joints = walker(6, seed=3)
    turn = torch.linalg.qr(torch.randn(3, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0)))[0]
    shift = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    torch.testing.assert_close(body_to_kit(2 * joints @ turn + shift), 2 * body_to_kit(joints) @ turn + shift)


def test_mirror_image_first_or_last():
    joints = walker(6, seed=3)
    torch.testing.assert_close(body_to_kit(mirror(joints, HUMANML)), mirror(body_to_kit(joints), KIT))


def bone_lengths(joints: torch.Tensor, skeleton: Skeleton) -> torch.Tensor:
    """Bone lengths ``[J]`` of the first frame of ``[T, J, 3]``; 0 for the root."""
    bones = bones_from_positions(joints[0], skeleton.parents).norm(dim=-1)
    bones[0] = 0.0
    return bones


def test_kit_features_of_a_walk():
    joints = to_body(starter("walk", 100), KIT, KIT.fps)
    assert joints.shape == (62, 21, 3)
    features = joints_to_features(joints, KIT, bones=kit_bones())
    assert features.shape == (61, 251)
    # Root height in stored units: the public mean is 560, with a standard deviation of 5 x 4.6.
    assert 500 < float(features[:, 3].mean()) < 600
    made = features_to_joints(features, KIT)
    bones = torch.stack([bone_lengths(made[frame:], KIT) for frame in (0, 20, 60)])
    torch.testing.assert_close(bones, kit_bones().expand(3, -1))
    assert features[:, -4:].unique().tolist() in ([0.0, 1.0], [0.0])
    back = joints_to_features(made, KIT, bones=kit_bones())
    torch.testing.assert_close(bone_lengths(features_to_joints(back, KIT), KIT), kit_bones())


def test_contacts_are_judged_in_stored_units():
    """A foot that moves 0.2 units (0.3 mm) a frame is in contact, one that moves 0.25 units is not."""
    joints = walker(30, skeleton=KIT, sway=0.01)
    still = joints[:1].repeat(30, 1, 1)
    for speed, contact in ((0.2, 1.0), (0.25, 0.0)):
        moving = still.clone()
        moving[..., 2] += speed * KIT.unit * torch.arange(30, dtype=torch.float64)[:, None]
        features = joints_to_features(moving, KIT, target=False)
        assert features[:, -4:].unique().tolist() == [contact]


def test_the_users_own_body_as_the_target():
    own = bone_lengths(walker(5, seed=8, skeleton=KIT), KIT)
    joints = to_body(starter("wave", 60), KIT, KIT.fps)
    made = features_to_joints(joints_to_features(joints, KIT, bones=own), KIT)
    torch.testing.assert_close(bone_lengths(made, KIT), own)
    with pytest.raises(MotionkitError) as error:
        joints_to_features(joints, KIT)
    assert "kit_bones" in str(error.value.fix)


def test_mirrored_kit_features_equal_features_of_the_mirrored_body():
    # Its left and right legs are of one length, as KIT's are: the scale is taken from one of them.
    joints = retarget(to_body(starter("kick", 60), KIT, KIT.fps), KIT, kit_bones())
    features = joints_to_features(joints, KIT, bones=kit_bones())
    again = joints_to_features(mirror(joints, KIT), KIT, bones=kit_bones())
    np.testing.assert_allclose(mirror_features(features, KIT), again, atol=1e-9)


def test_to_body_takes_joints_by_name_and_resamples():
    joints = walker(31)
    extra = torch.rand(31, 2, 3, dtype=torch.float64)
    names, parents = smpl_joints(24)
    smpl = JointMotion(names, parents, torch.cat([joints, extra], dim=1), 30.0)
    torch.testing.assert_close(to_body(smpl, HUMANML, 30.0), joints)
    made = to_body(smpl, HUMANML, 20.0)
    assert len(made) == 21
    torch.testing.assert_close(made[::2], joints[::3])
    torch.testing.assert_close(made[1], (joints[1] + joints[2]) / 2)
    torch.testing.assert_close(to_body(smpl, KIT, 30.0), body_to_kit(joints))


def test_to_body_keeps_the_size_of_a_rig():
    """A rig is in metres when it gets here: a small child is not taken for a grown-up in other units."""
    limbs = ("UpLeg", "Leg", "Foot", "ToeBase", "Arm", "ForeArm", "Hand")
    names = ("Hips", "Spine", "Neck", "Head", *(f"{side}{part}" for side in ("Left", "Right") for part in limbs))
    parents = (-1, 0, 1, 2, 0, 4, 5, 6, 1, 8, 9, 0, 11, 12, 13, 1, 15, 16)
    leg = [(0, -0.1, 0.0), (0, -0.1, 0), (0, -0.1, 0), (0, -0.02, 0.05), (0.05, 0.1, 0), (0.1, 0, 0), (0.1, 0, 0)]
    offsets = torch.tensor(
        [(0, 0.3, 0), (0, 0.1, 0), (0, 0.15, 0), (0, 0.05, 0)]
        + [(x + 0.03, y, z) for x, y, z in leg]
        + [(-x - 0.03, y, z) for x, y, z in leg],
        dtype=torch.float64,
    )
    eye = torch.eye(3, dtype=torch.float64).repeat(4, len(names), 1, 1)
    motion = Motion(names, parents, offsets, eye, offsets.repeat(4, 1, 1), 20.0)
    joints = to_body(motion, HUMANML, 20.0)
    torch.testing.assert_close(joints[:, HUMANML.index("left_ankle")], motion.positions()[:, names.index("LeftFoot")])


def test_what_has_no_such_body_is_refused():
    kit = JointMotion(KIT.joint_names, KIT.parents, walker(5, skeleton=KIT), 12.5)
    torch.testing.assert_close(to_body(kit, KIT, 12.5), kit.joints)
    boxes = JointMotion(("a", "b"), (-1, 0), torch.rand(5, 2, 3, dtype=torch.float64), 20.0)
    for motion, skeleton, word in (
        (kit, HUMANML, "22-joint body"), (boxes, HUMANML, "no joint"), (boxes, KIT, "no joint"),
    ):  # fmt: skip
        with pytest.raises(MotionkitError, match=word):
            to_body(motion, skeleton, 20.0)


def test_a_public_clip_lies_where_kit_features_lie(shared: Path):
    """Reference motion on KIT's joints is near the public mean, in the units of the public deviations."""
    joints = torch.from_numpy(np.load(shared / "fixtures/mdm/features_012314.npz")["new_joints"]).double()
    motion = JointMotion(HUMANML.joint_names, HUMANML.parents, joints, 20.0)
    features = joints_to_features(to_body(motion, KIT, 12.5), KIT, bones=kit_bones())
    positions = features[:, 4:64].reshape(-1, 20, 3)
    assert float(positions[:, KIT.index("BLN") - 1, 1].mean()) == pytest.approx(782, abs=120)
    assert float(features[:, 3].mean()) == pytest.approx(560, abs=100)


def pose() -> torch.Tensor:
    bones = torch.tensor(HUMANML.target_offsets).double()
    joints = torch.zeros(1, 22, 3, dtype=torch.float64)
    for joint, parent in enumerate(HUMANML.parents):
        if parent >= 0:
            joints[0, joint] = joints[0, parent] + bones[joint]
    return joints


LIMBS = [
    HUMANML.index(f"{side}_{part}")
    for side in ("left", "right")
    for part in ("hip", "knee", "ankle", "foot", "shoulder", "elbow", "wrist")
]


def rig(name: str, scale: float = 1.0) -> tuple[list[str], list[int], torch.Tensor]:
    """Names, parents and ``[1, J, 3]`` of a rig, its additional joints 1 cm beside their parents."""
    names, more = RIGS[name]
    parents, places = list(HUMANML.parents), [pose()[0]]
    for above in more.values():
        parents.append(names.index(above))
        places.append(pose()[0, names.index(above)][None] + 0.01)
    return [*names, *more], parents, torch.cat(places)[None] * scale


@pytest.mark.parametrize("name", RIGS)
def test_rigs_by_name(name):
    names, parents, positions = rig(name)
    body = map_body(names, parents, positions)
    joints = body.apply(positions)
    torch.testing.assert_close(joints[:, LIMBS], pose()[:, LIMBS], atol=1e-9, rtol=0)
    torch.testing.assert_close(joints[:, 15], pose()[:, 15], atol=1e-9, rtol=0)
    assert body.unit_name == "metres"


@pytest.mark.parametrize(("unit", "metres"), [(unit.words, unit.metres) for unit in UNITS.values()])
@pytest.mark.parametrize("size", [0.8, 1.0, 1.15])
def test_units(unit, metres, size):
    names, parents, positions = rig("motionbuilder", size / metres)
    body = map_body(names, parents, positions)
    assert body.unit_name == unit
    torch.testing.assert_close(body.apply(positions)[:, LIMBS], size * pose()[:, LIMBS], atol=1e-9, rtol=0)
    assert torch.equal(body.weights.sum(dim=1).round(decimals=9), torch.ones(22).double()), "moves with the rig"


def test_a_shoulder_is_a_collar_only_beside_an_arm():
    body = map_body(MOTIONBUILDER, HUMANML.parents, pose())
    assert body.sources["left shoulder"] == "LeftArm"
    assert map_body(HUMANML.joint_names, HUMANML.parents, pose()).sources["left shoulder"] == "left_shoulder"


def test_toes_from_end_sites():
    names = list(MOTIONBUILDER)
    names[10], names[11] = "LeftFoot End", "RightFoot End"
    body = map_body(names, HUMANML.parents, pose())
    np.testing.assert_allclose(body.apply(pose())[:, 10], pose()[:, 10], atol=1e-9)


def test_missing_joints_are_listed():
    names = ["Leg9" if name == "LeftForeArm" else name for name in MOTIONBUILDER]
    with pytest.raises(MotionkitError, match="left elbow") as caught:
        map_body(names, HUMANML.parents, pose())
    assert "RightForeArm" in caught.value.why
    assert "--write-joint-map" in caught.value.fix


def test_a_double_in_another_limb_is_passed_over():
    names, parents, positions = rig("motionbuilder")
    names.append("LeftHand")
    parents.append(names.index("RightHand"))
    positions = torch.cat([positions, positions[:, -1:] + 1.0], dim=1)
    order = torch.randperm(len(names), generator=torch.Generator().manual_seed(0)).tolist()
    shuffled = [order.index(parents[joint]) if parents[joint] >= 0 else -1 for joint in order]
    body = map_body([names[joint] for joint in order], shuffled, positions[:, order])
    torch.testing.assert_close(body.apply(positions[:, order])[:, LIMBS], pose()[:, LIMBS], atol=1e-9, rtol=0)


def test_doubles_in_one_limb_are_refused():
    names, parents, positions = rig("motionbuilder")
    for double in ("LeftHand 2", "prop:LeftHand"):
        with pytest.raises(MotionkitError) as caught:
            map_body([*names, double], [*parents, names.index("LeftForeArm")], positions[:, [*range(len(names)), 0]])
        assert f"LeftHand or {double}" in caught.value.why
    body = map_body([*names, "LeftHand 2"], [*parents, names.index("LeftHand")], positions[:, [*range(len(names)), 0]])
    assert body.sources["left wrist"] == "LeftHand", "one below the other: the upper one"


def test_a_forearm_that_ends_is_a_wrist():
    names, parents, positions = rig("motionbuilder")
    hands = [names.index(f"{side}Hand") for side in ("Left", "Right")]
    ended = [f"{names[parents[joint]]} End" if joint in hands else name for joint, name in enumerate(names)]
    kept = [joint for joint in range(len(names)) if parents[joint] not in hands]
    ended, above = (
        [ended[joint] for joint in kept],
        [kept.index(parents[joint]) if parents[joint] >= 0 else -1 for joint in kept],
    )
    body = map_body(ended, above, positions[:, kept])
    assert body.sources["left wrist"] == "LeftForeArm End"
    torch.testing.assert_close(body.apply(positions[:, kept])[:, LIMBS], pose()[:, LIMBS], atol=1e-9, rtol=0)
    rolled = [*ended, "LeftForeArmRoll"]
    with pytest.raises(MotionkitError, match="left wrist"):
        map_body(rolled, [*above, ended.index("LeftForeArm")], positions[:, [*kept, 0]])


def test_joints_without_names_are_counted():
    names = [f"3f2a{number:04d}-77e0-4b6c-9d1e-0123456789ab" for number in range(18)]
    with pytest.raises(MotionkitError) as caught:
        map_body(names, [-1, *range(17)], torch.zeros(1, 18, 3))
    assert caught.value.why == f"its joints are {', '.join(names[:5])} and 13 more."
