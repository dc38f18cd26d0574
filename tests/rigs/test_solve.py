"""Rotations from joints: constant bones, FK that comes back, also through files, nothing that flips."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
import roma
import torch
from hypothesis import given, settings
from torch import Tensor

from motionkit import starter
from motionkit.errors import MotionkitError
from motionkit.formats.bvh import read_bvh, write_bvh
from motionkit.motion import HUMANML, KIT, Skeleton
from motionkit.motion.features.extract import retarget
from motionkit.motion.motion import JointMotion, Motion
from motionkit.rigs.bodymap import map_body
from motionkit.rigs.rest import rest_rig
from motionkit.rigs.solver import Solved, solve
from motionkit.starter import Order, perform
from motionkit.starter._catalogue import actions

from ..made.bodies import walker


def swaying(
    frames: int = 60, seed: int = 0, *, size: float = 0.6, fps: float = 20.0, skeleton: Skeleton = HUMANML
) -> Motion:
    """A body with constant bones whose every joint swings smoothly and at random, at most about 1 Hz."""
    random = np.random.default_rng(seed)
    rig = rest_rig(skeleton)
    time = np.arange(frames)[:, None, None] / fps
    turns = np.zeros((frames, rig.joints, 3))
    for _ in range(3):
        rate, phase = random.uniform([[[0.1]], [[0.0]]], [[[0.8]], [[6.28]]], (2, rig.joints, 3))
        turns += random.normal(0.0, size / 2, (rig.joints, 3)) * np.sin(2 * np.pi * rate * time + phase)
    places = rig.offsets.repeat(frames, 1, 1)
    places[:, 0, 2] += 0.9 * torch.from_numpy(time[:, 0, 0])
    return Motion(rig.names, rig.parents, rig.offsets, roma.rotvec_to_rotmat(torch.from_numpy(turns)), places, fps)


def as_joints(motion: Motion | Tensor, skeleton: Skeleton = HUMANML, fps: float = 20.0) -> JointMotion:
    joints = motion if isinstance(motion, Tensor) else motion.positions()[:, : skeleton.joints]
    return JointMotion(skeleton.joint_names, skeleton.parents, joints, fps)


def biggest_turn(motion: Motion) -> float:
    """Largest angle in degrees by which a local rotation changes from one frame to the next."""
    change = motion.rotations[:-1].mT @ motion.rotations[1:]
    return math.degrees(float(roma.rotmat_to_rotvec(change).norm(dim=-1).max()))


def pose(**directions: tuple[float, float, float]) -> Tensor:
    """The T-pose ``[22, 3]`` with some bones pointing elsewhere."""
    rig = rest_rig(HUMANML)
    joints = torch.zeros(22, 3, dtype=torch.float64)
    for joint in range(22):
        bone = rig.offsets[joint]
        if rig.names[joint] in directions:
            way = torch.tensor(directions[rig.names[joint]], dtype=torch.float64)
            bone = way / way.norm() * bone.norm()
        joints[joint] = bone + (joints[rig.parents[joint]] if joint else 0.0)
    return joints


@pytest.mark.parametrize("skeleton", [HUMANML, KIT], ids=["humanml", "kit"])
def test_rest_rig_stands_on_the_floor_in_a_t_pose_facing_z(skeleton):
    rig = rest_rig(skeleton)
    assert rig.names[: skeleton.joints] == skeleton.joint_names
    ends = rig.names[skeleton.joints :]
    assert sorted(ends) == sorted(
        f"{name} End" for j, name in enumerate(skeleton.joint_names) if j not in skeleton.parents
    )
    identity = torch.eye(3, dtype=torch.float64).expand(1, rig.joints, 3, 3)
    place = dict(
        zip(
            rig.names,
            Motion(rig.names, rig.parents, rig.offsets, identity, rig.offsets[None], 20.0).positions()[0],
            strict=True,
        )
    )
    assert min(float(p[1]) for p in place.values()) == pytest.approx(0.0, abs=1e-12)
    assert 1.4 < max(float(p[1]) for p in place.values()) < 1.9
    left = "left_wrist" if skeleton is HUMANML else "LW"
    elbow = "left_elbow" if skeleton is HUMANML else "LE"
    toe = "left_foot" if skeleton is HUMANML else "LF"
    # KIT's "left" joints are where HumanML3D's code and the public features have them: on the right-hand side.
    assert place[left][0] * (1 if skeleton is HUMANML else -1) > 0.5
    assert place[left][1] == pytest.approx(float(place[elbow][1]))
    assert place[toe][2] > 0.05
    if skeleton.target_offsets:
        np.testing.assert_allclose(
            rig.offsets[1:22].norm(dim=-1), torch.tensor(skeleton.target_offsets)[1:].norm(dim=-1), atol=1e-6
        )


def test_rest_rig_refuses_bones_of_another_body():
    for lengths in ([0.1] * 21, [math.nan] * 22):
        with pytest.raises(MotionkitError, match="22 lengths"):
            rest_rig(HUMANML, lengths)


@pytest.mark.parametrize("skeleton", [HUMANML, KIT], ids=["humanml", "kit"])
def test_joints_of_constant_bones_come_back(skeleton):
    source = swaying(80, 3, skeleton=skeleton)
    solved = solve(as_joints(source, skeleton))
    back = solved.motion.positions()
    np.testing.assert_allclose(back[:, : skeleton.joints], source.positions()[:, : skeleton.joints], atol=1e-5)
    assert solved.residual_max < 1e-5
    assert solved.flips == 0
    # The same bones, found from the joints alone.
    found = solved.motion.offsets.norm(dim=-1)[1:]
    np.testing.assert_allclose(found, source.offsets.norm(dim=-1)[1:], atol=1e-6)
    # And constant in every frame, by construction of what comes out.
    bones = back - back[:, [max(p, 0) for p in solved.motion.parents]]
    assert float(bones.norm(dim=-1).std(dim=0).max()) < 1e-9
    torch.testing.assert_close(
        solved.motion.translations[:, 1:], solved.motion.offsets[1:].expand_as(solved.motion.translations[:, 1:])
    )


def test_the_rest_pose_has_no_rotations_and_a_turned_body_only_the_roots():
    rig = rest_rig(HUMANML)
    rest = pose() + rig.offsets[0]
    solved = solve(as_joints(rest[None].repeat(3, 1, 1))).motion
    torch.testing.assert_close(
        solved.rotations, torch.eye(3, dtype=torch.float64).expand(3, 27, 3, 3), atol=1e-6, rtol=0
    )
    turn = roma.rotvec_to_rotmat(torch.tensor([0.3, 1.2, -0.4], dtype=torch.float64))
    turned = solve(as_joints((rest @ turn.T)[None])).motion
    torch.testing.assert_close(turned.rotations[0, 0], turn, atol=1e-6, rtol=0)
    torch.testing.assert_close(
        turned.rotations[0, 1:], torch.eye(3, dtype=torch.float64).expand(26, 3, 3), atol=1e-6, rtol=0
    )


def test_residual_is_the_distance_of_the_closest_pose():
    """One bone of two stretched by 2 cm: the least-squares pose moves both ends, by hand."""
    joints = torch.tensor([[0.0, 0, 0], [0, 1, 0]], dtype=torch.float64).repeat(5, 1, 1)
    joints[4, 1, 1] = 1.02
    solved = solve(JointMotion(("a", "b"), (-1, 0), joints, 20.0))
    torch.testing.assert_close(
        solved.motion.positions()[4], torch.tensor([[0, 0.01, 0], [0, 1.01, 0]], dtype=torch.float64)
    )
    assert solved.residual_max == pytest.approx(0.01)
    assert solved.residual_mean == pytest.approx(0.002)


def test_pose_is_a_minimum_of_the_distance():
    """No small change of any rotation or of the root brings the solved pose nearer to noisy joints."""
    random = torch.Generator().manual_seed(0)
    source = swaying(3, 1)
    wanted = source.positions()[:, :22]
    wanted = wanted + 0.02 * torch.randn(wanted.shape, generator=random, dtype=torch.float64)
    solved = solve(as_joints(wanted)).motion
    least = (solved.positions()[:, :22] - wanted).square().sum(dim=(1, 2))
    for _ in range(40):
        nudge = roma.rotvec_to_rotmat(0.003 * torch.randn(3, 27, 3, generator=random, dtype=torch.float64))
        other = replace(solved, rotations=solved.rotations @ nudge)
        assert bool(((other.positions()[:, :22] - wanted).square().sum(dim=(1, 2)) > least).all())


def test_noise_of_a_centimetre_flips_nothing():
    random = torch.Generator().manual_seed(4)
    for seed in range(3):
        joints = swaying(60, seed, size=0.4).positions()[:, :22]
        noisy = joints + 0.01 * torch.randn(joints.shape, generator=random, dtype=torch.float64)
        solved = solve(as_joints(noisy))
        assert solved.flips == 0
        assert 0.005 < solved.residual_mean < 0.016
        assert solve(as_joints(joints)).residual_max < 1e-5


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    size=st.floats(0.0, 0.9),  # beyond, at 12.5 fps, limbs twist by more than a quarter turn between frames
    frames=st.sampled_from([1, 2, 3, 40]),
    fps=st.sampled_from([12.5, 20.0, 60.0, 120.0]),
)
def test_smooth_motions_come_back_without_flips(seed, size, frames, fps):
    source = swaying(frames, seed, size=size, fps=fps)
    solved = solve(as_joints(source, fps=fps))
    assert solved.residual_max < 1e-4
    assert solved.flips == 0
    assert torch.isfinite(solved.motion.rotations).all()


def test_an_arm_through_the_opposite_of_its_rest_direction_does_not_spin():
    """The left arm points right, where the smallest rotation from the T-pose changes sides from frame to frame."""
    frames = []
    for angle in torch.linspace(-0.5, 0.5, 41):
        way = (-math.cos(float(angle)), 0.02 * math.sin(9 * float(angle)), math.sin(float(angle)))
        frames.append(pose(left_elbow=way, left_wrist=way))
    solved = solve(as_joints(torch.stack(frames)))
    assert solved.flips == 0
    assert solved.residual_max < 1e-5
    assert biggest_turn(solved.motion) < 15.0


def test_an_elbow_that_straightens_and_bends_again_keeps_its_arm_still():
    """The forearm swings through the upper arm's line; the upper arm, which does not move, hardly turns."""
    frames = []
    for bend in np.concatenate([np.linspace(1.2, -0.12, 30), np.linspace(-0.12, 1.2, 30)]):
        frames.append(pose(left_wrist=(math.cos(bend), 0.0, math.sin(bend))))
    solved = solve(as_joints(torch.stack(frames)))
    shoulder = solved.motion.rotations[:, HUMANML.index("left_shoulder")]
    assert float(roma.rotmat_to_rotvec(shoulder).norm(dim=-1).max()) < math.radians(20.0)
    assert solved.flips == 0


@pytest.mark.parametrize("fps", [12.5, 20.0, 60.0])
@pytest.mark.parametrize("wait", [0, 3, 30])
def test_an_elbow_that_bends_the_wrong_way_flips_nothing(wait, fps):
    """Straight through to 70 degrees backwards and back: a wrong bend or a slow turn, but no jump."""
    sweep = np.linspace(1.2, -1.2, 9)
    bends = np.concatenate([sweep, np.full(wait, -1.2), sweep[::-1], np.full(10, 1.2)])
    frames = [pose(left_wrist=(math.cos(bend), 0.02, math.sin(bend))) for bend in bends]
    solved = solve(as_joints(torch.stack(frames), fps=fps))
    assert solved.flips == 0
    assert solved.residual_max < 1e-5
    shoulder = solved.motion.rotations[:, HUMANML.index("left_shoulder")]
    step = roma.rotmat_to_rotvec(shoulder[:-1].mT @ shoulder[1:]).norm(dim=-1)
    assert float(step.max()) < math.radians(min(1000.0 / fps, 60.0)) + 0.02


@pytest.mark.parametrize("twist", [-1.0, -0.4, 0.7, 1.2])
def test_a_bent_elbow_shows_how_the_upper_arm_is_turned(twist):
    """Turning the upper arm about itself turns the plane of the bend; the elbow itself stays a hinge."""
    bend = 1.3
    # The forearm in the T-pose bends forward (+Z); the arm's own turn is about +X.
    forward = (math.cos(bend), -math.sin(bend) * math.sin(twist), math.sin(bend) * math.cos(twist))
    solved = solve(as_joints(pose(left_wrist=forward)[None].repeat(4, 1, 1))).motion
    shoulder = roma.rotmat_to_rotvec(solved.rotations[:, HUMANML.index("left_shoulder")])
    torch.testing.assert_close(
        shoulder, torch.tensor([twist, 0.0, 0.0], dtype=torch.float64).expand(4, 3), atol=0.1, rtol=0
    )
    elbow = roma.rotmat_to_rotvec(solved.rotations[:, HUMANML.index("left_elbow")])
    torch.testing.assert_close(
        elbow, torch.tensor([0.0, -bend, 0.0], dtype=torch.float64).expand(4, 3), atol=0.1, rtol=0
    )


def test_trunk_twist_is_shared_by_the_spine():
    """Chest turned by 60 degrees over the pelvis: the two joints between take 20 and 40 of them."""
    turn = roma.rotvec_to_rotmat(torch.tensor([0.0, math.radians(60.0), 0.0], dtype=torch.float64))
    joints = pose()
    chest = HUMANML.index("spine3")
    above = [j for j in range(22) if _is_below(j, chest)]
    joints[above] = (joints[above] - joints[chest]) @ turn.T + joints[chest]
    rest = pose()
    solved = solve(as_joints(torch.stack([rest, rest, joints])))
    local = roma.rotmat_to_rotvec(solved.motion.rotations[2])
    about_spine = {name: math.degrees(float(local[HUMANML.index(name), 1])) for name in ("spine1", "spine2", "spine3")}
    assert about_spine == pytest.approx({"spine1": 20.0, "spine2": 20.0, "spine3": 20.0}, abs=3.0)


def _is_below(joint: int, top: int) -> bool:
    while joint >= 0 and joint != top:
        joint = HUMANML.parents[joint]
    return joint == top


def test_a_constant_pose_has_constant_rotations():
    joints = walker(1, 5).repeat(20, 1, 1)
    solved = solve(as_joints(joints))
    torch.testing.assert_close(solved.motion.rotations, solved.motion.rotations[:1].expand(20, 27, 3, 3))
    assert solved.residual_max < 1e-5


def test_joints_on_one_place_are_no_crash():
    solved = solve(as_joints(torch.zeros(4, 22, 3, dtype=torch.float64)))
    assert solved.residual_max < 1e-9
    assert torch.isfinite(solved.motion.rotations).all()
    joints = walker(30, 1)
    before = solve(as_joints(joints)).flips
    joints[10:13, 20] = joints[10:13, 18]  # a wrist on its elbow for a moment
    hurt = solve(as_joints(joints))
    assert torch.isfinite(hurt.motion.rotations).all()
    assert hurt.flips == before


def test_other_skeletons_start_from_their_first_frame():
    source = swaying(30, 2)
    names = tuple(f"joint {j}" for j in range(27))
    solved = solve(JointMotion(names, source.parents, source.positions(), 20.0))
    assert solved.motion.names == names
    torch.testing.assert_close(
        solved.motion.rotations[0], torch.eye(3, dtype=torch.float64).expand(27, 3, 3), atol=1e-5, rtol=0
    )
    assert solved.residual_max < 1e-5


def test_tracks_and_frame_rate_go_through():
    contacts = torch.rand(10, 2)
    motion = replace(as_joints(walker(10)), fps=30.0, tracks={"contacts": contacts})
    solved = solve(motion).motion
    assert solved.fps == 30.0
    assert solved.tracks["contacts"] is contacts


def test_bad_joints_are_refused_with_a_reason():
    joints = walker(10)
    joints[4, 7, 1] = math.nan
    for bad, word in (
        (as_joints(joints), "'left_ankle'.* frame 4"),
        (as_joints(walker(10)[:0]), "no frames"),
        (as_joints(walker(10)[:, :21]), "22 named joints"),
        (JointMotion(("a", "b", "c"), (-1, 2, 0), torch.zeros(2, 3, 3), 20.0), "not one tree"),
    ):
        with pytest.raises(MotionkitError, match=word):
            solve(bad)


def test_a_humanml_clip_whose_bones_are_constant(shared):
    record = np.load(shared / "fixtures" / "mdm" / "features_012314.npz")
    solved = solve(as_joints(torch.from_numpy(record["new_joints"])))
    assert solved.residual_max < 1e-5
    assert solved.flips == 0
    lengths = np.linalg.norm(record["tgt_offsets"], axis=1)[1:]
    np.testing.assert_allclose(solved.motion.offsets.norm(dim=-1)[1:22], lengths, atol=1e-4)
    assert biggest_turn(solved.motion) < 70.0  # a forearm itself turns by 66 degrees in one frame


def body(joints: Tensor, fps: float = 20.0) -> JointMotion:
    return JointMotion(HUMANML.joint_names, HUMANML.parents, joints.double(), fps)


def worst(joints: JointMotion, solved: Solved, folder: Path) -> float:
    """Largest distance in metres between joints and what FK makes of the BVH written for them."""
    write_bvh(folder / "clip.bvh", solved.motion)
    again = read_bvh(folder / "clip.bvh")[0].motion
    order = [again.names.index(name) for name in joints.names]
    return float((again.positions()[:, order] - joints.joints).norm(dim=-1).max())


def test_a_humanml_clip_through_bvh(shared, tmp_path):
    record = np.load(shared / "fixtures" / "mdm" / "features_012314.npz")
    clip = body(torch.from_numpy(record["new_joints"]))
    assert worst(clip, solve(clip), tmp_path) < 1e-4


@pytest.mark.parametrize("name", ["ac_salsa_27", "cc_06_05", "cs_running_test_1"])
def test_a_captured_skeletons_joints_through_bvh(shared, tmp_path, name):
    """The real rig's places alone, without its rotations: constant bones, so that FK comes back."""
    source = read_bvh(shared / "data" / "cmu" / "bvh" / f"{name}.bvh")[0].motion
    clip = JointMotion(source.names, source.parents, source.positions(), source.fps).cut(0, 80)
    solved = solve(clip)
    assert solved.flips == 0
    assert worst(clip, solved, tmp_path) < 1e-4


@pytest.mark.parametrize(("name", "most"), [("ac_salsa_27", 0.003), ("cc_06_05", 0.010), ("cs_running_test_1", 0.005)])
def test_a_captured_body_as_22_joints(shared, tmp_path, name, most):
    """Spine and collars of the 22 are points on the rig's lines, whose distances change a little as it bends."""
    source = read_bvh(shared / "data" / "cmu" / "bvh" / f"{name}.bvh")[0].motion.cut(0, 80)
    positions = source.positions()
    clip = body(map_body(source.names, source.parents, positions).apply(positions), source.fps)
    solved = solve(clip)
    assert solved.flips == 0
    assert solved.residual_mean < 0.001
    assert worst(clip, solved, tmp_path) == pytest.approx(solved.residual_max, abs=1e-4)
    assert solved.residual_max < most
    target = solve(body(retarget(clip.joints, HUMANML), source.fps))
    assert target.flips == 0
    assert target.residual_mean < 0.001


def test_starter_clips_have_constant_bones_and_no_flips():
    names = [f"{action}/{variant}" for action, variants in actions().items() for variant in variants]
    for clip in perform([Order(name, 50, seed) for seed, name in enumerate(names[::4])]):
        solved = solve(body(torch.from_numpy(clip.joints)))
        assert solved.residual_max < 1e-6
        assert solved.flips == 0


def test_generated_motions_have_no_flips_and_a_residual(cli, tmp_path):
    """A policy's bones are not constant; the residual says by how much, and the BVH moves no joint further."""
    first, second, third = starter.captions()[:60:20]  # the starter's own need no text model
    texts = (f"{first} | {second}", third)
    done = cli("generate", *texts, tmp_path / "out", "--sampler", "ddim", "--inference-timesteps", 5)
    assert done.exit_code == 0, done.output
    for path in sorted((tmp_path / "out" / "new_joints").glob("*.npy")):
        clip = body(torch.from_numpy(np.load(path)))
        solved = solve(clip)
        assert solved.flips == 0
        assert 1e-5 < solved.residual_mean < 0.02
        assert worst(clip, solved, tmp_path) == pytest.approx(solved.residual_max, abs=1e-4)
