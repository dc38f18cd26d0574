from __future__ import annotations

import numpy as np
import pytest
import torch

from motionkit.errors import MotionkitError
from motionkit.motion import HUMANML
from motionkit.rigs.bodymap import map_body
from motionkit.rigs.rest import UNITS

from .rig_names import MOTIONBUILDER, RIGS


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
        with pytest.raises(MotionkitError, match="several joints that look like: left wrist") as caught:
            map_body([*names, double], [*parents, names.index("LeftForeArm")], positions[:, [*range(len(names)), 0]])
        assert f"LeftHand or {double}" in caught.value.why
    body = map_body([*names, "LeftHand 2"], [*parents, names.index("LeftHand")], positions[:, [*range(len(names)), 0]])
    assert body.sources["left wrist"] == "LeftHand", "one below the other: the upper one"
