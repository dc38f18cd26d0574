"""Limbs of two bones, feet that are held where they stand, and loops."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import roma
import torch
from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.formats.bvh import read_bvh
from motionkit.geometry import accumulate_rotations, rotate_yaw
from motionkit.motion import HUMANML, Motion
from motionkit.motion.motion import JointMotion
from motionkit.rigs import fix_feet, in_place, make_loop, repeated, seam_of, soft_contacts, solve
from motionkit.rigs._contacts import joint_contacts
from motionkit.rigs._fix_feet import two_bones
from motionkit.rigs.rest import rest_rig
from motionkit.starter import OFFSETS, PARENTS, generate

HINGE = torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64)


def limb(*places: tuple[float, float, float]) -> tuple[Tensor, ...]:
    return tuple(torch.tensor(place, dtype=torch.float64) for place in places)


def moved(start: Tensor, middle: Tensor, end: Tensor, target: Tensor, hinge: Tensor) -> tuple[Tensor, Tensor]:
    """Return where knee and ankle are afterwards."""
    first, second = two_bones(start, middle, end, target, hinge)
    for turn in (first, second):
        eye = torch.eye(3, dtype=torch.float64).expand_as(turn)
        torch.testing.assert_close(turn @ turn.mT, eye, atol=1e-12, rtol=0)
    knee = start + (first @ (middle - start)[..., None])[..., 0]
    return knee, knee + (second @ (end - middle)[..., None])[..., 0]


@pytest.mark.parametrize(("upper", "lower", "distance"), [(0.5, 0.5, 0.8), (0.45, 0.4, 0.6), (0.4, 0.45, 0.3)])
def test_a_triangle_in_the_plane(upper: float, lower: float, distance: float) -> None:
    """A straight leg whose ankle is lifted under the hip: the law of cosines says where the knee is, ahead of it."""
    hip, knee, ankle, target = limb((0, 1, 0), (0, 1 - upper, 0), (0, 1 - upper - lower, 0), (0, 1 - distance, 0))
    found, end = moved(hip, knee, ankle, target, HINGE)
    down = (upper**2 + distance**2 - lower**2) / (2 * distance)
    ahead = math.sqrt(upper**2 - down**2)
    assert found.tolist() == pytest.approx([0.0, 1 - down, ahead], abs=1e-9)
    assert end.tolist() == pytest.approx(target.tolist(), abs=1e-9)


def test_any_limb_reaches_any_target_within_reach_and_bends_the_way_it_bent() -> None:
    torch.manual_seed(0)
    start, middle, end = (torch.randn(3, 400, 3, dtype=torch.float64)).unbind()
    hinge = torch.linalg.cross(middle - start, end - middle, dim=-1)
    upper, lower = (middle - start).norm(dim=-1), (end - middle).norm(dim=-1)
    least = (upper - lower).abs()
    distance = least + (upper + lower - least) * torch.rand(400, dtype=torch.float64)
    aim = torch.nn.functional.normalize(torch.randn(400, 3, dtype=torch.float64), dim=-1)
    target = start + aim * distance[:, None]
    knee, reached = moved(start, middle, end, target, hinge)
    torch.testing.assert_close(reached, target, atol=1e-9, rtol=0)
    torch.testing.assert_close((knee - start).norm(dim=-1), upper)
    torch.testing.assert_close((reached - knee).norm(dim=-1), lower)
    # The smallest turn of the whole limb carries the plane in which it bends.
    first, _ = two_bones(start, middle, end, target, hinge)
    bends = torch.linalg.cross(knee - start, reached - knee, dim=-1)
    carried = (first @ hinge[..., None])[..., 0]
    assert float(torch.nn.functional.cosine_similarity(bends, carried, dim=-1).min()) > 1 - 1e-9


def test_a_target_at_the_end_turns_nothing() -> None:
    hip, knee, ankle = limb((0, 1, 0), (0.1, 0.6, 0.1), (0.1, 0.2, -0.1))
    hinge = torch.linalg.cross(knee - hip, ankle - knee, dim=-1)
    for turn in two_bones(hip, knee, ankle, ankle, hinge):
        torch.testing.assert_close(turn, torch.eye(3, dtype=torch.float64), atol=1e-9, rtol=0)


@pytest.mark.parametrize(("far", "length"), [(3.0, 0.9), (0.01, 0.1)])
def test_out_of_reach_the_limb_goes_as_far_as_it_does(far: float, length: float) -> None:
    hip, knee, ankle = limb((0, 0, 0), (0, -0.5, 0.0), (0, -0.85, -0.19364916731))  # bones of 0.5 and 0.4
    aim = torch.tensor([0.6, -0.8, 0.0], dtype=torch.float64)
    _, end = moved(hip, knee, ankle, far * aim, HINGE)
    torch.testing.assert_close(end, length * aim, atol=1e-6, rtol=0)


def test_a_hinge_askew_still_reaches() -> None:
    hip, knee, ankle, target = limb((0, 1, 0), (0, 0.5, 0.1), (0, 0.05, 0), (0.1, 0.2, 0.1))
    _, end = moved(hip, knee, ankle, target, torch.tensor([1.0, 0.3, 0.2], dtype=torch.float64))
    torch.testing.assert_close(end, target, atol=1e-9, rtol=0)


FPS = 30.0
LEGS = (1, 2, 4, 5, 7, 8)
"""Hips, knees and ankles."""
FEET = ((7, 10), (8, 11))


@cache
def walk(action: str = "walk", frames: int = 90) -> Motion:
    """A walk of the starter, whose feet do not slide."""
    made = generate(action, fps=FPS, frames=frames, seed=3)
    offsets = torch.from_numpy(OFFSETS.copy())
    translations = offsets.repeat(frames, 1, 1)
    translations[:, 0] = torch.from_numpy(made.root)
    return Motion(HUMANML.joint_names, PARENTS, offsets, torch.from_numpy(made.rotations), translations, FPS)


def carried(motion: Motion, *, x: float = 0.0, z: float = 0.0, y: float = 0.0) -> Motion:
    """Return the motion with its body carried along, m/s."""
    translations = motion.translations.clone()
    seconds = torch.arange(motion.frames, dtype=torch.float64) / motion.fps
    translations[:, 0] += seconds[:, None] * torch.tensor([x, y, z], dtype=torch.float64)
    return replace(motion, translations=translations)


def standing(bend: float) -> Motion:
    """A body that stands still for 2 s with knees bent by an angle (radians), shanks upright."""
    import roma

    offsets = torch.from_numpy(OFFSETS.copy())
    rotations = torch.eye(3, dtype=torch.float64).repeat(60, 22, 1, 1)
    back, ahead = (roma.rotvec_to_rotmat(torch.tensor([a, 0.0, 0.0], dtype=torch.float64)) for a in (bend, -bend))
    rotations[:, [1, 2]], rotations[:, [4, 5]] = ahead, back
    translations = offsets.repeat(60, 1, 1)
    translations[:, 0] = torch.tensor([0.0, 1.0, 0.0])
    return Motion(HUMANML.joint_names, PARENTS, offsets, rotations, translations, FPS)


def bones(motion: Motion) -> Tensor:
    positions = motion.positions()
    return (positions[:, 1:] - positions[:, [max(parent, 0) for parent in motion.parents[1:]]]).norm(dim=-1)


def test_feet_that_slide_by_a_known_speed_stand() -> None:
    sliding = carried(walk(), x=0.15)
    fixed = fix_feet(sliding)
    assert fixed.before == pytest.approx(0.15, abs=0.02)
    assert fixed.after < 0.01
    assert fixed.left == 0
    # Independently: joints that stand for certain, by the truth, in the middle of a stand.
    truth = joint_contacts(walk().positions(), FPS, FEET) > 0.8
    points = fixed.motion.positions()[:, [*FEET[0], *FEET[1]]].unflatten(1, (2, 2))
    speed = FPS * points[..., ::2].diff(dim=0).norm(dim=-1)
    sure = truth[1:] & truth[:-1]
    sure[..., 0] &= ~sure[..., 1]  # the ankle, where the toe does not stand
    assert float(speed[sure].median()) < 1e-6
    assert float(speed[sure].mean()) < 0.02


def test_nothing_but_the_legs_changes_and_bones_keep_their_lengths() -> None:
    sliding = carried(walk(), x=0.15, z=0.05)
    fixed = fix_feet(sliding).motion
    torch.testing.assert_close(bones(fixed), bones(sliding), atol=1e-5, rtol=0)
    others = [joint for joint in range(22) if joint not in LEGS]
    assert torch.equal(fixed.rotations[:, others], sliding.rotations[:, others])
    assert torch.equal(fixed.translations, sliding.translations)
    turns = [accumulate_rotations(one.rotations, one.parents)[:, [7, 8, 10, 11]] for one in (fixed, sliding)]
    torch.testing.assert_close(*turns, atol=1e-9, rtol=0)
    eye = torch.eye(3, dtype=torch.float64).expand_as(fixed.rotations)
    torch.testing.assert_close(fixed.rotations.mT @ fixed.rotations, eye, atol=1e-9, rtol=0)


def test_frames_away_from_a_stand_are_unchanged_and_nothing_pops() -> None:
    sliding = carried(walk(), x=0.15)
    fixed = fix_feet(sliding)
    given, found = sliding.positions(), fixed.motion.positions()
    contacts = soft_contacts(given, FPS, FEET) > 0.5
    for side, leg in enumerate(((1, 4, 7, 10), (2, 5, 8, 11))):
        near = torch.nn.functional.max_pool1d(contacts[None, None, :, side].double(), 7, 1, 3)[0, 0] > 0
        assert bool((~near).any())
        assert torch.equal(fixed.motion.rotations[~near][:, leg], sliding.rotations[~near][:, leg])
        assert not torch.equal(fixed.motion.rotations[near][:, leg], sliding.rotations[near][:, leg])
    # A correction of up to 4 cm comes within three frames: no joint goes further from frame to frame than that.
    moved = (found - given).diff(dim=0).norm(dim=-1)
    assert float((found - given).norm(dim=-1).max()) < 0.12
    assert float(moved.max()) < 0.05


def test_feet_that_stand_still_are_left_alone() -> None:
    still = standing(0.4)
    fixed = fix_feet(still)
    assert (fixed.before, fixed.after, fixed.stands, fixed.left, fixed.short) == (0.0, 0.0, 2, 0, 0.0)
    torch.testing.assert_close(fixed.motion.rotations, still.rotations, atol=1e-9, rtol=0)


def test_knees_that_never_bent_bend_forwards() -> None:
    """The hips sink by 0.06 m while the feet would go into the floor: the feet stay, the knees go ahead (+Z)."""
    straight = standing(0.0)
    sunk = straight.translations.clone()
    sunk[:, 0, 1] -= torch.linspace(0, 0.06, 60, dtype=torch.float64)
    fixed = fix_feet(replace(straight, translations=sunk))
    positions = fixed.motion.positions()
    knees, hips, ankles = positions[:, [4, 5], 2], positions[:, [1, 2], 2], positions[:, [7, 8], 2]
    assert float((knees - (hips + ankles) / 2)[-1].min()) > 0.05
    heights = positions[:, [10, 11], 1]
    assert float((heights - heights[-1])[20:].abs().max()) < 0.02


def test_a_leg_that_is_too_short_is_stretched_no_further_and_stays_on_the_ground() -> None:
    gliding = carried(standing(0.2), x=0.2)
    fixed = fix_feet(gliding)
    assert fixed.left == 0
    assert 0.0 < fixed.after < 0.7 * fixed.before
    assert 0.1 < fixed.short < 0.9
    positions, given = fixed.motion.positions(), gliding.positions()
    torch.testing.assert_close(positions[..., [7, 8, 10, 11], 1], given[..., [7, 8, 10, 11], 1], atol=1e-9, rtol=0)
    torch.testing.assert_close(bones(fixed.motion), bones(gliding), atol=1e-9, rtol=0)
    for hip, knee, ankle in ((1, 4, 7), (2, 5, 8)):
        length = (positions[:, knee] - positions[:, hip]).norm(dim=-1) + (
            positions[:, ankle] - positions[:, knee]
        ).norm(dim=-1)
        assert bool(((positions[:, ankle] - positions[:, hip]).norm(dim=-1) <= 0.9971 * length).all())


def test_a_foot_that_glides_further_than_a_leg_reaches_is_left_as_it_is() -> None:
    gliding = carried(standing(0.2), x=0.5)
    fixed = fix_feet(gliding)
    assert (fixed.stands, fixed.left) == (2, 2)
    assert fixed.before == fixed.after == pytest.approx(0.5, abs=1e-6)
    assert torch.equal(fixed.motion.rotations, gliding.rotations)


def test_a_body_whose_feet_never_stand() -> None:
    fixed = fix_feet(carried(standing(0.2), x=4.0))
    assert fixed.stands == 0
    assert fixed.before != fixed.before, "NaN"
    single = fix_feet(standing(0.2).cut(0, 1))
    assert (single.motion.frames, single.stands) == (1, 0)


def test_other_rates_and_rigs_without_toes() -> None:
    fast = carried(walk().resample(120.0), x=0.15)
    assert fix_feet(fast).after < 0.01
    sliding = carried(walk(), x=0.15)
    kept = [joint for joint in range(22) if joint not in (10, 11)]
    place = {joint: row for row, joint in enumerate(kept)}
    bare = Motion(
        tuple(sliding.names[joint] for joint in kept), tuple(place.get(sliding.parents[joint], -1) for joint in kept),
        sliding.offsets[kept], sliding.rotations[:, kept], sliding.translations[:, kept], FPS,
    )  # fmt: skip
    fixed = fix_feet(bare)
    assert fixed.after < 0.2 * fixed.before


def test_what_is_missing_is_named() -> None:
    motion = walk()
    broken = motion.rotations.clone()
    broken[3, 4] = torch.nan
    for change, word in (
        ({"names": tuple(name.replace("left_knee", "blob") for name in motion.names)}, "left knee"),
        ({"parents": tuple(0 if joint == 4 else parent for joint, parent in enumerate(motion.parents))}, "left_knee"),
        ({"rotations": broken}, "not finite"),
    ):
        with pytest.raises(MotionkitError, match=word):
            fix_feet(replace(motion, **change))


@pytest.mark.parametrize("name", ["cs_walking_test_1", "cc_06_05", "ac_salsa_27"])
def test_captured_clips_of_three_rigs(shared: Path, name: str) -> None:
    motion = read_bvh(shared / "data" / "cmu" / "bvh" / f"{name}.bvh")[0].motion
    fixed = fix_feet(motion)
    assert fixed.stands > 3
    assert fixed.after < 0.25 * fixed.before
    torch.testing.assert_close(bones(fixed.motion), bones(motion), atol=1e-5, rtol=0)
    # Captured feet stand nearly still, so that little is to do.
    assert float((fixed.motion.positions() - motion.positions()).norm(dim=-1).quantile(0.99)) < 0.1


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
