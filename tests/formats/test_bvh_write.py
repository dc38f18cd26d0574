from __future__ import annotations

import itertools
import math
import re
from dataclasses import replace

import numpy as np
import pytest
import roma
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from motionkit.errors import MotionkitError
from motionkit.formats.bvh import read_bvh, write_bvh
from motionkit.formats.bvh.euler import matrix_to_euler
from motionkit.formats.bvh.read import frame_rate
from motionkit.motion import Motion, ReadOptions
from motionkit.rigs.detect import UNITS

from ..made.bvh_files import Dialect, write_dialect, write_odd

ORDERS = ["".join(order) for order in itertools.permutations("XYZ")]


def loose(seed: int = 0, frames: int = 12) -> Motion:
    """A tree with a joint of several end sites, a bare leaf, a moving joint, in no special order."""
    generator = torch.Generator().manual_seed(seed)
    names = ("Hips", "A {x}", "B", "A {x} End", "C", "A {x} 2 End", "A [x]", "B\tb", "C End")
    parents = (-1, 0, 0, 1, 2, 1, 2, 4, 4)
    offsets = torch.randn(len(names), 3, generator=generator, dtype=torch.float64)
    rotations = roma.random_rotmat((frames, len(names)), dtype=torch.float64)
    ends = [joint for joint, name in enumerate(names) if name.endswith(" End")]
    rotations[:, ends] = torch.eye(3, dtype=torch.float64)
    translations = offsets.repeat(frames, 1, 1)
    translations[:, 0] += torch.randn(frames, 3, generator=generator, dtype=torch.float64)
    translations[:, 4] += 0.1 * torch.randn(frames, 3, generator=generator, dtype=torch.float64)
    return Motion(names, parents, offsets, rotations, translations, 30.0)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("unit", ["m", "cm", "mm", "in"])
def test_round_trip(tmp_path, order, unit):
    """No joint moves by a hundredth of a millimetre, even at random rotations without any continuity."""
    torch.manual_seed(0)
    motion = loose()
    write_bvh(tmp_path / "a.bvh", motion, unit=unit, order=order)
    (clip,) = read_bvh(tmp_path / "a.bvh", ReadOptions(up="y", unit=unit))
    again = clip.motion
    assert again.fps == 30.0
    places = [again.names.index(name) for name in
              ("Hips", "A_x", "B", "A_x End", "C", "A_x 2 End", "A_[x]", "B_b", "C End")]  # fmt: skip
    moved = (again.positions()[:, places] - motion.positions()).norm(dim=-1).max()
    assert float(moved) < 1e-5
    assert clip.warnings == ()


def test_round_trip_of_a_file_with_every_oddity(tmp_path):
    options = ReadOptions(up="y", unit="cm")
    (clip,) = read_bvh(write_odd(tmp_path / "a.bvh"), options)
    write_bvh(tmp_path / "b.bvh", clip.motion)
    (again,) = read_bvh(tmp_path / "b.bvh", options)
    assert again.motion.names == tuple(name.replace(" H", "_H") for name in clip.motion.names)
    assert again.motion.fps == clip.motion.fps == 120.0
    torch.testing.assert_close(again.motion.positions(), clip.motion.positions(), atol=1e-6, rtol=0)
    torch.testing.assert_close(again.motion.rotations, clip.motion.rotations, atol=1e-7, rtol=0)
    torch.testing.assert_close(again.motion.offsets[1:], clip.motion.offsets[1:], atol=1e-9, rtol=0)


def test_channels_and_ends_are_where_they_belong(tmp_path):
    write_bvh(tmp_path / "a.bvh", loose())
    text = (tmp_path / "a.bvh").read_text()
    joints = re.findall(r"(?:ROOT|JOINT) (\S+)\n\t*\{\n\t*OFFSET (.*)\n\t*CHANNELS (\d)", text)
    assert [(name, count) for name, _, count in joints] == [
        ("Hips", "6"), ("A_x", "3"), ("B", "3"), ("C", "6"), ("B_b", "3"), ("A_[x]", "3")
    ]  # fmt: skip
    assert joints[0][1] == "0.000000 0.000000 0.000000"
    assert text.count("End Site") == 5, "three that were there, two for joints without children"
    assert "Frame Time: 0.0333333333\n" in text
    (clip,) = read_bvh(tmp_path / "a.bvh", ReadOptions(up="y", unit="cm"))
    ends = [joint for joint, name in enumerate(clip.motion.names) if name in ("B_b End", "A_[x] End")]
    bones = clip.motion.offsets[ends]
    assert ((bones.norm(dim=-1) > 0.0199) & (bones.norm(dim=-1) < 0.1001)).all()
    for joint in ends:
        above = clip.motion.offsets[clip.motion.parents[joint]]
        torch.testing.assert_close(bones[ends.index(joint)] / bones[ends.index(joint)].norm(), above / above.norm())


def test_an_end_that_moves_is_a_joint(tmp_path):
    motion = loose()
    motion.translations[:, 8] += torch.linspace(0, 1, motion.frames).double()[:, None]
    write_bvh(tmp_path / "a.bvh", motion)
    (clip,) = read_bvh(tmp_path / "a.bvh", ReadOptions(up="y", unit="cm"))
    found = clip.motion.positions()[:, clip.motion.names.index("C_End")]
    torch.testing.assert_close(found, motion.positions()[:, 8], atol=1e-5, rtol=0)


def test_names_stay_apart(tmp_path):
    motion = replace(loose(), names=("R", "a b", "a_b", "a b End", "{}", "a b 2 End", "{ }", "a\nb", "{} End"))
    write_bvh(tmp_path / "a.bvh", motion)
    (clip,) = read_bvh(tmp_path / "a.bvh", ReadOptions(up="y", unit="cm"))
    assert clip.warnings == ()
    assert {"R", "a_b", "a_b_2", "a_b_3", "joint", "joint_2"} <= set(clip.motion.names)


@settings(max_examples=60, deadline=None)
@given(
    order=st.sampled_from(ORDERS),
    angles=st.lists(
        st.tuples(
            *[st.sampled_from([0.0, 90.0, -90.0, 180.0, 89.9999999, 45.0]) | st.floats(-400.0, 400.0) for _ in range(3)]
        ),
        min_size=1,
        max_size=6,
    ),
)
def test_angles_make_the_rotation_they_come_from(order, angles):
    rotations = roma.euler_to_rotmat(order, torch.tensor(angles, dtype=torch.float64), degrees=True)
    found = matrix_to_euler(rotations, order)
    torch.testing.assert_close(roma.euler_to_rotmat(order, found), rotations, atol=3e-7, rtol=0)
    assert found[0].abs().max() <= math.pi + 1e-9
    assert (found[1:] - found[:-1]).abs().max() <= math.pi + 1e-9 if len(found) > 1 else True


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_steady_turn_stays_steady(order, place):
    """Turning thrice about one of the axes is that angle growing and the others at rest, through every gimbal lock."""
    angle = torch.arange(0, 1081, 15, dtype=torch.float64).deg2rad()
    angles = torch.zeros(len(angle), 3, dtype=torch.float64)
    angles[:, place] = angle
    found = matrix_to_euler(roma.euler_to_rotmat(order, angles)[:, None], order)[:, 0]
    torch.testing.assert_close(found, angles, atol=1e-7, rtol=0)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("lock", [90.0, -90.0])
def test_angles_are_held_in_gimbal_lock(order, lock):
    """While only the sum of two angles is known, the last is the one it was before."""
    middle = [0.7 * lock, 0.9 * lock, lock, lock, lock, lock, 0.9 * lock]
    degrees = [[10.0 + 5 * frame, angle, 30.0] for frame, angle in enumerate(middle)]
    angles = torch.tensor(degrees, dtype=torch.float64).deg2rad()
    rotations = roma.euler_to_rotmat(order, angles)
    noisy = rotations @ roma.rotvec_to_rotmat(1e-9 * torch.ones(len(angles), 3, dtype=torch.float64))
    torch.testing.assert_close(matrix_to_euler(noisy, order), angles, atol=1e-7, rtol=0)


@pytest.mark.parametrize("order", ORDERS)
def test_angles_do_not_jump(tmp_path, order):
    """Of a smooth motion that passes near gimbal lock, no angle of the file changes by more than it must."""
    (clip,) = read_bvh(write_dialect(tmp_path / "a.bvh", Dialect(fps=120), 2.0))
    rotations = clip.motion.rotations
    found = matrix_to_euler(rotations, order)
    other = torch.stack([found[..., 0] + math.pi, math.pi - found[..., 1], found[..., 2] + math.pi], dim=-1)
    steps, others = (torch.remainder(here[1:] - found[:-1] + math.pi, 2 * math.pi) - math.pi for here in (found, other))
    assert bool((steps.square().sum(-1) <= others.square().sum(-1) + 1e-9).all()), "each is the nearer of two"
    torch.testing.assert_close(found[1:] - found[:-1], steps, atol=1e-9, rtol=0)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"unit": "furlong"}, "no unit 'furlong'"),
        ({"order": "ZZX"}, "not an order"),
        ({"order": "zyx"}, "not an order"),
    ],
    ids=["unit", "twice", "case"],
)
def test_unknown_choices(tmp_path, change, words):
    with pytest.raises(MotionkitError, match=words) as caught:
        write_bvh(tmp_path / "a.bvh", loose(), **change)
    assert "known: " in caught.value.fix
    assert list(tmp_path.iterdir()) == []


def test_motions_that_cannot_be_written(tmp_path):
    motion = loose()
    motion.translations[3, 2, 1] = math.nan
    for bad, word in ((motion, "frame 3"), (loose().cut(0, 0), "no frame")):
        with pytest.raises(MotionkitError, match=word):
            write_bvh(tmp_path / "a.bvh", bad)
    assert list(tmp_path.iterdir()) == []


def test_units(tmp_path):
    heights = {}
    for unit in UNITS:
        write_bvh(tmp_path / "a.bvh", loose(), unit=unit)
        row = (tmp_path / "a.bvh").read_text().splitlines()[-1]
        heights[unit] = float(row.split()[1]) * UNITS[unit].metres
    np.testing.assert_allclose(list(heights.values()), float(loose().translations[-1, 0, 1]), atol=1e-6)


@pytest.mark.parametrize(
    "fps", [0.5, 7.3, 10, 12, 12.5, 15, 20, 23.976, 24, 25, 29.97, 30, 48, 50, 59.94, 60, 62.5, 100, 119.88, 120, 125,
            200, 240, 250, 480, 1000]
)  # fmt: skip
def test_every_rate_comes_back_as_it_was(tmp_path, fps):
    write_bvh(tmp_path / "a.bvh", replace(loose(), fps=fps))
    assert read_bvh(tmp_path / "a.bvh")[0].motion.fps == fps


def test_a_kit_clip_keeps_its_rate():
    """12.5 frames per second are 0.08 s each, which is also what some programs write for 12."""
    assert frame_rate("0.08") == 12.5
    assert frame_rate("0.0833") == 12.0
    assert frame_rate("0.016") == 60.0
    assert frame_rate("0.0160000") == 60.0, "milliseconds filled up with zeros"
    assert frame_rate("0.0160000000") == 62.5, "as motionkit writes it"
