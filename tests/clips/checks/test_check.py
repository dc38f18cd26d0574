"""Every fault is found where it was planted, nothing is found in a sound motion, and findings name their frames."""

from __future__ import annotations

import csv
import itertools
import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
import roma
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from motionkit.clips.browse.card import card_of
from motionkit.clips.check import check_motion
from motionkit.clips.convert import convert, open_sources
from motionkit.clips.convert.feature_target import FeatureTarget
from motionkit.clips.faults import KINDS, Finding, count, floor_height, frames_at_rest, longest_clean_run, words
from motionkit.clips.profile.measure import measure
from motionkit.formats.bvh import read_bvh
from motionkit.motion.motion import JointMotion, Motion, ranges

from ...made.bvh_files import write_bvh
from ...made.persons import joints_of, person


def found(findings: tuple[Finding, ...], kind: str) -> Finding:
    matching = [finding for finding in findings if finding.kind == kind]
    assert len(matching) == 1, [finding.detail for finding in findings]
    return matching[0]


def moved(motion: Motion | JointMotion, frame: slice, by: tuple[float, float, float]) -> Tensor:
    joints = motion.positions().clone()
    joints[frame] += torch.tensor(by, dtype=joints.dtype)
    return joints


@pytest.mark.parametrize("fps", [20.0, 60.0, 120.0])
@pytest.mark.parametrize("turn", [0.0, 2.0])
def test_a_sound_motion_has_no_findings(fps: float, turn: float) -> None:
    motion = person(int(4 * fps), fps, turn=turn)
    assert check_motion(motion) == ()
    assert check_motion(joints_of(motion)) == ()
    assert longest_clean_run(motion.frames, ()) == (0, motion.frames)


def test_a_teleport_is_a_jump_at_the_frame_of_arrival_and_both_sides_are_kept_whole() -> None:
    motion = person(240)
    findings = check_motion(joints_of(motion, moved(motion, slice(100, None), (0.5, 0.0, 0.0))))
    jump = found(findings, "jump")
    assert jump.frames == ((100, 101),)
    assert jump.severity == "error"
    assert "30 m/s" in jump.detail or "31 m/s" in jump.detail  # 0.5 m in 1/60 s, and the walk itself
    assert longest_clean_run(240, findings) == (100, 240)


def test_a_root_faster_than_a_sprinter_is_a_jump_although_a_hand_may_be_as_fast() -> None:
    motion = person(120)
    step = 20.0 / 60.0
    root = found(check_motion(joints_of(motion, moved(motion, slice(50, None), (step, 0.0, 0.0)))), "jump")
    assert "pelvis" in root.detail
    hand = motion.positions().clone()
    hand[50:, 21, 1] += step
    assert "jump" not in {finding.kind for finding in check_motion(joints_of(motion, hand))}


@pytest.mark.parametrize(("fps", "shift"), [(12.5, 0.3), (20.0, 0.2), (60.0, 0.1)])
def test_a_shift_of_the_whole_body_is_found_although_a_sprinter_is_faster(fps: float, shift: float) -> None:
    motion = person(100, fps)
    jump = found(check_motion(joints_of(motion, moved(motion, slice(50, None), (shift, 0.0, 0.0)))), "jump")
    assert jump.frames == ((50, 51),)
    assert f"{100 * shift:.0f} cm" in jump.detail
    one = found(check_motion(joints_of(motion, moved(motion, slice(50, 51), (shift, 0.0, 0.0)))), "jump")
    assert one.frames == ((50, 52),)  # there and back
    assert check_motion(joints_of(motion, moved(motion, slice(50, None), (0.1 * shift, 0.0, 0.0)))) == ()


def test_starting_to_run_at_once_is_no_shift() -> None:
    motion = person(100, 20.0, speed=0.0)
    joints = motion.positions().clone()
    joints[50:, :, 0] += 5.0 / 20.0 * torch.arange(1, 51, dtype=torch.float64)[:, None]
    assert check_motion(joints_of(motion, joints)) == ()


@pytest.mark.parametrize(
    ("joint", "degrees", "expected"), [(0, 16, True), (0, 12, False), (16, 46, True), (16, 38, False)]
)
@pytest.mark.parametrize("fps", [30.0, 60.0])
def test_turning_is_judged_as_angular_speed(joint: int, degrees: float, expected: bool, fps: float) -> None:
    motion = person(120, fps, speed=0.0)
    rotations = motion.rotations.clone()
    still = rotations[:1].repeat(120, 1, 1, 1)
    axis = torch.tensor([0.0, 1.0, 0.0], dtype=torch.float64) if joint == 0 else torch.tensor([1.0, 0.0, 0.0]).double()
    # Degrees are per frame at 60 fps, so that half the rate doubles them.
    still[60:, joint] = still[60:, joint] @ roma.rotvec_to_rotmat(axis * math.radians(degrees * 60 / fps))
    jumps = [finding for finding in check_motion(replace(motion, rotations=still)) if finding.kind == "jump"]
    assert bool(jumps) is expected
    if expected:
        assert jumps[0].frames == ((60, 61),)
        assert motion.names[joint] in jumps[0].detail


def test_frames_that_are_not_finite_are_one_finding_and_hide_nothing_else() -> None:
    motion = person(240)
    joints = moved(motion, slice(200, None), (0.5, 0.0, 0.0))
    joints[10:12, 3] = math.nan
    joints[40, 0, 1] = math.inf
    findings = check_motion(joints_of(motion, joints))
    assert found(findings, "nan").frames == ((10, 12), (40, 41))
    assert found(findings, "jump").frames == ((200, 201),)
    assert {finding.kind for finding in findings} == {"nan", "jump"}
    assert longest_clean_run(240, findings) == (41, 200)


@pytest.mark.parametrize("lost", [1, 10, 60])
@pytest.mark.parametrize("start", [0, 1, 70])
def test_the_step_over_a_gap_is_no_jump_and_what_is_before_it_no_rest_pose(lost: int, start: int) -> None:
    motion = person(240, 60.0, speed=5.0, turn=3.0)
    motion.rotations[start : start + lost] = math.nan
    errors = [finding for finding in check_motion(motion) if finding.severity == "error"]
    assert [(finding.kind, finding.frames) for finding in errors] == [("nan", ((start, start + lost),))]


def test_a_rest_pose_after_a_gap_is_found() -> None:
    motion = person(120)
    joints = motion.positions()
    joints[3:8, 20] += torch.tensor([0.5, 0.5, 0.0])
    joints[3:8] = joints[3]
    joints[:3] = math.nan
    findings = check_motion(joints_of(motion, joints))
    assert found(findings, "rest-pose").frames == ((3, 8),)
    assert longest_clean_run(120, findings) == (8, 120)


def test_rotations_that_are_not_finite_are_found() -> None:
    motion = person(60)
    rotations = motion.rotations.clone()
    rotations[0, 5, 1, 2] = math.nan
    assert found(check_motion(replace(motion, rotations=rotations)), "nan").frames == ((0, 1),)


def test_nothing_finite_leaves_nothing() -> None:
    motion = person(30)
    findings = check_motion(joints_of(motion, torch.full_like(motion.positions(), math.nan)))
    assert [finding.kind for finding in findings] == ["nan"]
    assert longest_clean_run(30, findings) == (0, 0)


def test_a_rest_pose_is_one_finding_and_no_jump() -> None:
    motion = person(120)
    rotations, translations = motion.rotations.clone(), motion.translations.clone()
    rotations[0] = torch.eye(3, dtype=torch.float64)
    for joint, angle in ((16, 1.5), (17, -1.5)):
        rotations[0, joint] = roma.rotvec_to_rotmat(torch.tensor([0.0, 0.0, angle], dtype=torch.float64))
    translations[0, 0] = torch.tensor([5.0, 0.95, 3.0], dtype=torch.float64)
    findings = check_motion(replace(motion, rotations=rotations, translations=translations))
    assert [finding.kind for finding in findings] == ["rest-pose"]
    assert longest_clean_run(120, findings) == (1, 120)


@pytest.mark.parametrize("fps", [20.0, 30.0, 60.0])
@pytest.mark.parametrize("held", [2, 5, 30])
def test_a_rest_pose_that_is_held_is_found_whole(held: int, fps: float) -> None:
    motion = person(120, fps)
    rest = motion.rotations[:1].clone()
    for joint, angle in ((16, 1.5), (17, -1.5)):
        rest[0, joint] = roma.rotvec_to_rotmat(torch.tensor([0.0, 0.0, angle], dtype=torch.float64))
    rotations = torch.cat([rest.repeat(held, 1, 1, 1), motion.rotations])
    translations = torch.cat([motion.translations[:1].repeat(held, 1, 1), motion.translations])
    # Files round their numbers.
    translations[:held] += 1e-6 * torch.arange(held, dtype=torch.float64)[:, None, None]
    findings = check_motion(replace(motion, rotations=rotations, translations=translations))
    errors = [finding for finding in findings if finding.severity == "error"]
    assert [(finding.kind, finding.frames) for finding in errors] == [("rest-pose", ((0, held),))]
    assert f"frames 0-{held - 1} are a rest pose" in errors[0].detail
    assert longest_clean_run(120 + held, findings) == (held, 120 + held)


@pytest.mark.parametrize("fps", [12.5, 20.0, 30.0, 60.0, 120.0])
def test_who_stands_still_before_setting_off_is_not_at_rest(fps: float) -> None:
    """From a pose held exactly, in the middle of a stride: as sudden as an animator may cut to it."""
    motion = person(round(4 * fps), fps, speed=1.8)
    for start in range(0, motion.frames // 2, 3):
        index = torch.cat([torch.full((20,), start), torch.arange(start, motion.frames)])
        standing = replace(motion, rotations=motion.rotations[index], translations=motion.translations[index])
        assert frames_at_rest(standing.positions(), fps=fps) == 0, start


def test_a_motion_that_never_moves_has_no_rest_pose() -> None:
    assert frames_at_rest(person(1).positions().repeat(90, 1, 1)) == 0
    assert frames_at_rest(person(2).positions()) == 0


@pytest.mark.parametrize("fps", [60.0, 120.0])
def test_a_first_frame_mixed_with_a_rest_pose_is_found(fps: float) -> None:
    """A filter that ran over a T-pose and the motion after it leaves part of the T-pose in the first frames."""
    motion = person(240, fps)
    rest = motion.rotations[0].clone()
    for joint, angle in ((16, 1.5), (17, -1.5)):
        rest[joint] = roma.rotvec_to_rotmat(torch.tensor([0.0, 0.0, angle], dtype=torch.float64))
    rotations = motion.rotations.clone()
    for frame, part in enumerate((0.25, 0.03, 0.015)):
        way = roma.rotmat_to_rotvec(rotations[frame].transpose(-1, -2) @ rest)
        rotations[frame] = rotations[frame] @ roma.rotvec_to_rotmat(part * way)
    assert "rest-pose" in {finding.kind for finding in check_motion(replace(motion, rotations=rotations))}


@pytest.mark.parametrize(("depth", "severity"), [(0.2, "error"), (0.07, "warning")])
def test_sinking_into_the_floor_is_found_with_its_depth(depth: float, severity: str) -> None:
    motion = person(240, 20.0)
    findings = check_motion(joints_of(motion, moved(motion, slice(100, 130), (0.0, -depth, 0.0))))
    sunk = found(findings, "penetration")
    assert sunk.frames == ((100, 130),)
    assert sunk.severity == severity
    assert f"{100 * depth:.0f} cm" in sunk.detail
    assert longest_clean_run(240, findings) == ((130, 240) if severity == "error" else (0, 240))


def test_the_floor_is_where_feet_stand_wherever_that_is() -> None:
    motion = person(240, speed=0.0)
    joints = moved(motion, slice(None), (0.0, 3.0, 0.0))
    assert floor_height(joints, 60.0) == pytest.approx(3.0, abs=1e-6)
    sunk = moved(joints_of(motion, joints), slice(0, 100), (0.0, -0.4, 0.0))
    assert floor_height(sunk, 60.0) == pytest.approx(3.0, abs=1e-6)  # 41 % of the frames lie 40 cm below
    assert check_motion(joints_of(motion, joints)) == ()
    assert found(check_motion(joints_of(motion, joints), floor=3.2), "penetration").frames == ((0, 240),)


def test_floating_for_longer_than_a_jump_is_a_warning_and_a_jump_is_not() -> None:
    motion = person(300)
    slow = torch.zeros(300, 1, 3, dtype=torch.float64)
    slow[100:200, 0, 1] = 0.5 * torch.linspace(0, math.pi, 100, dtype=torch.float64).sin().sqrt()
    finding = found(check_motion(joints_of(motion, motion.positions() + slow)), "floating")
    assert finding.severity == "warning"
    slow[:] = 0
    slow[100:140, 0, 1] = 0.5 * torch.linspace(0, math.pi, 40, dtype=torch.float64).sin()
    assert check_motion(joints_of(motion, motion.positions() + slow)) == ()


@pytest.mark.parametrize(
    ("factor", "words"),
    [(100.0, "centimetres were read as metres"), (0.01, "metres were read as centimetres"),
     (2.54, "centimetres were read as inches"), (1000.0, "millimetres were read as metres")],
)  # fmt: skip
def test_a_wrong_unit_is_named(factor: float, words: str) -> None:
    motion = person(60)
    scale = found(check_motion(joints_of(motion, motion.positions() * factor)), "scale")
    assert words in scale.detail
    nameless = replace(joints_of(motion, motion.positions() * factor), names=tuple(f"j{n}" for n in range(22)))
    assert words in found(check_motion(nameless), "scale").detail


@pytest.mark.parametrize("factor", [0.6, 1.3])
def test_a_child_and_a_giant_are_people(factor: float) -> None:
    motion = person(60)
    (unusual,) = check_motion(joints_of(motion, motion.positions() * factor))
    assert (unusual.kind, unusual.severity) == ("scale", "warning")
    assert ("a child" if factor < 1 else "a giant") in unusual.detail


@pytest.mark.parametrize("factor", [0.9, 1.2])
def test_adults_are_of_many_sizes(factor: float) -> None:
    motion = person(60)
    assert check_motion(joints_of(motion, motion.positions() * factor)) == ()


def test_bones_of_the_two_sides_are_compared() -> None:
    motion = person(60)
    places = motion.positions()
    hand = motion.names.index("left_wrist")
    bone = torch.nn.functional.normalize(places[:, hand] - places[:, motion.parents[hand]], dim=-1)
    for shift, kinds in ((0.02, []), (0.2, ["sides"])):
        moved = places.clone()
        moved[:, hand] += shift * bone
        assert [one.kind for one in check_motion(joints_of(motion, moved)) if one.kind == "sides"] == kinds


def test_a_body_without_size_is_said() -> None:
    motion = person(60)
    finding = found(check_motion(joints_of(motion, motion.positions() * 0)), "scale")
    assert "bone lengths are not known" in finding.detail
    assert finding.severity == "warning", "the predictor needs no lengths"


def test_values_that_stop_changing_are_frozen_after_a_second() -> None:
    motion = person(240, speed=0.0)
    joints = motion.positions().clone()
    joints[100:170] = joints[100]
    finding = found(check_motion(joints_of(motion, joints)), "frozen")
    assert finding.frames == ((100, 170),)
    assert finding.severity == "warning"
    joints = motion.positions().clone()
    joints[100:155] = joints[100]
    assert check_motion(joints_of(motion, joints)) == ()


def test_a_bone_that_stretches_is_a_warning_with_its_joint() -> None:
    motion = person(120)
    joints = motion.positions().clone()
    joints[30:40, 20] += 0.1 * (joints[30:40, 20] - joints[30:40, 18])
    finding = found(check_motion(joints_of(motion, joints)), "bone-length")
    assert finding.frames == ((30, 40),)
    assert "left_wrist" in finding.detail
    assert "10 %" in finding.detail
    assert finding.severity == "warning"


def test_short_counts_at_the_rate_of_the_target() -> None:
    motion = person(120, 60.0)
    assert check_motion(motion, min_frames=40, target_fps=20.0) == ()
    short = found(check_motion(motion, min_frames=41, target_fps=20.0), "short")
    assert "40 frames at 20 fps" in short.detail
    assert short.frames == ()
    assert found(check_motion(motion.cut(0, 1)), "short").severity == "error"
    assert longest_clean_run(120, [short]) == (0, 120)


def test_a_frame_rate_that_no_motion_has_is_a_warning() -> None:
    assert found(check_motion(replace(person(60), fps=1000.0)), "fps").severity == "warning"


def test_an_empty_motion_is_short_and_nothing_else() -> None:
    assert [finding.kind for finding in check_motion(person(60).cut(0, 0))] == ["short"]


def test_findings_go_into_json_and_errors_come_first() -> None:
    motion = person(240)
    joints = moved(motion, slice(200, None), (0.5, 0.0, 0.0))
    joints[100:170] = joints[100]
    findings = check_motion(joints_of(motion, joints))
    assert [finding.severity for finding in findings] == sorted(finding.severity for finding in findings)
    written = json.loads(json.dumps([finding.document() for finding in findings]))
    assert written[0]["frames"][0] == list(findings[0].frames[0])
    assert all(entry["kind"] in KINDS for entry in written)


def test_curated_recordings_have_few_errors(shared: Path) -> None:
    folder = shared / "data" / "cmu"
    with (folder / "index.csv").open() as file:
        files = [folder / row["file"] for row in csv.DictReader(file)]
    spoilt = {"ac_martial_08": "rest-pose", "ac_salsa_05": "rest-pose", "cc_03_01": "penetration"}
    chosen = [file for file in files[::12] if not file.stem.startswith("ac_") and file.stem not in spoilt]
    for file in chosen:
        findings = check_motion(read_bvh(file)[0].motion)
        assert [finding for finding in findings if finding.severity == "error"] == [], file.stem
    for name, kind in spoilt.items():
        file = next(file for file in files if file.stem == name)
        assert found(tuple(f for f in check_motion(read_bvh(file)[0].motion) if f.severity == "error"), kind)


@pytest.mark.parametrize("size", [1e6, 1e100, 1e200, 1e308])
def test_places_where_nobody_is_are_as_good_as_none(size: float) -> None:
    motion = person(60)
    joints = motion.positions().clone()
    joints[30, 20, 0] = -size
    findings = check_motion(joints_of(motion, joints))
    assert [(finding.kind, finding.frames) for finding in findings] == [("nan", ((30, 31),))]
    assert "further than 1000 km away in frame 30" in findings[0].detail


_CLIP = person(160)
_PLACES = _CLIP.positions()


def slow_run(frames: int, findings: list[Finding]) -> tuple[int, int]:
    """Try every run, longest first."""
    errors = [finding for finding in findings if finding.severity == "error"]
    for length in range(frames, 0, -1):
        for start in range(frames - length + 1):
            stop = start + length
            clean = True
            for finding in errors:
                first = start + 1 if finding.kind == "jump" else start
                clean &= not any(max(a, first) < min(b, stop) for a, b in finding.frames)
            if clean:
                return start, stop
    return 0, 0


spans = st.lists(st.tuples(st.integers(0, 29), st.integers(1, 4)), max_size=4).map(
    lambda pairs: tuple((start, start + length) for start, length in pairs)
)
findings = st.lists(
    st.builds(
        Finding, st.sampled_from(["nan", "jump", "frozen"]), spans, st.just(""), st.sampled_from(["error", "warning"])
    ),
    max_size=4,
)


@given(st.integers(0, 30), findings)
def test_the_run_is_the_one_that_trying_all_finds(frames: int, faults: list[Finding]) -> None:
    expected = slow_run(frames, faults)
    assert longest_clean_run(frames, faults) == expected


@given(st.lists(st.booleans(), max_size=40))
def test_ranges_hold_exactly_the_marked_frames(marks: list[bool]) -> None:
    found = ranges(torch.tensor(marks, dtype=torch.bool))
    held = [frame for start, stop in found for frame in range(start, stop)]
    assert held == [frame for frame, marked in enumerate(marks) if marked]
    assert all(first[1] < second[0] for first, second in itertools.pairwise(found))
    assert count(found) == sum(marks)


def test_words_name_frames_as_people_count_them() -> None:
    assert words(((7, 8),)) == "frame 7"
    assert words(((7, 9), (12, 13))) == "frames 7-8, 12"
    assert words(tuple((n, n + 1) for n in range(0, 20, 2))) == "frames 0, 2, 4, 6, ..."


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["nan", "teleport", "spike", "sink"]), st.integers(1, 158)), min_size=1, max_size=4
    )
)
def test_the_clean_run_of_a_spoilt_clip_holds_no_fault_and_no_longer_run_does(planted: list[tuple[str, int]]) -> None:
    joints = _PLACES.clone()
    bad, breaks = set(), set()
    for kind, frame in planted:
        if kind == "nan":
            joints[frame, 4] = torch.nan
            bad.add(frame)
        elif kind == "teleport":
            joints[frame:, :, 0] += 30.0 * len(breaks | bad) + 7.0
            breaks.add(frame)
        elif kind == "spike":
            joints[frame, 15, 2] += 40.0
            breaks |= {frame, frame + 1}
        else:
            joints[frame, :, 1] -= 5.0
            breaks |= {frame, frame + 1}
            bad.add(frame)
    result = check_motion(joints_of(_CLIP, joints))
    start, stop = longest_clean_run(160, result)
    assert not any(start <= frame < stop for frame in bad)
    assert not any(start < frame < stop for frame in breaks)
    again = check_motion(joints_of(_CLIP, joints).cut(start, stop), min_frames=1)
    assert [finding.detail for finding in again if finding.severity == "error"] == []
    edges = sorted({0, 160, *breaks, *bad, *(frame + 1 for frame in bad)})
    possible = [b - a for a, b in itertools.pairwise(edges) if not (b == a + 1 and a in bad)]
    assert stop - start == max(possible)


def test_a_head_below_the_hips_is_found_and_a_body_that_lies_is_not() -> None:
    motion = person(120)
    down = joints_of(motion, motion.positions() * torch.tensor([1.0, -1.0, -1.0]))
    finding = found(check_motion(down), "head-down")
    assert (finding.frames, finding.severity) == (((0, 120),), "warning")
    assert "below the hips in 120 of 120 frames" in finding.detail
    laid = joints_of(motion, motion.positions()[..., [0, 2, 1]])
    assert not [one for one in check_motion(laid) if one.kind == "head-down"]
    half = motion.positions().clone()
    half[:60] *= half.new_tensor([1.0, -1.0, -1.0])
    assert not [one for one in check_motion(joints_of(motion, half)) if one.kind == "head-down"], "not in most frames"


def on_a_ground_root(path: Path, *, spoilt: bool = False) -> Path:
    """Write a walk whose hips hang on a root that stays at the origin, as in game engines, with a hand's target."""
    write_bvh(path, 180)
    hierarchy, _, motion = path.read_text().partition("MOTION\n")
    frames = [line.split() for line in motion.splitlines()[2:]]
    if spoilt:
        frames[130][2] = "700.0"  # the hips, 4 m ahead
    place = "CHANNELS 6 Xposition Yposition Zposition Zrotation Xrotation Yrotation"
    target = f"JOINT ik_hand\n{{\nOFFSET 0 50 0\n{place}\n}}\n"
    hips = hierarchy.removeprefix("HIERARCHY\n").replace("ROOT", "JOINT")
    ends = [["0", str(60 + 40 * (number % 2)), "0", "0", "0", "0"] for number in range(len(frames))]
    rows = [["0"] * 6 + frame + end for frame, end in zip(frames, ends, strict=True)]
    text = f"HIERARCHY\nROOT Root\n{{\nOFFSET 0 0 0\n{place}\n{hips}{target}}}\nMOTION\n"
    text += "\n".join([*motion.splitlines()[:2], *map(" ".join, rows)]) + "\n"
    path.write_text(text)
    return path


def test_hips_that_travel_from_a_ground_root_are_no_bone(tmp_path):
    (source,) = open_sources([on_a_ground_root(tmp_path / "walk.bvh")]).sources
    (clip,) = source.load()
    assert clip.motion.names[:2] == ("Root", "Hips")
    travel = clip.motion.positions()[:, 1] - clip.motion.positions()[:, 0]
    assert travel.norm(dim=-1).max() > 1.2 * travel.norm(dim=-1).min()
    assert check_motion(clip.motion) == ()
    assert measure(clip, "walk", "").row.speed_mean == pytest.approx(1.0, abs=0.05)
    assert card_of(clip, "walk", "").about["speed"] == pytest.approx(1.0, abs=0.05)


def test_a_shift_of_the_hips_on_a_ground_root_is_found_and_cut_away(tmp_path):
    """The body's root is the hips: the root stays where it is."""
    (source,) = open_sources([on_a_ground_root(tmp_path / "walk.bvh", spoilt=True)]).sources
    (clip,) = source.load()
    found = check_motion(clip.motion)
    assert {finding.kind for finding in found} == {"jump"}
    assert all("Hips" in finding.detail for finding in found)
    report = convert([source], tmp_path / "out", FeatureTarget(), fix=True)
    assert report.fixed == {"walk": (0, 130)}


def test_a_turn_of_a_ground_root_turns_the_body():
    """A whole turn between two frames is a fault, whichever of the two joints makes it."""
    names, parents = ("root", "pelvis", "left_hip", "right_hip"), (-1, 0, 1, 1)
    turns = torch.eye(3, dtype=torch.float64).repeat(40, 4, 1, 1)
    turns[20:, 0] = torch.diag(torch.tensor([-1.0, 1.0, -1.0], dtype=torch.float64))
    places = torch.zeros(40, 4, 3, dtype=torch.float64)
    places[:, 1, 1] = 0.9
    places[:, 2:, 0] = torch.tensor([0.1, -0.1], dtype=torch.float64)
    motion = Motion(names, parents, places[0], turns, places, 60.0)
    assert "turns at up to 10800 degrees/s" in next(f.detail for f in check_motion(motion) if f.kind == "jump")
