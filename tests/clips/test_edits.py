"""``convert --start --end --height --yaw --mirror --loop --in-place --floor --fix``, from file to file."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import roma
import torch

import motionkit
from motionkit.clips.convert import Edits
from motionkit.clips.edits import edited
from motionkit.clips.faults import floor_height
from motionkit.errors import MotionkitError
from motionkit.formats import read_clips
from motionkit.motion import HUMANML, Caption, Clip
from motionkit.motion.motion import JointMotion, Motion
from motionkit.rigs import mirror_order, solve
from motionkit.starter import generate

from ..made.commands import assert_refused, run


@pytest.fixture(scope="module")
def walk() -> Clip:
    made = generate("walk", frames=120)
    joints = torch.from_numpy(made.joints).double()
    motion = JointMotion(HUMANML.joint_names, HUMANML.parents, joints, made.fps)
    return Clip(solve(motion).motion, captions=(Caption("a person waves the left hand"),))


@pytest.fixture(scope="module")
def walk_file(walk: Clip, tmp_path_factory: pytest.TempPathFactory) -> Path:
    from motionkit.formats.bvh import write_bvh

    path = tmp_path_factory.mktemp("walk") / "walk.bvh"
    write_bvh(path, walk.motion)
    return path


@pytest.fixture(scope="module")
def skating(walk: Clip, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The walk, swaying to the sides by 3 cm once a second, so that its feet slide, and trembling."""
    from motionkit.formats.bvh import write_bvh

    path = tmp_path_factory.mktemp("skating") / "walk.bvh"
    places = walk.motion.translations.clone()
    time = torch.arange(120, dtype=torch.float64) / 20
    places[:, 0, 0] += 0.03 * torch.sin(2 * math.pi * time)
    places[:, 0, 1] += 0.004 * torch.randn(120, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    write_bvh(path, replace(walk.motion, translations=places))
    return path


def converted(file: Path, out: Path, *words: object):
    result = run("convert", file, out, *words)
    assert result.exit_code == 0, result.output
    (clip,) = read_clips(out)
    return clip.motion, result.output


def test_a_part_is_cut_out(walk, walk_file, tmp_path):
    motion, _ = converted(walk_file, tmp_path / "a.glb", "--start", 1, "--end", 2.5)
    assert motion.frames == 30
    order = [motion.names.index(name) for name in walk.motion.names]
    assert float((motion.positions()[:, order] - walk.motion.positions()[20:50]).abs().max()) < 1e-3


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--start", 9), "--start 9 is beyond the end. why the clip lasts 6 s (120 frames)"),
        (("--start", 1, "--end", 6.5), "--end 6.5 is beyond the end"),
        (("--start", 3, "--end", 2), "--end 2 is not after --start 3"),
        (("--start", 1, "--end", 1.05), "are 1 frame"),
        (("--loop", "--end", 0.1), "2 frames (0.1 s) are too short for a loop"),
        (("--height", 30), "--height 30: a body is 0.1 to 10 m tall"),
        (("--fix", "feats"), "--fix feats is not a repair. fix did you mean feet?"),
        (
            ("--to", "humanml", "--yaw", 20),
            "--to humanml writes a folder, and OUT is called a.glb. why by its ending a.glb is a .glb file.",
        ),
    ],
)
def test_what_cannot_be_done_is_said(walk_file, tmp_path, words, said):
    assert_refused(run("convert", walk_file, tmp_path / "a.glb", *words), said)
    assert not (tmp_path / "a.glb").exists()


@pytest.mark.parametrize("words", [("--yaw", 20), ("--height", 1.8), ("--floor",)])
def test_datasets_refuse_what_has_no_effect_on_them(walk_file, tmp_path, words):
    assert_refused(run("convert", walk_file, tmp_path / "set", *words), f"{words[0]} does not act with --to humanml")


def test_left_and_right_are_swapped(walk, walk_file, tmp_path):
    motion, _ = converted(walk_file, tmp_path / "a.glb", "--mirror")
    order = [motion.names.index(walk.motion.names[joint]) for joint in mirror_order(walk.motion.names)]
    expected = walk.motion.positions() * torch.tensor([-1.0, 1, 1], dtype=torch.float64)
    assert float((motion.positions()[:, order] - expected).abs().max()) < 1e-3
    clip, _ = edited(walk, Edits(mirror=True))
    assert clip.texts == ("a person waves the right hand",)


def test_a_quarter_turn_is_to_its_left(walk_file, tmp_path):
    motion, _ = converted(walk_file, tmp_path / "a.glb", "--yaw", 90)
    way = motion.positions()[-1, 0] - motion.positions()[0, 0]
    assert float(way[0]) > 5 * abs(float(way[2]))  # it walked along +Z; +X is on its left


def test_height_and_floor(walk, walk_file, tmp_path):
    from motionkit.rigs import body_height

    motion, _ = converted(walk_file, tmp_path / "a.glb", "--height", 1.2, "--floor")
    tall = body_height(motion.names, motion.parents, motion.positions()[0])
    assert tall == pytest.approx(1.2, abs=0.01)
    assert floor_height(motion.positions(), motion.fps) == pytest.approx(0.0, abs=1e-3)
    lifted = walk.motion.translations.clone()
    lifted[:, 0, 1] += 0.7
    clip, _ = edited(replace(walk, motion=replace(walk.motion, translations=lifted)), Edits(floor=True))
    assert floor_height(clip.motion.positions(), 20.0) == pytest.approx(0.0, abs=1e-9)


def test_a_loop_in_place_with_feet_held(skating, tmp_path):
    words = ("--loop", "--in-place", "--fix", "feet,jitter", "--fps", 30, "--floor")
    motion, said = converted(skating, tmp_path / "a.glb", *words)
    places = motion.positions()
    assert motion.fps == 30
    assert float((places[0] - places[-1]).abs().max()) < 1e-4
    assert float((places[:, 0, [0, 2]] - places[:, 0, [0, 2]].mean(0)).abs().max()) < 0.15
    for words in ("foot skate, m/s", "jerk, m/s^3", "joints moved, mm", "joints at the seam, mm", "without blending"):
        assert words in said
    report = json.loads(
        run("convert", skating, tmp_path / "b.glb", "--loop", "--in-place", "--fix", "feet,jitter", "--json").stdout
    )
    figures = report["figures"]
    assert figures["skate_after"] < 0.5 * figures["skate_before"]
    assert figures["jerk_after"] < figures["jerk_before"]
    assert figures["seam"] < 2 * figures["seam_inside"]
    assert 0 < figures["moved_mean"] < figures["moved_max"] < 0.2


def test_feet_of_a_loop_stand_over_the_seam(walk):
    """Repeated, a foot that stands while the loop begins again stays where it is."""
    from motionkit.rigs import make_loop, repeated, standing_slide

    clip, figures = edited(walk, Edits(loop=True, fixes=("feet",)))
    step = make_loop(walk.motion).step
    two = repeated(clip.motion, step, 3)
    before = standing_slide(repeated(make_loop(walk.motion).motion, step, 3), [two], fastest=0.6)
    assert before[0] < 0.05
    assert figures["skate_after"] < 0.05


def test_folders_are_edited_clip_by_clip(walk, tmp_path):
    from motionkit.formats.bvh import write_bvh

    for name, frames in (("long", 120), ("short", 12)):
        (tmp_path / "in").mkdir(exist_ok=True)
        write_bvh(tmp_path / "in" / f"{name}.bvh", walk.motion.cut(0, frames))
    result = run("convert", tmp_path / "in", tmp_path / "out", "--to", "glb", "--start", 1, "--loop", "--json")
    assert result.exit_code == 1
    report = json.loads(result.stdout)
    assert report["written"] == ["long"]
    assert "beyond the end" in next(iter(report["failed"].values()))
    assert report["figures"]["seam"] > 0


def test_joints_get_rotations_to_be_edited(tmp_path):
    np.save(tmp_path / "walk.npy", generate("walk", frames=100).joints)
    motion, said = converted(tmp_path / "walk.npy", tmp_path / "a.bvh", "--loop")
    assert motion.frames >= 50
    assert "seam" in said


def test_the_python_function_takes_the_same(skating, walk_file, tmp_path):
    report = motionkit.convert(skating, tmp_path / "a.glb", start=1, loop=True, in_place=True, fix="feet")
    assert report.figures["skate_after"] < report.figures["skate_before"]
    with pytest.raises(MotionkitError, match="beyond the end"):
        motionkit.convert(walk_file, tmp_path / "b.glb", start=99)


def test_features_that_are_only_cut_stay_as_they_are(tmp_path):
    from motionkit.motion import joints_to_features

    made = generate("walk", frames=121)
    rows = joints_to_features(torch.from_numpy(made.joints).double(), HUMANML).float().numpy()
    np.save(tmp_path / "walk.npy", rows)
    result = run("convert", tmp_path / "walk.npy", tmp_path / "set", "--start", 1, "--end", 4)
    assert result.exit_code == 0, result.output
    kept = np.load(tmp_path / "set" / "new_joint_vecs" / "walk.npy")
    np.testing.assert_array_equal(kept, rows[20:80])


@pytest.mark.parametrize("edits", [Edits(in_place=True), Edits(loop=True, in_place=True), Edits(yaw=70.0)], ids=str)
def test_a_body_on_a_ground_root_is_edited_as_one_without(walk, edits):
    """Its root stays at the origin, turned; the path is the pelvis'. A target beside the body moves with it."""
    motion = walk.motion
    turn = roma.rotvec_to_rotmat(torch.tensor([0.0, 0.5, 0.0], dtype=torch.float64))
    ground = torch.zeros(motion.frames, 1, 3, dtype=torch.float64)
    rotations = torch.cat(
        [turn.repeat(motion.frames, 1, 1, 1), motion.rotations, turn.repeat(motion.frames, 1, 1, 1)], 1
    )
    rotations[:, 1] = turn.mT @ rotations[:, 1]
    places = torch.cat([ground, motion.translations, motion.translations[:, :1]], 1)
    places[:, [1, -1]] = (turn.mT @ places[:, [1, -1], :, None])[..., 0]
    target = len(motion.names) + 1
    below = Motion(
        ("ground", *motion.names, "ik_hips"),
        (-1, *(parent + 1 for parent in motion.parents), 0),
        torch.cat([ground[0], motion.offsets, ground[0]]),
        rotations,
        places,
        motion.fps,
    )
    torch.testing.assert_close(below.positions()[:, 1:target], motion.positions())
    expected, _ = edited(walk, edits)
    found, _ = edited(replace(walk, motion=below), edits)
    joints = found.motion.positions()
    torch.testing.assert_close(joints[:, 1:target], expected.motion.positions(), atol=1e-6, rtol=0)
    if not edits.loop:
        torch.testing.assert_close(joints[:, target], joints[:, 1], atol=1e-6, rtol=0)
