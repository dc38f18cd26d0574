from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import roma
import torch
from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.formats.bvh import read_bvh
from motionkit.motion import HUMANML, JointMotion, Motion
from motionkit.rigs import Retarget, to_body

from ..made.rigs import other_rig, starter_rig


def degrees(one: Tensor, other: Tensor) -> Tensor:
    return torch.rad2deg(roma.rotmat_geodesic_distance(one.flatten(0, -3), other.flatten(0, -3)))


OWN = [starter_rig(action) for action in ("walk", "wave", "kick", "squat")]


def test_the_other_rig_makes_the_same_movement() -> None:
    motion = starter_rig("walk")
    torch.testing.assert_close(other_rig(motion).positions(), 0.8 * motion.positions(), atol=1e-9, rtol=0)


@pytest.mark.parametrize("action", ["walk", "jump", "wave"])
def test_a_movement_comes_back_from_another_rig(action: str) -> None:
    """Names, size and rest pose of the source do not matter."""
    motion = starter_rig(action, seed=5)
    target = Retarget.of(OWN)
    found = target.motion(other_rig(motion))
    assert (found.names, found.parents, found.fps) == (motion.names, motion.parents, motion.fps)
    torch.testing.assert_close(found.offsets, motion.offsets)
    # Joints of the body's own names are taken as they are, those of a rig's trunk are put on a line.
    again = target.motion(motion)
    assert float((found.positions() - again.positions()).norm(dim=-1).mean()) < 0.01
    assert float((found.positions() - motion.positions()).norm(dim=-1).mean()) < 0.02
    assert float(degrees(found.rotations, motion.rotations).mean()) < 5.0


@pytest.mark.parametrize("action", ["walk", "wave"])
def test_rest_pose_and_twist_of_the_skeleton_are_learned_from_its_clips(action: str) -> None:
    target = Retarget.of([other_rig(motion) for motion in OWN])
    motion = starter_rig(action, seed=5)
    wanted = other_rig(motion)
    found = target.motion(motion)
    assert float((found.positions() - wanted.positions()).norm(dim=-1).mean()) < 0.02
    assert float(degrees(found.rotations, wanted.rotations).mean()) < 5.0


def test_end_sites_may_lie_anywhere_among_the_joints() -> None:
    """The same skeleton, from a BVH file with end sites in their places and from one with them at its end."""
    motions = []
    for action, place in (("walk", 22), ("wave", 11), ("kick", 22)):
        motion = starter_rig(action)
        parts = [motion.rotations, motion.translations, motion.offsets]
        dims = [1, 1, 0]
        parts = [
            torch.cat([part.narrow(dim, 0, place), part.narrow(dim, 10, 1), part.narrow(dim, place, 22 - place)], dim)
            for part, dim in zip(parts, dims, strict=True)
        ]
        parents = [parent + (parent >= place) for parent in motion.parents]
        names = [*motion.names]
        names.insert(place, "left_foot End")
        parents.insert(place, 10)
        motions.append(
            Motion(tuple(names), tuple(parents), parts[2], parts[0], parts[1], motion.fps)
        )  # fmt: skip
    motion = starter_rig("walk", seed=5)
    found = Retarget.of(motions).motion(motion)
    assert found.names[22] == "left_foot End"
    assert float((found.positions()[:, :22] - motion.positions()).norm(dim=-1).mean()) < 0.02


def test_feet_stand_where_those_of_the_skeleton_do_and_steps_are_as_long_as_the_legs() -> None:
    motion = starter_rig("walk", seed=5)
    raised = replace(motion, translations=motion.translations + torch.tensor([0.0, 0.3, 0.0]) * torch.eye(22)[:, :1])
    found = Retarget.of(OWN).motion(other_rig(raised, scale=0.5))
    assert float(found.positions()[..., 1].min()) == pytest.approx(float(motion.positions()[..., 1].min()), abs=0.01)
    gone = [one.translations[-1, 0] - one.translations[0, 0] for one in (found, motion)]
    torch.testing.assert_close(gone[0][[0, 2]], gone[1][[0, 2]], atol=0.02, rtol=0)


def test_joints_without_rotations_and_tracks() -> None:
    motion = starter_rig("walk", seed=5)
    contacts = torch.rand(60, 2)
    joints = JointMotion(HUMANML.joint_names, HUMANML.parents, motion.positions(), motion.fps, {"contacts": contacts})
    found = Retarget.of(OWN).motion(joints)
    assert torch.equal(found.tracks["contacts"], contacts)
    assert float((found.positions() - motion.positions()).norm(dim=-1).mean()) < 0.02


def test_what_has_no_body_is_refused() -> None:
    motion = starter_rig("walk")
    snake = replace(motion, names=tuple(f"bone{joint}" for joint in range(22)))
    with pytest.raises(MotionkitError, match="no joint that looks like"):
        Retarget.of(OWN).motion(snake)
    with pytest.raises(MotionkitError, match="no joint that looks like"):
        Retarget.of([snake])


_RIGS = {"asf": ("cs_walking_test_1", "cs_running_test_1"), "cc": ("cc_06_05",), "daz": ("ac_salsa_27",)}


@pytest.mark.parametrize("onto", list(_RIGS))
def test_captured_clips_of_three_rigs(shared: Path, onto: str) -> None:
    """Bones point where they pointed; trunks, which the rigs divide in other ways, less exactly."""
    clips = {
        rig: [read_bvh(shared / "data/cmu/bvh" / f"{name}.bvh")[0].motion.resample(30.0) for name in names]
        for rig, names in _RIGS.items()
    }
    target = Retarget.of(clips[onto])
    own = torch.cat([(target.motion(clip).positions() - clip.positions()).norm(dim=-1) for clip in clips[onto]])
    assert float(own.mean()) < 0.03
    ends = ("knee", "ankle", "foot", "elbow", "wrist")
    limbs = [HUMANML.index(f"{side}_{joint}") for side in ("left", "right") for joint in ends]
    above = [HUMANML.parents[joint] for joint in limbs]
    for rig, (clip, *_) in clips.items():
        bodies = [to_body(one, HUMANML, 30.0) for one in (target.motion(clip), clip)]
        bones = [body[:, limbs] - body[:, above] for body in bodies]
        cosine = torch.nn.functional.cosine_similarity(*bones, dim=-1).clamp(-1, 1)
        angles = torch.rad2deg(cosine.acos()).mean(0)
        assert float(angles.max()) < 2.0, rig
