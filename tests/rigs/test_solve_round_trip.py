"""From joints to BVH and back: what a person gets who opens the file elsewhere."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from motionkit import starter
from motionkit.formats.bvh import read_bvh, write_bvh
from motionkit.motion import HUMANML
from motionkit.motion.features.extract import retarget
from motionkit.motion.motion import JointMotion
from motionkit.rigs.bodymap import map_body
from motionkit.rigs.solver import Solved, solve
from motionkit.starter._catalogue import Order, actions, perform


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
