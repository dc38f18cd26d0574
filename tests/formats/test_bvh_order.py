"""Angles of a BVH file as another program sees them: it blends channels to show what lies between two frames."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest
import roma
import torch
from torch import Tensor

from motionkit.formats.bvh import read_bvh, write_bvh
from motionkit.formats.bvh.euler import CALM, ORDERS, choose_orders
from motionkit.motion import HUMANML, JointMotion, Motion
from motionkit.rigs import solve
from motionkit.rigs.bodymap import map_body
from motionkit.starter import generate

from ..made.bvh_files import Dialect, write_dialect


def arm(middle: float, order: str = "ZYX", frames: int = 60) -> Tensor:
    """A joint whose middle angle in one order swings up to `middle` degrees while others drift, ``[T, 1, 3, 3]``."""
    time = torch.linspace(0, math.tau, frames, dtype=torch.float64)
    angles = torch.stack([20 * time.sin(), middle * (1 - time.cos()) / 2, 25 * (2 * time).sin()], dim=1)
    return roma.euler_to_rotmat(order, angles, degrees=True)[:, None]


def written_orders(path: Path) -> list[str]:
    """Orders of the rotation channels in the file, joint by joint."""
    lines = re.findall(r"CHANNELS \d (.*)", path.read_text())
    return ["".join(re.findall(r"([XYZ])rotation", line)) for line in lines]


def half_frame_error(motion: Motion, folder: Path, order: str | None = None) -> float:
    """Largest angle in degrees between blended channels and the true middle of two frames, over frames and joints."""
    path = folder / "clip.bvh"
    write_bvh(path, motion, order=order)
    head, values = path.read_text().split("Frame Time:")
    rows = np.array([row.split() for row in values.splitlines()[1:]], dtype=float)
    again = read_bvh(path)[0].motion
    rotations = again.rotations[:, [joint for joint, name in enumerate(again.names) if not name.endswith(" End")]]
    worst, column = 0.0, 0
    widths = [int(width) for width in re.findall(r"CHANNELS (\d)", head)]
    for joint, (width, axes) in enumerate(zip(widths, written_orders(path), strict=True)):
        channels = torch.from_numpy(rows[:, column + width - 3 : column + width])
        column += width
        blended = roma.euler_to_rotmat(axes, (channels[1:] + channels[:-1]) / 2, degrees=True)
        turn = roma.rotmat_to_rotvec(rotations[:-1, joint].mT @ rotations[1:, joint])
        true = rotations[:-1, joint] @ roma.rotvec_to_rotmat(turn / 2)
        worst = max(worst, float(roma.rotmat_geodesic_distance(blended, true).max()))
    return math.degrees(worst)


def body(joints: Tensor, fps: float = 20.0) -> Motion:
    return solve(JointMotion(HUMANML.joint_names, HUMANML.parents, joints.double(), fps)).motion


def test_one_order_for_all_where_it_stays_calm():
    assert (
        choose_orders(torch.cat([arm(10.0), arm(CALM - 1), torch.eye(3).double().expand(60, 1, 3, 3)], dim=1))
        == ["ZYX"] * 3
    )
    assert choose_orders(torch.cat([arm(85.0), arm(10.0, "XYZ")], dim=1)) == ["ZXY"] * 2, "the next one for both"


def test_a_joint_that_no_common_order_suits_has_its_own():
    """A turn of 90 degrees about an axis locks the two orders that have it in the middle."""
    joints = torch.cat([arm(88.0, "ZYX"), arm(88.0, "ZXY"), arm(88.0, "XZY"), arm(10.0)], dim=1)
    chosen = choose_orders(joints)
    assert len(set(chosen)) > 1
    assert chosen == choose_orders(joints)
    for joint, order in enumerate(chosen):
        first, last = "XYZ".index(order[0]), "XYZ".index(order[2])
        assert joints[:, joint, first, last].abs().max() < math.sin(math.radians(CALM)), (joint, order)


@pytest.mark.parametrize("order", ORDERS)
def test_equals_are_told_apart_by_preference_alone(order):
    """Half a turn about the first axis, and noise in the last digit: the choice is the first of those that suit."""
    angle = torch.linspace(0, math.pi, 30, dtype=torch.float64)
    turns = roma.euler_to_rotmat(order, torch.stack([angle, 0 * angle, 0 * angle], dim=1))[:, None]
    suits = [name for name in ORDERS if name[1] != order[0]]
    for seed in range(3):
        torch.manual_seed(seed)
        noise = roma.rotvec_to_rotmat(1e-12 * torch.randn(30, 1, 3, dtype=torch.float64))
        assert choose_orders(turns @ noise) == [suits[0]]


@pytest.mark.parametrize("action", ["walk", "kick", "wave"])
def test_generated_bodies_can_be_blended_between_frames(tmp_path, action):
    motion = body(torch.from_numpy(generate(action, frames=80, seed=1).joints))
    assert half_frame_error(motion, tmp_path) < 3.0


@pytest.mark.parametrize(("name", "most"), [("ac_salsa_27", 2.5), ("cc_06_05", 2.5), ("ac_martial_06", 4.0)])
def test_captured_bodies_can_be_blended_between_frames(shared, tmp_path, name, most):
    """At 20 frames a second. With ZYX for every joint their elbows are off by up to 10 degrees and more."""
    source = read_bvh(shared / "data" / "cmu" / "bvh" / f"{name}.bvh")[0].motion.resample(20.0)
    positions = source.positions()
    motion = body(map_body(source.names, source.parents, positions).apply(positions))
    error, before = half_frame_error(motion, tmp_path), half_frame_error(motion, tmp_path, "ZYX")
    assert error < most
    assert before > 2 * error


def test_a_file_of_several_orders_comes_back(tmp_path):
    (clip,) = read_bvh(write_dialect(tmp_path / "a.bvh", Dialect(fingers=3, moving=True), 0.5))
    source = clip.motion
    rotations = source.rotations.clone()
    for joint, order in ((1, "ZYX"), (2, "YXZ"), (3, "XZY")):
        rotations[:, joint] = arm(88.0, order, source.frames)[:, 0]
    motion = Motion(source.names, source.parents, source.offsets, rotations, source.translations, source.fps)
    write_bvh(tmp_path / "b.bvh", motion)
    assert len(set(written_orders(tmp_path / "b.bvh"))) > 1
    (again,) = read_bvh(tmp_path / "b.bvh")
    assert float((again.motion.positions() - motion.positions()).norm(dim=-1).max()) < 1e-6
