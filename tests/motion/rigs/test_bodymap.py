from __future__ import annotations

import numpy as np
import pytest
import torch

from motionkit.errors import MotionkitError
from motionkit.motion import HUMANML, map_body

MOTIONBUILDER = [
    "Hips",
    "LeftUpLeg",
    "RightUpLeg",
    "Spine",
    "LeftLeg",
    "RightLeg",
    "Spine1",
    "LeftFoot",
    "RightFoot",
    "Spine2",
    "LeftToeBase",
    "RightToeBase",
    "Neck",
    "LeftShoulder",
    "RightShoulder",
    "Head",
    "LeftArm",
    "RightArm",
    "LeftForeArm",
    "RightForeArm",
    "LeftHand",
    "RightHand",
]
MIXAMO = [f"mixamorig:{name}" for name in MOTIONBUILDER]
UNREAL = [
    "pelvis",
    "thigh_l",
    "thigh_r",
    "spine_01",
    "calf_l",
    "calf_r",
    "spine_02",
    "foot_l",
    "foot_r",
    "spine_03",
    "ball_l",
    "ball_r",
    "neck_01",
    "clavicle_l",
    "clavicle_r",
    "head",
    "upperarm_l",
    "upperarm_r",
    "lowerarm_l",
    "lowerarm_r",
    "hand_l",
    "hand_r",
]
POSER = [
    "hip",
    "lThigh",
    "rThigh",
    "abdomen",
    "lShin",
    "rShin",
    "chest",
    "lFoot",
    "rFoot",
    "chest2",
    "lToe",
    "rToe",
    "neck",
    "lCollar",
    "rCollar",
    "head",
    "lShldr",
    "rShldr",
    "lForeArm",
    "rForeArm",
    "lHand",
    "rHand",
]
SMPL = list(HUMANML.joint_names)
BLENDER = [
    "root",
    "upper_leg.L",
    "upper_leg.R",
    "spine",
    "lower_leg.L",
    "lower_leg.R",
    "spine.001",
    "foot.L",
    "foot.R",
    "spine.002",
    "toe.L",
    "toe.R",
    "neck",
    "shoulder.L",
    "shoulder.R",
    "head",
    "upper_arm.L",
    "upper_arm.R",
    "forearm.L",
    "forearm.R",
    "hand.L",
    "hand.R",
]


def pose() -> torch.Tensor:
    bones = torch.tensor(HUMANML.target_offsets).double()
    joints = torch.zeros(1, 22, 3, dtype=torch.float64)
    for joint, parent in enumerate(HUMANML.parents):
        if parent >= 0:
            joints[0, joint] = joints[0, parent] + bones[joint]
    return joints


@pytest.mark.parametrize(
    "names",
    [MOTIONBUILDER, MIXAMO, UNREAL, POSER, SMPL, BLENDER],
    ids=["motionbuilder", "mixamo", "unreal", "poser", "smpl", "blender"],
)
@pytest.mark.parametrize(("unit", "scale"), [("metres", 1.0), ("centimetres", 100.0), ("inches", 1 / 0.0254)])
def test_names_and_units(names, unit, scale):
    positions = pose() * scale
    body = map_body(names, HUMANML.parents, positions)
    joints = body.apply(positions)
    assert body.unit_name == unit
    limbs = [HUMANML.index(f"{side}_{part}") for side in ("left", "right")
             for part in ("hip", "knee", "ankle", "foot", "shoulder", "elbow", "wrist")]  # fmt: skip
    np.testing.assert_allclose(joints[:, limbs], pose()[:, limbs], atol=1e-9)
    np.testing.assert_allclose(joints[:, 15], pose()[:, 15], atol=1e-9)
    assert torch.equal(body.weights.sum(dim=1).round(decimals=9), torch.ones(22).double()), "moves with the rig"


def test_a_shoulder_is_a_collar_only_beside_an_arm():
    body = map_body(MOTIONBUILDER, HUMANML.parents, pose())
    assert body.sources["left shoulder"] == "LeftArm"
    assert map_body(SMPL, HUMANML.parents, pose()).sources["left shoulder"] == "left_shoulder"


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
    assert "rename" in caught.value.fix
