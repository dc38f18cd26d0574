"""Motions on other rigs, mirrored, turned and made taller."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
import roma
import torch
from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.formats.bvh import read_bvh
from motionkit.geometry import positions_from_bones
from motionkit.motion import HUMANML, JointMotion, Motion
from motionkit.rigs import Retarget, body_height, mirror_order, mirrored, scaled, to_body, turned, without_jitter
from motionkit.rigs._placing import _fitted

from ..made.rigs import other_rig, starter_rig
from .test_two_bones import swinging


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
    for call in (lambda: Retarget.of(OWN).motion(snake), lambda: Retarget.of([snake])):
        with pytest.raises(MotionkitError, match="no joint"):
            call()


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


def test_a_mirror_image_is_one_in_every_joint_and_frame():
    motion = swinging(30, 40.0, turn=0.5)
    image = mirrored(motion)
    order = list(mirror_order(motion.names))
    expected = motion.positions()[:, order] * torch.tensor([-1.0, 1.0, 1.0], dtype=torch.float64)
    assert float((image.positions() - expected).abs().max()) < 1e-12
    assert float((image.offsets - motion.offsets).abs().max()) < 0.02  # a body is nearly symmetric
    assert float((torch.linalg.det(image.rotations) - 1).abs().max()) < 1e-9
    assert float((mirrored(image).positions() - motion.positions()).abs().max()) < 1e-12


def test_a_rig_that_faces_sideways_keeps_its_rest_pose():
    motion = swinging(30, 40.0)
    quarter = torch.tensor([[0.0, 0, 1], [0, 1, 0], [-1, 0, 0]], dtype=torch.float64)  # +Z to +X
    sideways = replace(
        motion,
        offsets=motion.offsets @ quarter.T,
        rotations=torch.cat(
            [motion.rotations[:, :1] @ quarter.T, quarter @ motion.rotations[:, 1:] @ quarter.T], dim=1
        ),
        translations=torch.cat([motion.translations[:, :1], motion.translations[:, 1:] @ quarter.T], dim=1),
    )
    assert float((sideways.positions() - motion.positions()).abs().max()) < 1e-9
    image = mirrored(sideways)
    assert float((image.positions() - mirrored(motion).positions()).abs().max()) < 1e-9
    assert float((image.offsets - sideways.offsets)[1:].abs().max()) < 0.02


def test_end_sites_have_partners_of_their_own():
    names = ("Hips", "LeftFoot", "LeftFoot End", "RightFoot", "RightFoot End")
    assert mirror_order(names) == (0, 3, 4, 1, 2)


def test_a_rig_whose_sides_hang_differently_has_no_mirror_image():
    eye = torch.eye(3, dtype=torch.float64).expand(3, 3, 3, 3)
    offsets = torch.eye(3, dtype=torch.float64)
    odd = Motion(("root", "left_arm", "right_arm"), (-1, 0, 1), offsets, eye, offsets.expand(3, 3, 3), 30.0)
    with pytest.raises(MotionkitError, match="no mirror image"):
        mirrored(odd)


def test_a_body_is_made_as_tall_as_was_asked():
    motion = swinging(30, 40.0)
    tall = scaled(motion, 2.0)
    rest = positions_from_bones(tall.offsets, tall.parents)
    assert body_height(tall.names, tall.parents, rest) == pytest.approx(2.0)
    factor = 2.0 / body_height(motion.names, motion.parents, positions_from_bones(motion.offsets, motion.parents))
    assert float((tall.positions() - factor * motion.positions()).abs().max()) < 1e-12
    unknown = replace(motion, names=tuple(f"b{k}" for k in range(len(motion.names))))
    with pytest.raises(MotionkitError, match="height"):
        scaled(unknown, 2.0)


def test_a_turned_motion_is_turned_as_a_whole():
    motion = swinging(10, 40.0)
    left = turned(motion, math.pi / 2, torch.tensor([1.0, 0.0, 2.0], dtype=torch.float64)).positions()
    x, y, z = motion.positions().unbind(-1)
    expected = torch.stack([z + 1.0, y, -x + 2.0], dim=-1)
    assert float((left - expected).abs().max()) < 1e-12


def test_the_filter_keeps_cubics_and_takes_noise():
    time = torch.linspace(-1, 1, 41, dtype=torch.float64)[:, None]
    cubic = 1 + 2 * time - 3 * time**2 + 4 * time**3
    assert float((_fitted(cubic, 5) - cubic).abs().max()) < 1e-9
    noise = torch.randn(4000, 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    # Variance of the middle of a cubic through 2 m + 1 values: 3 (3 m^2 + 3 m - 1) / ((2 m + 3) (4 m^2 - 1)).
    m = 5
    expected = 3 * (3 * m * m + 3 * m - 1) / ((2 * m + 3) * (4 * m * m - 1))
    assert float(_fitted(noise, m)[m:-m].var()) == pytest.approx(expected, rel=0.1)


@pytest.mark.parametrize(("hertz", "least", "most"), [(2.0, 0.98, 1.01), (5.0, 0.85, 1.01), (20.0, 0.0, 0.25)])
def test_what_is_faster_than_the_cutoff_goes(hertz, least, most):
    motion = swinging(240, 1e9, fps=60.0)
    wave = 0.1 * torch.sin(2 * math.pi * hertz * torch.arange(240, dtype=torch.float64) / 60.0)
    motion.translations[:, 0, 0] = wave
    filtered = without_jitter(motion).translations[30:-30, 0, 0]
    assert least <= float(filtered.norm() / wave[30:-30].norm()) <= most
    assert float((without_jitter(motion).offsets - motion.offsets).abs().max()) == 0


def test_few_frames_stay_as_they_are():
    motion = swinging(4, 40.0)
    assert without_jitter(motion) is motion
