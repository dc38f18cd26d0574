"""BVH files of other programs: their dialects, their angles between frames, and what another reader makes of them."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pymotion.ops.skeleton
import pytest
import roma
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pymotion.io.bvh import BVH
from torch import Tensor

from motionkit.clips.faults import frames_at_rest
from motionkit.formats.bvh import read_bvh, write_bvh
from motionkit.formats.bvh.euler import CALM, ORDERS, choose_orders
from motionkit.motion import HUMANML, JointMotion, Motion, ReadOptions
from motionkit.rigs import solve
from motionkit.rigs.bodymap import map_body
from motionkit.rigs.detect import UNITS
from motionkit.starter import generate

from ..made.bvh_files import NAMES, Dialect, person_joints, write_dialect
from ..made.bvh_files import write_bvh as write_walk
from ..rigs.rig_names import RIGS


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


PLAIN = Dialect()
LIMBS = [joint for joint, name in enumerate(HUMANML.joint_names) if "_" in name and "collar" not in name]
TURNS = ("XYZ", "XZY", "YXZ", "YZX", "ZXY", "ZYX")

TRAPS = {
    "plain": PLAIN,
    **{order: replace(PLAIN, orders=(order,)) for order in TURNS},
    "orders mixed": replace(PLAIN, orders=("ZXY", "XYZ", "YXZ", "ZYX", "YZX")),
    **{unit: replace(PLAIN, metres=UNITS[unit].metres) for unit in UNITS},
    **{f"{fps} fps": replace(PLAIN, fps=fps) for fps in (20, 24, 25, 30, 50, 100, 120)},
    "Z up": replace(PLAIN, up="z"),
    "Z up, metres": replace(PLAIN, up="z", metres=1.0),
    "27 joints": replace(PLAIN, fingers=5),
    "60 joints": replace(PLAIN, fingers=38),
    "70 joints, all moving": replace(PLAIN, fingers=48, moving=True),
    "T-pose first": replace(PLAIN, rest=True),
    "rotations first": replace(PLAIN, turns_first=True, orders=("YXZ",)),
    "Character1_": replace(PLAIN, names=tuple(RIGS["character1"][0]), orders=("XYZ",), metres=0.1, fps=120),
    "ASF": replace(PLAIN, names=tuple(RIGS["cmu-asf"][0]), metres=UNITS["asf"].metres, fps=120, orders=("ZYX",)),
    "everything": Dialect(("YXZ", "ZXY"), 0.1, 100, "z", tuple(RIGS["daz"][0]), 20, True, False, True),
}


@pytest.mark.parametrize("trap", TRAPS)
def test_every_dialect_gives_the_same_person(tmp_path, trap):
    dialect = TRAPS[trap]
    (clip,) = read_bvh(write_dialect(tmp_path / "a.bvh", dialect))
    motion = clip.motion
    assert (motion.fps, clip.notes["up"]) == (dialect.fps, dialect.up)
    assert {unit.words: unit.metres for unit in UNITS.values()}[clip.notes["unit"]] == dialect.metres
    assert clip.notes["joints"] == str(22 + dialect.fingers)
    assert clip.warnings == ()
    positions = motion.positions()
    assert frames_at_rest(positions) == int(dialect.rest)
    body = map_body(motion.names, motion.parents, positions[1:])
    truth = person_joints(np.arange(motion.frames) / dialect.fps)
    first = int(dialect.rest)
    np.testing.assert_allclose(
        positions[first:, [motion.names.index(name) for name in dialect.names]], truth[first:], atol=1e-6
    )
    np.testing.assert_allclose((body.weights @ positions)[first:, LIMBS], truth[first:, LIMBS], atol=1e-6)


@pytest.mark.parametrize("fps", [24, 25, 30, 50, 60, 100, 120])
def test_resampling_follows_the_motion(tmp_path, fps):
    """Whole steps are frames as they are; in between, the arc is within some millimetres of the smooth motion."""
    (clip,) = read_bvh(write_dialect(tmp_path / "a.bvh", replace(PLAIN, fps=fps)))
    slow = clip.motion.resample(20.0)
    assert slow.frames == 21
    truth = person_joints(np.arange(21) / 20.0)
    limit = 1e-6 if fps % 20 == 0 else 4e-3
    joints = slow.positions()[:, [slow.names.index(name) for name in NAMES]]
    assert float((joints - torch.from_numpy(truth)).norm(dim=-1).max()) < limit


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    orders=st.lists(st.sampled_from(TURNS), min_size=1, max_size=4),
    unit=st.sampled_from(sorted(UNITS)),
    fps=st.sampled_from([20, 30, 48, 60, 90, 120]),
    up=st.sampled_from("yz"),
    fingers=st.integers(0, 6),
    moving=st.booleans(),
    turns_first=st.booleans(),
)
def test_any_mixture_gives_the_same_person(tmp_path, orders, unit, fps, up, fingers, moving, turns_first):
    dialect = Dialect(
        tuple(orders), UNITS[unit].metres, fps, up, fingers=fingers, moving=moving, turns_first=turns_first
    )
    (clip,) = read_bvh(write_dialect(tmp_path / "a.bvh", dialect, 0.2))
    truth = person_joints(np.arange(clip.motion.frames) / fps)
    joints = clip.motion.positions()[:, [clip.motion.names.index(name) for name in NAMES]]
    np.testing.assert_allclose(joints, truth, atol=1e-6)


def test_what_the_user_says_is_not_questioned(tmp_path):
    path = write_dialect(tmp_path / "a.bvh", replace(PLAIN, up="z"))
    (clip,) = read_bvh(path, ReadOptions(up="y", unit="m"))
    assert clip.warnings == ()
    assert (clip.notes["unit"], clip.notes["up"]) == ("metres", "y")
    right, said = read_bvh(path)[0].motion.positions(), clip.motion.positions()
    torch.testing.assert_close(said[..., [0, 2, 1]] * said.new_tensor([1.0, 1.0, -1.0]), right * 100.0)


CENTIMETRES = ReadOptions(up="y", unit="cm")


def by_pymotion(path: Path) -> dict[str, np.ndarray]:
    """Places of every joint, in the file's unit; end sites are not among them."""
    bvh = BVH()
    bvh.load(str(path))
    turns, places, parents, *_ = bvh.get_data()
    joints, _ = pymotion.ops.skeleton.fk(turns, places[:, 0], places, parents)
    return dict(zip(map(str, bvh.data["names"]), joints.transpose(1, 0, 2), strict=True))


def worst(path: Path) -> float:
    """Largest distance in metres between our joints and pymotion's."""
    (clip,) = read_bvh(path, CENTIMETRES)
    ours = clip.motion.positions().numpy()
    theirs = by_pymotion(path)
    assert set(theirs) == {name for name in clip.motion.names if not name.endswith(" End")}
    gaps = [ours[:, clip.motion.names.index(name)] - 0.01 * joint for name, joint in theirs.items()]
    return float(np.linalg.norm(gaps, axis=-1).max())


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"orders": ("ZXY",)},
        {"orders": ("XYZ", "YXZ", "ZYX", "XZY", "YZX")},
        {"up": "z", "fps": 120.0},
        {"moving": True, "fingers": 20, "orders": ("YXZ", "ZXY")},
        {"rest": True, "fps": 30.0},
    ],
    ids=["plain", "zxy", "mixed", "z-up", "moving", "rest"],
)
def test_hand_made_files(tmp_path, change):
    assert worst(write_dialect(tmp_path / "a.bvh", replace(Dialect(), **change), 0.3)) < 1e-7


def test_walks(tmp_path):
    assert worst(write_walk(tmp_path / "a.bvh", 40)) < 1e-7


@pytest.mark.parametrize("order", ["ZYX", "YXZ", None])
def test_what_is_written_is_read_alike(tmp_path, order):
    (clip,) = read_bvh(write_dialect(tmp_path / "a.bvh", Dialect(fingers=3, moving=True, up="z"), 0.3))
    write_bvh(tmp_path / "b.bvh", clip.motion, order=order)
    ours, theirs = clip.motion.positions().numpy(), by_pymotion(tmp_path / "b.bvh")
    for name, joint in theirs.items():
        np.testing.assert_allclose(0.01 * joint, ours[:, clip.motion.names.index(name)], atol=1e-5, err_msg=name)


@pytest.mark.parametrize("clip", ["ac_salsa_25", "cc_01_01_s0", "cs_walking_extra_test_10"])
def test_captured_clips_of_three_rigs(shared, clip):
    assert worst(shared / f"data/cmu/bvh/{clip}.bvh") < 1e-7


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_all_captured_clips(shared, tmp_path):
    """Every clip imports as a person in centimetres, agrees with pymotion, and survives being written."""
    paths = sorted((shared / "data/cmu/bvh").glob("*.bvh"))
    assert len(paths) == 228
    for path in paths:
        assert worst(path) < 1e-7, path.name
        (clip,) = read_bvh(path)
        assert (clip.notes["unit"], clip.notes["up"], clip.notes["fps"]) == ("centimetres", "y", "60"), path.name
        assert not clip.warnings, path.name
        write_bvh(tmp_path / "again.bvh", clip.motion)
        (again,) = read_bvh(tmp_path / "again.bvh")
        assert again.motion.names == clip.motion.names
        moved = (again.motion.positions() - clip.motion.positions()).norm(dim=-1).max()
        assert float(moved) < 1e-6, path.name
