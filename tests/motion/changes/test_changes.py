"""Changes of clips: what differs is what is meant, and nothing else."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest
import torch
from torch import Tensor

from motionkit.geometry import bones_from_positions, rotate_yaw
from motionkit.metrics import joint_jerk
from motionkit.motion import HUMANML, KIT, mirror
from motionkit.motion.changes.place_and_time import (
    can_shuffle,
    clip_features,
    clip_joints,
    in_order,
    later_start,
    mirrored,
    one_after_another,
    path_times,
    reversed_time,
    shuffled_frames,
    shuffled_pieces,
    sliding,
    swapped_quarters,
    tempo_times,
    trembling,
    turned,
)
from motionkit.motion.changes.poses import (
    Poses,
    held_frame,
    joint_ranges,
    limbs,
    lively_statue,
    mean_pose,
    placed,
    running_mean,
    slerp,
    still_limb,
    swing_times,
)
from motionkit.motion.changes.registry import CHANGES, Scene, goes_one_way, moves, travels
from motionkit.starter import generate

from ...made.bodies import walker

FPS = 20.0


def clip(name: str, frames: int = 81) -> Tensor:
    """Joints of a starter clip in float64, as features would hold them: frame 0 facing +Z."""
    joints = made(name, frames)
    return placed(joints, joints, HUMANML)


@cache
def made(name: str, frames: int) -> Tensor:
    return torch.from_numpy(generate(name, frames=frames).joints)


def lengths(joints: Tensor) -> Tensor:
    return bones_from_positions(joints, HUMANML.parents)[:, 1:].norm(dim=-1)


def poses_of(joints: Tensor) -> Tensor:
    """Inner products of the bones of each frame, which do not know the heading."""
    bones = bones_from_positions(joints, HUMANML.parents)[:, 1:]
    return bones @ bones.transpose(1, 2)


def angles(first: Tensor, second: Tensor) -> Tensor:
    """Angle between unit vectors, exact where it is small."""
    return 2.0 * torch.atan2((first - second).norm(dim=-1), (first + second).norm(dim=-1))


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def ground(joints: Tensor) -> Tensor:
    return joints[:, 0, [0, 2]]


def steps(joints: Tensor) -> Tensor:
    """Lengths of the root's steps over the ground."""
    return ground(joints).diff(dim=0).norm(dim=-1)


def test_a_clip_taken_apart_is_put_together() -> None:
    for joints in (clip("walk"), clip("turn/around-left")):
        poses = Poses.of(joints, HUMANML, FPS)
        torch.testing.assert_close(poses.joints, joints)
        torch.testing.assert_close(poses.directions.norm(dim=-1), torch.ones(len(joints), 21, dtype=torch.float64))


def test_the_heading_follows_a_turn() -> None:
    still = clip("pose/hips")[:1].expand(81, -1, -1)
    rate = 0.02
    yaw = rate * torch.arange(81, dtype=torch.float64)
    found = Poses.of(rotate_yaw(still, yaw[:, None]), HUMANML, FPS)
    # A steady turn is not changed by smoothing, away from the ends.
    assert float(found.yaw[45] - found.yaw[35]) == pytest.approx(10 * rate, abs=1e-3)
    torch.testing.assert_close(found.offsets()[40], Poses.of(still, HUMANML, FPS).offsets()[40], atol=1e-3, rtol=0)


def test_slerp_divides_the_angle() -> None:
    generator = seeded()
    first, second = torch.nn.functional.normalize(
        torch.randn(2, 50, 3, generator=generator, dtype=torch.float64), dim=-1
    )
    part = torch.rand(50, generator=generator, dtype=torch.float64)
    between = slerp(first, second, part)
    torch.testing.assert_close(angles(first, between), part * angles(first, second))
    torch.testing.assert_close(angles(between, second), (1 - part) * angles(first, second))
    opposite = slerp(first, -first, torch.tensor(0.5))
    torch.testing.assert_close(opposite, first)


def test_a_statue_does_not_swing_and_keeps_its_path() -> None:
    joints = clip("walk")
    statue = mean_pose(joints, HUMANML, FPS)
    before, after = Poses.of(joints, HUMANML, FPS), Poses.of(statue, HUMANML, FPS)
    assert float(joint_ranges(joints, HUMANML, FPS).max()) > 0.5
    torch.testing.assert_close(poses_of(statue), poses_of(statue)[:1].expand(81, -1, -1))
    assert float(joint_ranges(statue, HUMANML, FPS).max()) < 0.005  # the heading is smoothed once more
    torch.testing.assert_close(lengths(statue), lengths(joints).mean(0).expand(81, -1))
    torch.testing.assert_close(steps(statue), steps(joints))
    torch.testing.assert_close(after.floor, joints[..., 1].amin().expand(81))
    torch.testing.assert_close(statue[..., 1].amin(), joints[..., 1].amin())
    # The heading is smoothed once more, which hardly shows.
    assert float((after.yaw - after.yaw[0] - before.yaw + before.yaw[0]).abs().max()) < 0.05


def test_swing_times_a_factor_scales_every_turn() -> None:
    joints = clip("wave/left")
    poses = Poses.of(joints, HUMANML, FPS)
    centre = poses.averaged()
    part = centre.towards(poses, 0.3)
    torch.testing.assert_close(
        angles(centre.directions, part.directions), 0.3 * angles(centre.directions, poses.directions)
    )
    torch.testing.assert_close(part.floor - centre.floor, 0.3 * (poses.floor - centre.floor))
    made = swing_times(joints, HUMANML, FPS, factor=0.3)
    torch.testing.assert_close(lengths(made), lengths(joints))
    torch.testing.assert_close(steps(made), steps(joints))
    torch.testing.assert_close(swing_times(joints, HUMANML, FPS, factor=1.0), joints)
    assert 0.2 < float(joint_ranges(made, HUMANML, FPS).max() / joint_ranges(joints, HUMANML, FPS).max()) < 0.4


def test_a_held_frame_is_that_frame() -> None:
    joints = clip("kick/high-left")
    made = held_frame(joints, HUMANML, FPS, frame=30)
    torch.testing.assert_close(lengths(made), lengths(joints))
    torch.testing.assert_close(steps(made), steps(joints))
    torch.testing.assert_close(poses_of(made), poses_of(joints)[30:31].expand(81, -1, -1))


def test_a_running_mean_takes_out_what_is_faster() -> None:
    # A bone that swings by small angles is averaged as its angle is: a sine of n frames over a window of w frames has
    # the amplitude sin(pi w / n) / (w sin(pi / n)) left.
    joints = clip("pose/hips")[:1].repeat(120, 1, 1)
    poses = Poses.of(joints, HUMANML, FPS)
    angle = 0.05 * torch.sin(2 * math.pi * torch.arange(120, dtype=torch.float64) / 16)
    bone = HUMANML.index("left_wrist") - 1
    directions = poses.directions.clone()
    first = directions[:, bone]
    side = torch.nn.functional.normalize(
        torch.linalg.cross(first, first.new_tensor([0.0, 1.0, 0.0]).expand_as(first)), dim=-1
    )
    directions[:, bone] = angle.cos()[:, None] * first + angle.sin()[:, None] * side
    swinging = replace(poses, directions=directions)
    smooth = swinging.smoothed(9)
    left = (smooth.directions[:, bone] * side).sum(-1)[20:100].abs().max() / (directions[:, bone] * side).sum(
        -1
    ).abs().max()
    expected = math.sin(math.pi * 9 / 16) / (9 * math.sin(math.pi / 16))
    assert abs(float(left) - expected) < 1e-3
    torch.testing.assert_close(swinging.smoothed(1).joints, swinging.joints)
    torch.testing.assert_close(lengths(running_mean(swinging.joints, HUMANML, FPS, seconds=0.5)), lengths(joints))


def test_a_still_limb_leaves_the_others_as_they_are() -> None:
    joints = clip("wave/left")
    made = still_limb(joints, HUMANML, FPS)
    arm = [HUMANML.index(name) for name in ("left_elbow", "left_wrist")]
    others = [joint for joint in range(22) if joint not in arm]
    torch.testing.assert_close(made[:, others], joints[:, others])
    before, after = joint_ranges(joints, HUMANML, FPS), joint_ranges(made, HUMANML, FPS)
    assert float(before[arm[-1]]) > 0.5
    assert float(after[arm[-1]]) < 0.1  # what the chest does is left
    torch.testing.assert_close(lengths(made), lengths(joints))
    assert all(HUMANML.joint_names[limb[-1]].endswith(("foot", "wrist")) for limb in limbs(HUMANML))
    assert len(limbs(HUMANML)) == len(limbs(KIT)) == 4


def test_a_lively_statue_has_this_pose_and_that_movement() -> None:
    joints, other = clip("walk"), clip("wave/left", 41)
    torch.testing.assert_close(lively_statue(joints, HUMANML, FPS, other=joints), joints)
    made = Poses.of(lively_statue(joints, HUMANML, FPS, other=other), HUMANML, FPS)
    source = Poses.of(other, HUMANML, FPS)
    turn = angles(Poses.of(joints, HUMANML, FPS).averaged().directions[0], made.directions)
    # Every bone turns as much as its model does; vectors along the axis of a turn move less than others, so the mean.
    wanted = angles(source.averaged().directions[0], source.directions)
    assert float(turn[:41].max()) == pytest.approx(float(wanted.max()), rel=0.1)
    torch.testing.assert_close(made.directions[45], made.directions[35], atol=2e-2, rtol=0)  # to and fro
    torch.testing.assert_close(steps(made.joints), steps(joints))
    torch.testing.assert_close(lengths(made.joints), lengths(joints))


def test_pieces_in_another_order_are_the_clips_own_frames() -> None:
    joints = clip("sit/both", 101)
    cuts, order = [0, 30, 60, 101], [1, 0, 2]
    made = in_order(joints, HUMANML, FPS, cuts=cuts, order=order)
    index = [*range(30, 60), *range(30), *range(60, 101)]
    seams = {frame for seam in (29, 59) for frame in range(seam - 1, seam + 3)}  # two frames to each side: 0.2 s
    kept = [place for place in range(101) if place not in seams]
    torch.testing.assert_close(poses_of(made)[kept], poses_of(joints)[[index[place] for place in kept]])
    torch.testing.assert_close(made[kept, 0, 1], joints[[index[place] for place in kept], 0, 1])
    torch.testing.assert_close(lengths(made), lengths(joints))
    torch.testing.assert_close(made[..., 1].amin(), joints[..., 1].amin())
    torch.testing.assert_close(in_order(joints, HUMANML, FPS, cuts=[0, 101], order=[0]), joints)
    # Joined: over a seam every joint moves in steps.
    unjoined = Poses.of(joints, HUMANML, FPS).reordered(torch.tensor(index), join=False).joints
    assert float(made.diff(dim=0).norm(dim=-1).max()) < 0.5 * float(unjoined.diff(dim=0).norm(dim=-1).max())


def test_every_frame_keeps_its_step_in_another_order() -> None:
    joints = clip("walk")
    made = swapped_quarters(joints, HUMANML, FPS)
    index = [*range(20, 40), *range(20), *range(60, 81), *range(40, 60)]
    own = torch.cat([steps(joints), steps(joints)[-1:]])[index][:-1]
    torch.testing.assert_close(steps(made), own)
    torch.testing.assert_close(ground(made)[0], torch.zeros(2, dtype=torch.float64))


@pytest.mark.parametrize("frames", [41, 61, 121, 196])
def test_pieces_are_long_enough_and_all_there(frames: int) -> None:
    joints = clip("walk", frames)
    if frames < 3 * 0.5 * FPS:
        assert not can_shuffle(30 - 1, FPS)
    marked = joints - joints[..., 1].amin(1)[:, None, None] * joints.new_tensor([0.0, 1.0, 0.0])
    marked = marked + torch.arange(frames)[:, None, None] * joints.new_tensor([0.0, 1.0, 0.0])
    for seed in range(5):
        made = Poses.of(shuffled_pieces(marked, HUMANML, FPS, generator=seeded(seed)), HUMANML, FPS).floor
        order = (made - made.min()).round().long()
        breaks = [0, *((order.diff() < 0) | (order.diff() > 3)).nonzero()[:, 0].tolist(), frames - 1]
        assert (order.diff() < 0).any()
        again = Poses.of(shuffled_pieces(marked, HUMANML, FPS, generator=seeded(seed)), HUMANML, FPS).floor
        torch.testing.assert_close(made, again)
        assert len(breaks) >= 3


def test_one_clip_after_another_goes_on_where_the_first_ends() -> None:
    first, second = clip("walk/turn-left"), clip("kick/high-left", 61)
    made = one_after_another([first, second], HUMANML, FPS)
    assert len(made) == 80 + 61
    inner = [*range(78), *range(83, 141)]  # two frames to each side of the seam
    source = torch.cat([poses_of(first)[:80], poses_of(second)])
    torch.testing.assert_close(poses_of(made)[inner], source[inner])
    torch.testing.assert_close(steps(made), torch.cat([steps(first), steps(second)]))
    torch.testing.assert_close(ground(made)[:81], ground(first))
    torch.testing.assert_close(lengths(made)[0], lengths(first)[0])
    yaw = Poses.of(made, HUMANML, FPS).yaw
    assert float((yaw[85] - yaw[75]).abs()) < 0.3


def test_reversed_twice_is_the_clip() -> None:
    joints = clip("sit/down")
    made = reversed_time(joints, HUMANML)
    torch.testing.assert_close(poses_of(made), poses_of(joints).flip(0))
    torch.testing.assert_close(reversed_time(made, HUMANML), joints)


def test_shuffled_frames_are_the_frames() -> None:
    joints = clip("walk")
    made = shuffled_frames(joints, HUMANML, FPS, generator=seeded())
    torch.testing.assert_close(made[:, 0, 1].sort().values, joints[:, 0, 1].sort().values)
    torch.testing.assert_close(lengths(made), lengths(joints))
    assert float(joint_jerk(made[None], FPS).mean()) > 10 * float(joint_jerk(joints[None], FPS).mean())


def test_twice_as_fast_has_half_the_frames() -> None:
    joints = clip("walk")
    fast, slow = tempo_times(joints, HUMANML, FPS, factor=2.0), tempo_times(joints, HUMANML, FPS, factor=0.5)
    assert len(fast) - 1 == 40
    assert len(slow) - 1 == 160
    torch.testing.assert_close(fast, joints[::2])
    torch.testing.assert_close(slow[::2], joints)
    torch.testing.assert_close(lengths(slow), lengths(joints)[:1].expand(161, -1))
    assert len(tempo_times(joints, HUMANML, FPS, factor=1.5)) - 1 == 53


def test_half_the_path_is_half() -> None:
    joints = clip("walk")
    for factor in (0.0, 0.5, -1.0):
        made = path_times(joints, factor)
        torch.testing.assert_close(steps(made), abs(factor) * steps(joints))
        torch.testing.assert_close(made - made[:, :1], joints - joints[:, :1])
        torch.testing.assert_close(made[..., 1], joints[..., 1])
        torch.testing.assert_close(ground(made)[-1], factor * ground(joints)[-1], atol=1e-9, rtol=0)


def test_mirrored_twice_is_the_clip() -> None:
    joints = clip("wave/left")
    made = mirrored(joints, HUMANML, FPS)
    left, right = HUMANML.index("left_wrist"), HUMANML.index("right_wrist")
    ranges, before = joint_ranges(made, HUMANML, FPS), joint_ranges(joints, HUMANML, FPS)
    assert float(ranges[right]) == pytest.approx(float(before[left]), rel=0.02)  # arms are not equally long
    assert float(ranges[left]) == pytest.approx(float(before[right]), rel=0.05)
    torch.testing.assert_close(lengths(made), lengths(joints))
    plain = mirror(joints, HUMANML)
    assert float((lengths(plain) - lengths(joints)).abs().max()) > 0.003
    scales = [lengths(each)[:, :, None] * lengths(each)[:, None] for each in (made, plain)]
    torch.testing.assert_close(poses_of(made) / scales[0], poses_of(plain) / scales[1])  # every bone's direction
    torch.testing.assert_close(mirrored(made, HUMANML, FPS), joints)


def test_sliding_feet_slide_and_come_back() -> None:
    joints = clip("pose/hips")[:1].repeat(61, 1, 1)
    made = sliding(joints, FPS)
    # A sine of 0.1 m and one sway per second goes 0.4 m in a second, and has come back after three.
    assert float(steps(made).sum()) == pytest.approx(1.2, abs=0.01)
    torch.testing.assert_close(made[60], joints[60])
    torch.testing.assert_close(made - made[:, :1], joints - joints[:, :1])


@pytest.mark.parametrize("smooth", [0.0, 0.5])
def test_noise_has_its_size_and_keeps_bones(smooth: float) -> None:
    joints = clip("walk", 196)
    options = {"radians": 0.02, "metres": 0.01, "smooth": smooth}
    made = trembling(joints, HUMANML, FPS, **options, generator=seeded())
    torch.testing.assert_close(lengths(made), lengths(joints))
    turn = angles(
        bones_from_positions(made, HUMANML.parents)[:, 1:] / lengths(made)[..., None],
        bones_from_positions(joints, HUMANML.parents)[:, 1:] / lengths(joints)[..., None],
    )
    # A turn about three axes shows of two: those at right angles to the bone.
    assert float(turn.square().mean().sqrt()) == pytest.approx(0.02 * math.sqrt(2.0), rel=0.1)
    assert float((made - joints)[:, 0].std()) == pytest.approx(0.01, rel=0.2)
    jerk = float(joint_jerk(made[None], FPS).mean())
    assert jerk > 200 if smooth == 0.0 else jerk < 100, jerk
    torch.testing.assert_close(made, trembling(joints, HUMANML, FPS, **options, generator=seeded()))


def test_a_turned_clip_has_the_same_features() -> None:
    joints = clip("walk/turn-left")
    made = turned(joints, HUMANML, 1.3)
    torch.testing.assert_close(made, joints)


def test_a_later_start_is_the_rest() -> None:
    joints = clip("walk/turn-left")
    made = later_start(joints, HUMANML, FPS, seconds=0.2)
    assert len(made) == 77
    torch.testing.assert_close(poses_of(made), poses_of(joints)[4:])
    torch.testing.assert_close(steps(made), steps(joints)[4:])
    torch.testing.assert_close(made[..., 1], joints[4:, :, 1] - joints[4:, :, 1].amin() + joints[4:, :, 1].amin())


def test_features_and_joints_of_many_clips() -> None:
    from motionkit import load_dataset

    clips = load_dataset("starter", val_clips=6, clips=144).clips("val")
    features = [own.features for own in clips]
    joints = clip_joints(features, HUMANML)
    assert [len(own) for own in joints] == [len(own) + 1 for own in features]
    for own, again in zip(features, clip_features(joints, HUMANML), strict=True):
        torch.testing.assert_close(again, own, atol=1e-4, rtol=0)
    assert clip_features([], HUMANML) == []


UNCHANGED: dict[str, Callable[[Tensor], Tensor]] = {
    "bones": lambda joints: lengths(joints)[0],
    "floor": lambda joints: joints[..., 1].amin(),
    "frames": lambda joints: torch.tensor(float(len(joints))),
    "steps": steps,
    "poses": poses_of,
    "heights": lambda joints: joints[:, 0, 1],
}

STAYS = {
    "mean-pose": "bones floor frames steps",
    "held-frame": "bones floor frames steps",
    "swing-0.1": "bones floor frames steps",
    "swing-0.3": "bones floor frames steps",
    "swing-0.6": "bones floor frames steps",
    "running-mean-0.5": "bones floor frames steps",
    "running-mean-1": "bones floor frames steps",
    "still-limb": "bones floor frames steps",
    "lively-statue": "bones floor frames steps",
    "shuffled-pieces": "bones floor frames",
    "swapped-quarters": "bones floor frames",
    "reversed": "bones floor frames",
    "shuffled-frames": "bones floor frames",
    "tempo-0.5": "bones floor",
    "tempo-2": "bones floor",
    "no-path": "bones floor frames poses heights",
    "half-path": "bones floor frames poses heights",
    "other-direction": "bones floor frames poses heights steps",
    "mirrored": "bones floor frames steps",
    "mirrored-unsided": "bones floor frames steps",
    "above-floor": "bones frames steps poses",
    "below-floor": "bones frames steps poses",
    "sliding-feet": "bones floor frames poses heights",
    "noise": "bones frames",
    "little-noise": "bones frames",
    "turned": "bones floor frames steps poses heights",
    "later-start": "bones",
    "smaller-body": "frames",
}


@pytest.mark.parametrize("name", CHANGES)
def test_only_what_is_meant_differs(name: str) -> None:
    joints = clip("walk/slow")
    scene = Scene(joints, HUMANML, FPS, "walks slowly to the left", clip("wave/left"), generator=seeded())
    made = CHANGES[name].make(scene)
    assert made.isfinite().all()
    for what in STAYS[name].split():
        torch.testing.assert_close(UNCHANGED[what](made), UNCHANGED[what](joints), atol=1e-6, rtol=0, msg=what)
    if name != "turned":
        assert made.shape != joints.shape or float((made - joints).abs().max()) > 0.005
    # Features begin at the origin, facing +Z.
    features = clip_features([made], HUMANML)[0]
    again = clip_joints([features], HUMANML)[0]
    torch.testing.assert_close(again, made - made[:1, :1] * made.new_tensor([1.0, 0.0, 1.0]), atol=1e-6, rtol=0)
    other = CHANGES[name].make(replace(scene, generator=seeded()))
    torch.testing.assert_close(made, other)


def test_where_changes_apply() -> None:
    def applying(name: str, caption: str) -> set[str]:
        scene = Scene(clip(name), HUMANML, FPS, caption, clip("kick/high-left"), longest=196)
        return {change.name for change in CHANGES.values() if change.applies(scene)}

    slow = applying("walk/slow", "a person walks forward slowly.")
    assert {"tempo-2", "no-path", "other-direction", "reversed", "mirrored-unsided", "mean-pose"} <= slow
    assert not {"tempo-0.5", "mirrored"} & slow
    wave = applying("wave/left", "a person waves with the left hand.")
    assert {"mirrored", "still-limb", "shuffled-pieces"} <= wave
    assert not {"reversed", "no-path", "half-path", "mirrored-unsided", "tempo-2", "other-direction"} & wave
    nod = applying("nod/yes", "a person nods.")
    assert not {change.name for change in CHANGES.values() if change.family in ("stillness", "order")} & nod
    fast = applying("walk/fast", "a person walks fast.")
    assert "tempo-0.5" in fast
    assert "other-direction" not in fast
    other = applying("walk/slow", "eine Person geht langsam.")
    assert not {"tempo-2", "other-direction"} & other
    short = Scene(clip("walk", 25), HUMANML, FPS, "walks", longest=196)
    assert not CHANGES["shuffled-pieces"].applies(short)
    assert not CHANGES["lively-statue"].applies(short)


@pytest.mark.parametrize(
    ("name", "one_way"),
    [
        ("sit/down", True),
        ("sit/up", True),
        ("walk", True),
        ("turn/quarter-left", True),
        ("sit/both", False),
        ("squat/deep", False),
        ("jump/up", False),
        ("wave/left", False),
        ("arm-circles/both", False),
        ("walk/in-place", False),
    ],
)
def test_what_is_another_clip_when_reversed(name: str, one_way: bool) -> None:
    assert goes_one_way(clip(name), HUMANML, FPS) is one_way


def test_ranges_are_those_of_a_known_swing() -> None:
    joints = clip("pose/hips")[:1].repeat(41, 1, 1)
    assert not moves(joints, HUMANML, FPS)
    wrist = HUMANML.index("left_wrist")
    joints[:, wrist, 1] += 0.15 * torch.sin(torch.arange(41) * math.pi / 20)
    assert float(joint_ranges(joints, HUMANML, FPS)[wrist]) == pytest.approx(0.3, abs=1e-6)
    assert moves(joints, HUMANML, FPS)
    assert not travels(joints)
    assert travels(joints + torch.linspace(0.0, 0.6, 41)[:, None, None])


def test_a_broken_bone_does_no_harm() -> None:
    joints = clip("walk")
    joints[:, HUMANML.index("head")] = joints[:, HUMANML.index("neck")]
    for name in ("mean-pose", "swing-0.3", "shuffled-pieces", "noise"):
        made = CHANGES[name].make(Scene(joints, HUMANML, FPS, generator=seeded()))
        assert made.isfinite().all()


@pytest.mark.parametrize("name", CHANGES)
def test_changes_of_the_other_body(name: str) -> None:
    joints = walker(60, 3, skeleton=KIT)
    joints = placed(joints, joints, KIT)
    other = walker(50, 4, skeleton=KIT)
    made = CHANGES[name].make(Scene(joints, KIT, KIT.fps, "walks", placed(other, other, KIT), generator=seeded()))
    assert made.isfinite().all()
    assert made.shape[1:] == (21, 3)
    features = clip_features([made], KIT)[0]
    assert features.shape == (len(made) - 1, 251)
    again = clip_joints([features], KIT)[0]
    torch.testing.assert_close(again, made - made[:1, :1] * made.new_tensor([1.0, 0.0, 1.0]), atol=1e-6, rtol=0)
