"""Bodies: the tables against the recorded ones, kinematics, and SMPL-X's joints from the user's file."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.geometry import positions_from_bones, yaw_matrix
from motionkit.motion import HUMANML
from motionkit_policy_kimodo.representation import KimodoRepresentation
from motionkit_policy_kimodo.skeletons import body, read_smplx, smplx_body, to_soma77

Tensors = Callable[[str], dict[str, Tensor]]
RECORDED = {"soma30": "somaskel30", "soma77": "somaskel77", "g1": "g1skel34"}


@pytest.mark.parametrize("name", RECORDED)
def test_table(name: str, recorded: Path, tensors: Tensors) -> None:
    made, known = body(name), json.loads((recorded / "skeletons.json").read_text())[RECORDED[name]]
    assert list(made.joint_names) == known["names"]
    assert list(made.parents) == known["parents"]
    assert list(made.feet) == known["feet"]
    assert list(made.hips) == known["hips_right_left"]
    assert [[made.joint_names[joint] for joint in hand] for hand in made.hands] == known["hands"]
    neutral = tensors("skeletons.npz")[f"{RECORDED[name]}.neutral_joints"]
    torch.testing.assert_close(positions_from_bones(made.offsets, made.parents), neutral, atol=1e-8, rtol=0)


def test_soma77_has_relaxed_fingers(tensors: Tensors) -> None:
    known = tensors("soma30_to_77.npz")
    large, small = body("soma77"), body("soma30")
    world = large.world(to_soma77(known["local_rot_mats_30"]))
    torch.testing.assert_close(world[:1], known["global_rot_mats_77_first"], atol=1.5e-6, rtol=0)
    joints = large.joints(world, known["root_positions"])
    torch.testing.assert_close(joints, known["posed_joints_77"], atol=1.5e-6, rtol=0)
    joints = small.joints(small.world(known["local_rot_mats_30"]), known["root_positions"])
    torch.testing.assert_close(joints, known["posed_joints_30"], atol=1.5e-6, rtol=0)


@pytest.mark.parametrize("name", RECORDED)
def test_kinematics(name: str) -> None:
    made = body(name)
    local = torch.eye(3).repeat(2, len(made), 1, 1)
    local[1, 0] = yaw_matrix(torch.tensor(math.pi / 2))
    joints = made.joints(made.world(local), torch.tensor([[0.0, 1.0, 0.0], [0.0, 1.0, 0.0]]))
    x, y, z = joints[0].unbind(-1)  # +Z turns to +X
    torch.testing.assert_close(joints[1], torch.stack([z, y, -x], -1), atol=1e-6, rtol=0)
    torch.testing.assert_close(made.local(made.world(local)), local)


def test_feet_and_hips_are_left_and_right() -> None:
    for made in (body("soma30"), body("g1"), _smplx()):
        rest = positions_from_bones(made.offsets, made.parents)
        right, left = made.hips
        assert rest[left, 0] > 0 > rest[right, 0]  # the left is +X of a body that faces +Z
        assert all(rest[joint, 0] > 0 for joint in (*made.feet[:2], *made.hands[0]))
        assert rest[made.feet[1], 2] > rest[made.feet[0], 2]  # toes are in front of heels


def _rest() -> Tensor:
    assert HUMANML.target_offsets is not None
    return positions_from_bones(torch.tensor(HUMANML.target_offsets).double(), HUMANML.parents)


def _smplx():
    return smplx_body(_rest() + torch.tensor([0.0, -0.35, 0.01]))


def test_smplx_from_the_joints_file(tmp_path: Path) -> None:
    torch.save(_rest().float()[None], tmp_path / "joints.p")
    made = read_smplx(tmp_path / "joints.p")
    assert made.joint_names == HUMANML.joint_names
    torch.testing.assert_close(made.offsets, _smplx().offsets, atol=1e-6, rtol=0)
    assert not made.offsets[0].any()


def test_smplx_from_a_model_file(tmp_path: Path) -> None:
    rest = _rest().numpy()
    np.savez(tmp_path / "SMPLX_NEUTRAL.npz", v_template=rest, J_regressor=np.eye(22), shapedirs=np.zeros((22, 3, 10)))
    made = read_smplx(tmp_path / "SMPLX_NEUTRAL.npz")
    torch.testing.assert_close(made.offsets, _smplx().offsets)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (torch.zeros(21, 3), "no joints of SMPL-X"),
        ({"a": torch.zeros(2)}, "no joints of SMPL-X"),
        (torch.zeros(22, 3), "in metres"),
        (torch.full((22, 3), math.nan), "in metres"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, content: object, said: str) -> None:
    torch.save(content, tmp_path / "joints.p")
    with pytest.raises(MotionkitError, match=said):
        read_smplx(tmp_path / "joints.p")


def test_links_of_the_robot() -> None:
    made = body("g1")
    assert len(made.radii) == len(made)
    assert all(0.02 < radius < 0.1 for radius in made.radii)
    assert KimodoRepresentation(made).radii == made.radii
    eye = torch.eye(3).expand(2, len(made), 3, 3)
    assert made.motion(eye, torch.zeros(2, 3), 30.0).radii == made.radii
    assert body("soma30").radii == ()
