"""Loops of motions whose period is known, and of walks."""

from __future__ import annotations

import math

import pytest
import roma
import torch

from motionkit.errors import MotionkitError
from motionkit.geometry import rotate_yaw
from motionkit.motion import HUMANML
from motionkit.motion.motion import JointMotion, Motion
from motionkit.rigs import in_place, make_loop, repeated, seam_of, solve
from motionkit.rigs.rest import rest_rig
from motionkit.starter import generate


def swinging(frames: int, period: float, *, turn: float = 0.0, drift: float = 0.0, fps: float = 30.0) -> Motion:
    """A body whose joints swing with one period, on a way that turns by `turn` radians in it.

    `drift` bends the spine more and more, by so many radians in a period, so that no two frames are alike.
    """
    rig = rest_rig(HUMANML)
    time = torch.arange(frames, dtype=torch.float64) / period
    phase = 2 * math.pi * time[:, None, None]
    random = torch.Generator().manual_seed(1)
    size = 0.3 * torch.randn(rig.joints, 3, generator=random, dtype=torch.float64)
    offset = 6.0 * torch.rand(rig.joints, 3, generator=random, dtype=torch.float64)
    turns = size * torch.sin(phase + offset)
    turns[:, 0] = 0.0
    turns[:, 3, 0] += drift * time
    rotations = roma.rotvec_to_rotmat(turns)
    yaw = turn * time
    rotations[:, 0] = roma.rotvec_to_rotmat(torch.stack([0 * yaw, yaw, 0 * yaw], dim=-1))
    places = rig.offsets.repeat(frames, 1, 1)
    steps = rotate_yaw(torch.tensor([0.0, 0.0, 1.3 / fps], dtype=torch.float64).expand(frames, 3), yaw)
    places[:, 0] += steps.cumsum(0)
    places[:, 0, 1] += 0.02 * torch.sin(2 * phase[:, 0, 0])
    return Motion(rig.names, rig.parents, rig.offsets, rotations, places, fps)


@pytest.mark.parametrize("turn", [0.0, 0.9])
def test_a_period_is_found_and_repeated_without_a_seam(turn):
    motion = swinging(100, 40.0, turn=turn)
    loop = make_loop(motion)
    assert (loop.stop - loop.start) == 80  # two periods: at least half of the clip
    assert loop.seam == pytest.approx(loop.inside, rel=0.5)
    assert loop.step.yaw == pytest.approx(2 * turn, abs=1e-6)
    # Repeated, it is the motion that it was cut from, going on.
    whole = swinging(loop.start + 161, 40.0, turn=turn).cut(loop.start)
    again = repeated(loop.motion, loop.step, 2)
    assert again.frames == 161
    assert float((again.positions() - whole.positions()).norm(dim=-1).max()) < 2e-3


def test_ends_that_differ_are_bent_to_meet():
    motion = swinging(100, 40.0, drift=0.15)
    loop = make_loop(motion)
    assert loop.cut > 3 * loop.inside
    assert loop.seam < 1.5 * loop.inside
    assert loop.seam < loop.cut / 3
    first, last = loop.motion.cut(0, 1), loop.motion.cut(loop.motion.frames - 1)
    assert float((last.positions() - loop.step.times(first, 1).positions()).abs().max()) < 1e-12
    # The middle is as it was.
    middle = slice(15, loop.motion.frames - 15)
    assert torch.equal(loop.motion.rotations[middle], motion.cut(loop.start, loop.stop + 1).rotations[middle])


def test_the_seam_is_what_a_repetition_shows():
    motion = swinging(100, 40.0, drift=0.15)
    loop = make_loop(motion)
    three = repeated(loop.motion, loop.step, 3).positions()
    misses = (three[2:] - 2 * three[1:-1] + three[:-2]).norm(dim=-1).mean(-1)
    at = loop.motion.frames - 1
    # Of the two frames at the seam: the first one of the repetition, seen from before, and the one after it.
    assert seam_of(loop.motion, loop.step)[0] == pytest.approx(float(misses[at - 2 : at].max()), abs=1e-9)


def test_steps_forth_and_back_are_none():
    motion = swinging(90, 40.0, turn=0.7)
    loop = make_loop(motion)
    there = loop.step.times(loop.motion, 3)
    assert float((loop.step.times(there, -3).positions() - loop.motion.positions()).abs().max()) < 1e-12


@pytest.mark.parametrize("frames", [2, 7, 14])
def test_too_few_frames_are_refused(frames):
    with pytest.raises(MotionkitError, match="too short for a loop"):
        make_loop(swinging(frames, 40.0))


@pytest.mark.parametrize("turn", [0.0, 0.9])
def test_a_loop_in_place_ends_where_it_began(turn):
    loop = make_loop(swinging(100, 40.0, turn=turn))
    positions = in_place(loop.motion, loop.step).positions()
    assert float((positions[0] - positions[-1]).abs().max()) < 1e-9
    path = positions[:, 0, [0, 2]]
    assert float((path - path.mean(0)).norm(dim=-1).max()) < 0.3
    assert float(path.mean(0).abs().max()) < 1e-9


def test_in_place_keeps_the_sway_and_takes_the_path():
    motion = swinging(200, 40.0)
    sway = 0.03 * torch.sin(torch.arange(200, dtype=torch.float64) * 2 * math.pi / 30)
    motion.translations[:, 0, 0] += sway
    still = in_place(motion)
    path = still.translations[:, 0]
    assert float(path[:, 2].abs().max()) < 1e-3  # a steady way leaves nothing, at the ends neither
    middle = path[60:140, 0]
    assert float((middle - sway[60:140]).abs().max()) < 0.005
    assert torch.equal(path[:, 1], motion.translations[:, 0, 1])


def test_a_walk_of_the_starter_becomes_a_loop():
    walk = generate("walk", frames=100)
    joints = JointMotion(HUMANML.joint_names, HUMANML.parents, torch.from_numpy(walk.joints), walk.fps)
    loop = make_loop(solve(joints).motion)
    assert loop.seam < 2 * loop.inside
    assert float(loop.step.shift.norm()) > 1.0
