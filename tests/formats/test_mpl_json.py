from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from motionkit.clips.check import check_motion
from motionkit.errors import MotionkitError
from motionkit.formats.mpl.npz import read_mpl_npz
from motionkit.formats.mpl.read_json import read_mpl_json
from motionkit.motion import HUMANML
from motionkit.motion.clip import Clip, ReadOptions
from motionkit.motion.motion import Motion
from motionkit.rigs import find_feet, soft_contacts
from motionkit.rigs.bodymap import map_body
from motionkit.rigs.upright import turn_up

from ..made.mpl_files import HOUSE, UNREAL, exported, guide, original_npz, save, starter_motion, tables, turn

YAW = 0.3 - 0.02 * np.arange(40)
"""A component that turns by itself; the poses are the same motion whatever it does."""


def read(path: Path, document: object, **options: Any) -> Clip:
    (clip,) = read_mpl_json(save(path / "clip.json", document), ReadOptions(**options))
    return clip


def same_motion(clip: Clip, motion: Motion, atol: float = 1e-9) -> None:
    assert isinstance(clip.motion, Motion)
    assert clip.motion.names == motion.names
    torch.testing.assert_close(clip.motion.rotations, motion.rotations, atol=atol, rtol=0)
    torch.testing.assert_close(clip.motion.translations, motion.translations, atol=atol, rtol=0)


@pytest.mark.parametrize("columns", ["XY", "XZ", "YZ", "ZX", "YX", "ZY"])
def test_any_two_columns_give_the_same_motion(tmp_path: Path, columns: str) -> None:
    motion = starter_motion()
    clip = read(tmp_path, exported(motion, YAW, columns=columns))
    same_motion(clip, motion)
    assert clip.notes["6D columns"] == columns
    assert clip.warnings == ()


@pytest.mark.parametrize(
    ("axes", "units", "per_metre"),
    [
        (UNREAL, "centimeters", 100.0),
        (("forward", "left", "up"), "meters", 1.0),
        (("right", "up", "forward"), "millimeters", 1000.0),
        (("left", "up", "forward"), "meters", 1.0),
        (("backward", "up", "right"), "decimeters", 10.0),
        (("up", "right", "backward"), "meters", 1.0),
    ],
)
def test_axes_hands_and_units_are_honoured(tmp_path: Path, axes: Any, units: str, per_metre: float) -> None:
    motion = starter_motion()
    clip = read(tmp_path, exported(motion, YAW, axes=axes, units=units, per_metre=per_metre))
    same_motion(clip, motion)
    assert clip.motion.tracks["root_velocity"].abs().max() < 5.0, "metres per second, whatever the file's unit"


def test_house_space_is_up_and_ahead(tmp_path: Path) -> None:
    """By hand: Unreal's x is +Z, its y -X, its z +Y, and a quarter turn of yaw is to the right."""
    six = [1.0, 0.0, 0.0, 0.0, 1.0, 0.0]
    frame = {"RootPosition": [1.0, 2.0, 3.0], "RootYaw": math.pi / 2, "BoneRotations": [six, six]}
    skeleton = {"bone_names": ["pelvis", "nose"], "parents": [-1, 0], "ref_local_offsets_m": [[0, 0, 1], [0.5, 0, 0]]}
    clip = read(tmp_path, {"FPS": 60, "meta": {"skeleton": skeleton}, "Frames": [frame, frame]})
    expected = torch.tensor([[-2.0, 4.0, 1.0], [-2.5, 4.0, 1.0]], dtype=torch.float64)
    torch.testing.assert_close(clip.motion.positions()[0], expected, atol=1e-12, rtol=0)


def facing(motion: Motion) -> torch.Tensor:
    joints = motion.positions()
    across = joints[:, motion.names.index("left_hip")] - joints[:, motion.names.index("right_hip")]
    return torch.atan2(-across[:, 2], across[:, 0])


@pytest.mark.parametrize("name", ["walk/circle-left", "walk/circle-right"])
def test_the_root_bone_is_relative_to_the_component(tmp_path: Path, name: str) -> None:
    """A walker whose component turns with it: its root bone hardly turns in the file, and it does in the world."""
    motion = starter_motion(name, frames=60, fps=20.0)
    heading = np.unwrap(facing(motion).numpy())
    yaw = -heading  # Unreal's yaw is to the right, house heading to the left
    document = exported(motion, yaw, columns="XY")
    own = [math.atan2(frame["BoneRotations"][0][1], frame["BoneRotations"][0][0]) for frame in document["Frames"]]
    assert np.ptp(own) < 0.35 < 1.0 < np.ptp(yaw)
    clip = read(tmp_path, document)
    same_motion(clip, motion)
    assert clip.warnings == ()
    torch.testing.assert_close(clip.motion.tracks["root_yaw"], torch.from_numpy(yaw), atol=1e-9, rtol=0)
    feet = find_feet(motion.names, motion.parents)
    assert feet is not None
    left = clip.motion.positions()[:, 10]
    slide = (left[1:] - left[:-1])[:, ::2].norm(dim=-1) * 20.0
    planted = soft_contacts(clip.motion.positions(), 20.0, feet)[1:, 0] > 0.8
    assert float(slide[planted].median()) < 0.1


@pytest.mark.parametrize("offset", [-90.0, -68.2, 30.0])
def test_poses_follow_a_path_that_was_turned(tmp_path: Path, offset: float) -> None:
    motion = starter_motion()
    clip = read(tmp_path, exported(motion, YAW, offset=math.radians(offset)))
    same_motion(clip, motion)
    assert clip.notes["forward offset"] == f"{offset:g} degrees"


def test_rotations_in_component_and_world_space(tmp_path: Path) -> None:
    motion = starter_motion()
    document = exported(motion, YAW, columns="XY")
    parents = motion.parents
    for space in ("component_6d", "world_6d"):
        changed = copy.deepcopy(document)
        changed["meta"]["spaces"]["bone_rotations"] = space
        for t, frame in enumerate(changed["Frames"]):
            world: list[np.ndarray] = []
            for bone, six in enumerate(frame["BoneRotations"]):
                x, y = np.array(six[:3]), np.array(six[3:])
                local = np.stack([x, y, np.cross(x, y)], axis=1)
                if bone == 0 and space == "world_6d":
                    c, s = math.cos(YAW[t]), math.sin(YAW[t])
                    local = np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]]) @ local
                world.append(local if bone == 0 else world[parents[bone]] @ local)
            frame["BoneRotations"] = [[*R[:, 0], *R[:, 1]] for R in world]
        same_motion(read(tmp_path, changed), motion)
    document["meta"]["spaces"]["bone_rotations"] = "quaternion"
    with pytest.raises(MotionkitError, match="'quaternion'"):
        read(tmp_path, document)


def test_the_user_knows_better_than_the_file(tmp_path: Path) -> None:
    motion = starter_motion()
    document = exported(motion, YAW, columns="XZ")
    document["meta"]["rot6d_spec"]["columns"] = ["X", "Y"]
    clip = read(tmp_path, document, rot6d_columns="xz")
    same_motion(clip, motion)
    assert "columns XY; --rot6d-columns xz was used" in clip.warnings[0]


@pytest.mark.parametrize("columns", ["XZ", "YZ", "ZX"])
def test_wrong_columns_are_suspected(tmp_path: Path, columns: str) -> None:
    document = exported(starter_motion("walk/normal"), YAW, columns=columns)
    del document["meta"]["rot6d_spec"]
    said = " ".join(read(tmp_path, document).warnings)
    assert f"columns {columns}, 0% as XY" in said
    assert f"--rot6d-columns {columns.lower()}" in said


def test_the_guides_json_has_rotations_and_no_positions(tmp_path: Path) -> None:
    motion = starter_motion()
    clip = read(tmp_path, guide(exported(motion, np.zeros(40), columns="XY")))
    assert isinstance(clip.motion, Motion)
    torch.testing.assert_close(clip.motion.rotations, motion.rotations, atol=1e-9, rtol=0)
    assert clip.notes["skeleton"] == "unknown"
    assert clip.notes["root"] == "summed up from its velocity"
    assert "positions are not known" in " ".join(clip.warnings)
    assert clip.motion.names[:2] == ("bone_00", "bone_01")
    moved = clip.motion.translations[:, 0] - clip.motion.translations[:1, 0]
    expected = motion.translations[:, 0] - motion.translations[:1, 0]
    torch.testing.assert_close(moved[:, ::2], expected[:, ::2], atol=1e-9, rtol=0)
    torch.testing.assert_close(clip.motion.tracks["contacts"].sum(-1), torch.full((40,), 0.9).double())
    with pytest.raises(MotionkitError, match="no joint that looks like"):
        map_body(clip.motion.names, clip.motion.parents, clip.motion.positions())


@pytest.mark.parametrize("folder", [".", "config", "../config"])
def test_tables_beside_the_file_give_the_skeleton(tmp_path: Path, folder: str) -> None:
    motion = starter_motion()
    hierarchy, offsets = tables(motion)
    document = exported(motion, YAW)
    del document["meta"]["skeleton"]["parents"], document["meta"]["skeleton"]["ref_local_offsets_m"]
    save(tmp_path / "raw" / folder / "FullHierarchy.json", hierarchy)
    save(tmp_path / "raw" / folder / "FullOffsets.json", offsets)
    clip = read(tmp_path / "raw", document)
    same_motion(clip, motion)
    assert clip.notes["skeleton"] == "meta.skeleton and FullHierarchy.json and FullOffsets.json"


def test_tables_named_by_the_user(tmp_path: Path) -> None:
    motion = starter_motion()
    _, offsets = tables(motion)
    document = guide(exported(motion, YAW))
    path = save(tmp_path / "elsewhere.json", offsets)
    with pytest.raises(MotionkitError, match="it has 23 bones and the motion 22"):
        read(tmp_path, document, offsets=path)
    del offsets["Bones"][0]
    for bone in offsets["Bones"]:
        bone["Parent"] = bone["Parent"].replace("root", "None")
    clip = read(tmp_path, document, offsets=save(path, offsets), rot6d_columns="xz")
    assert clip.motion.names == motion.names
    lengths = (clip.motion.offsets.norm(dim=-1) - motion.offsets.norm(dim=-1))[1:]
    assert float(lengths.abs().max()) < 1e-9
    with pytest.raises(MotionkitError, match="does not exist"):
        read(tmp_path, document, hierarchy=tmp_path / "none.json")


def test_tables_that_do_not_fit_are_passed_over(tmp_path: Path) -> None:
    motion = starter_motion()
    save(tmp_path / "FullHierarchy.json", {"a": "None", "b": "a"})
    clip = read(tmp_path, guide(exported(motion, YAW)))
    assert "does not fit: it has 2 bones and the motion 22" in " ".join(clip.warnings)


def test_a_bone_without_an_offset_has_no_length(tmp_path: Path) -> None:
    motion = starter_motion()
    hierarchy, offsets = tables(motion)
    offsets["Bones"] = [bone for bone in offsets["Bones"] if bone["Name"] != "left_wrist"]
    document = exported(motion, YAW)
    document["meta"]["skeleton"] = {"bone_names": list(motion.names)}
    save(tmp_path / "FullHierarchy.json", hierarchy)
    save(tmp_path / "FullOffsets.json", offsets)
    clip = read(tmp_path, document)
    assert "gives no offset for 1 bone, so without length: left_wrist" in " ".join(clip.warnings)
    assert float(clip.motion.offsets[motion.names.index("left_wrist")].norm()) == 0


def test_bones_between_are_skipped_with_a_warning(tmp_path: Path) -> None:
    motion = starter_motion()
    hierarchy, offsets = tables(motion)
    hierarchy["left_knee"], hierarchy["twist"] = "twist", "left_hip"
    offsets["Bones"].append({"Name": "twist", "Index": 23, "Parent": "left_hip", "Offset": [0, 0, 0]})
    document = exported(motion, YAW)
    document["meta"]["skeleton"] = {"bone_names": list(motion.names)}
    save(tmp_path / "FullHierarchy.json", hierarchy)
    save(tmp_path / "FullOffsets.json", offsets)
    clip = read(tmp_path, document)
    assert clip.motion.parents == motion.parents
    assert "between left_knee and its parent" in " ".join(clip.warnings)


def test_parents_may_come_after_their_children(tmp_path: Path) -> None:
    motion = starter_motion()
    document = exported(motion, YAW)
    skeleton = document["meta"]["skeleton"]
    last = motion.frames and len(motion.names) - 1
    skeleton["bone_names"] = skeleton["bone_names"][::-1]
    skeleton["parents"] = [last - parent if parent >= 0 else -1 for parent in motion.parents][::-1]
    skeleton["ref_local_offsets_m"] = skeleton["ref_local_offsets_m"][::-1]
    for frame in document["Frames"]:
        frame["BoneRotations"] = frame["BoneRotations"][::-1]
    clip = read(tmp_path, document)
    assert all(parent < joint for joint, parent in enumerate(clip.motion.parents))
    order = [clip.motion.names.index(name) for name in motion.names]
    torch.testing.assert_close(clip.motion.positions()[:, order], motion.positions(), atol=1e-9, rtol=0)


def test_older_names_and_missing_fields(tmp_path: Path) -> None:
    motion = starter_motion()
    document = exported(motion, np.zeros(40))
    for frame in document["Frames"]:
        frame["RootVelocity"] = [*frame.pop("RootVelocityXY"), 0.0]
        del frame["RootYaw"]
    clip = read(tmp_path, document)
    same_motion(clip, motion)
    assert clip.warnings == ("there is no RootYaw: the root bone was taken to turn by its own rotation.",)
    assert clip.motion.tracks["root_velocity"].shape == (40, 2)
    assert "root_yaw" not in clip.motion.tracks


def test_yaw_in_degrees_and_around_the_clock(tmp_path: Path) -> None:
    motion = starter_motion()
    yaw = 3.0 + 0.02 * np.arange(40)
    document = exported(motion, yaw)
    document["meta"]["root_motion"]["root_yaw_units"] = "degrees"
    for frame in document["Frames"]:
        frame["RootYaw"] = (math.degrees(frame["RootYaw"]) + 180.0) % 360.0 - 180.0
    clip = read(tmp_path, document)
    same_motion(clip, motion)
    torch.testing.assert_close(clip.motion.tracks["root_yaw"], torch.from_numpy(yaw), atol=1e-9, rtol=0)


def test_contacts_come_from_the_file_or_the_motion(tmp_path: Path) -> None:
    motion = starter_motion("walk/normal", frames=60, fps=30.0)
    document = exported(motion, np.zeros(60))
    told = read(tmp_path, document).motion.tracks["contacts"]
    expected = torch.tensor([frame["FootEvidence"]["L"]["soft_contact_score"] for frame in document["Frames"]])
    torch.testing.assert_close(told[:, 0], expected.double(), atol=1e-6, rtol=0)
    feet = find_feet(motion.names, motion.parents)
    assert feet is not None
    made = soft_contacts(motion.positions(), 30.0, feet)
    del document["Frames"][7]["FootEvidence"]["R"]
    del document["Frames"][9]["FootEvidence"]
    clip = read(tmp_path, document)
    assert "missing in 2 frames (the first: frame 7, right)" in clip.warnings[0]
    mixed = told.clone()
    mixed[7, 1], mixed[9] = made[7, 1], made[9]
    torch.testing.assert_close(clip.motion.tracks["contacts"], mixed)
    for frame in document["Frames"]:
        frame.pop("FootEvidence", None)
    clip = read(tmp_path, document)
    torch.testing.assert_close(clip.motion.tracks["contacts"], made)
    assert "come from height and speed" in clip.warnings[0]


def test_evidence_without_a_score_is_scored(tmp_path: Path) -> None:
    motion = starter_motion()
    document = exported(motion, YAW)
    document["meta"]["foot_evidence"] = {"soft_score_spec": {"vxy0_cmps": 80.0, "gate_by_hit": True}}
    measured = {"hit_flag": 1, "dist_to_ground_m": 0.0, "vz_mps": 0.0, "vxy_mps": 0.8}
    document["Frames"][0]["FootEvidence"] = {"L": measured, "R": {**measured, "hit_flag": 0}}
    contacts = read(tmp_path, document).motion.tracks["contacts"][0]
    assert float(contacts[0]) == pytest.approx((0.5 / (1 + math.exp(-1))) ** (1 / 3), abs=1e-6)
    assert float(contacts[1]) == 0.0


def test_actions_come_from_bits_or_the_clips_name(tmp_path: Path) -> None:
    document = exported(starter_motion(), YAW)
    assert read(tmp_path, document).motion.tracks["action"].tolist() == [[0, 1, 0, 0]] * 40
    document["ClipAction"] = "EAction::Jump"
    assert "ActionBits were followed" in read(tmp_path, document).warnings[0]
    for frame in document["Frames"]:
        del frame["ActionBits"]
    assert read(tmp_path, document).motion.tracks["action"].tolist() == [[0, 0, 0, 1]] * 40
    document["ClipAction"] = "EAction::Swim"
    clip = read(tmp_path, document)
    assert "action" not in clip.motion.tracks
    assert "Swim is not one of" in clip.warnings[0]


def test_columns_on_one_line_are_counted(tmp_path: Path) -> None:
    motion = starter_motion()
    document = exported(motion, YAW)
    document["Frames"][3]["BoneRotations"][5] = [1.0, 0.0, 0.0, 2.0, 0.0, 0.0]
    document["Frames"][0]["BoneRotations"][6] = [0.0] * 6
    document["Frames"][8]["BoneRotations"][2] = [2.0 * value for value in document["Frames"][8]["BoneRotations"][2]]
    clip = read(tmp_path, document)
    assert "2 rotations with two collinear columns (the first: frame 0, spine2)" in clip.warnings[0]
    assert "1 of 880 rotations were not orthonormal" in clip.warnings[1]
    assert clip.motion.rotations.isfinite().all()
    torch.testing.assert_close(clip.motion.rotations[3, 5], clip.motion.rotations[2, 5])
    torch.testing.assert_close(clip.motion.rotations[8], motion.rotations[8], atol=1e-9, rtol=0)


Change = Callable[[dict[str, Any]], object]


def put(value: object, *path: Any) -> Change:
    def change(document: dict[str, Any]) -> None:
        place: Any = document
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value

    return change


def drop(*path: Any) -> Change:
    def change(document: dict[str, Any]) -> None:
        place: Any = document
        for key in path[:-1]:
            place = place[key]
        del place[path[-1]]

    return change


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (drop("Frames"), "has no Frames"),
        (put([], "Frames"), "Frames is empty"),
        (put({}, "Frames"), "Frames is not a list"),
        (put(3, "Frames", 5), "frame 5 is a int"),
        (drop("Frames", 7, "BoneRotations"), "frame 7 has no BoneRotations"),
        (drop("Frames", 2, "RootYaw"), "frame 2 has no RootYaw"),
        (put(None, "Frames", 4, "RootVelocityXY"), "frame 4 has no RootVelocityXY"),
        (drop("Frames", 9, "BoneRotations", 3), "BoneRotations of frame 9 has shape 21x6, expected 22x6"),
        (drop("Frames", 9, "BoneRotations", 3, 1), "BoneRotations of frame 9 is not a table of numbers"),
        (drop("Frames", 9, "BoneRotations", 3, 1), "its row 3 has 5 numbers, the others have 6"),
        (put(["a", 0.0], "Frames", 1, "RootVelocityXY"), "RootVelocityXY of frame 1 is not a table"),
        (put(1e-9, "FPS"), "FPS is 1e-09; a number from 0.1 to 10000"),
        (put(10**300, "FPS"), "FPS is 1000"),
        (put([0.0], "Frames", 1, "RootYaw"), "RootYaw of frame 1 has shape 1, expected of a single number"),
        (drop("FPS"), "has no FPS"),
        (put(0, "FPS"), "FPS is 0"),
        (put("fast", "FPS"), "FPS is 'fast'"),
        (put("parsecs", "meta", "units"), "meta.units is 'parsecs'"),
        (put("right", "meta", "handedness"), "are left-handed"),
        (put("both", "meta", "handedness"), "meta.handedness is 'both'"),
        (put("forward", "meta", "axes", "y"), "x forward, y forward, z up"),
        (put(["X", "X"], "meta", "rot6d_spec", "columns"), "two of X, Y and Z"),
        (put("interleaved", "meta", "rot6d_spec", "order"), "'interleaved'"),
        (put("spiral", "meta", "rot6d_spec", "matrix_layout"), "'spiral'"),
        (put(["a"], "meta", "skeleton", "bone_names"), "bone_names has 1 entries, BoneRotations has 22"),
        (put("spine1", "meta", "skeleton", "bone_names", 0), "two bones of meta.skeleton are called spine1"),
        (put(0, "meta", "skeleton", "parents", 0), "0 bones without a parent"),
        (put(-1, "meta", "skeleton", "parents", 4), "2 bones without a parent"),
        (put(7, "meta", "skeleton", "parents", 4), "bone left_knee is its own ancestor"),
        (put(22, "meta", "skeleton", "parents", 4), "each below 22"),
        (put([0.0], "meta", "skeleton", "ref_local_offsets_m", 3), "ref_local_offsets_m is not a table"),
        (put("yz", "meta", "spaces", "root_velocity_axes") , "root_velocity_axes is 'yz'"),
        (put(10**400, "meta", "root_motion", "forward_axis_offset_deg"), "forward_axis_offset_deg is 1"),
        (put(10**400, "meta", "skeleton", "ref_local_offsets_m", 3, 0), "skeleton.ref_local_offsets_m is not a table"),
        (put(10**400, "FPS"), "FPS is 1"),
        (put([1e308] * 3, "Frames", 0, "RootPosition"), "too large to be places"),
        (put("turns", "meta", "root_motion", "root_yaw_units"), "root_yaw_units is 'turns'"),
        (put("east", "Frames", 0, "FootEvidence", "L", "soft_contact_score"), "frame 0, foot L"),
    ],
)  # fmt: skip
def test_damage_is_named(tmp_path: Path, change: Change, said: str) -> None:
    document = exported(starter_motion(frames=12), np.zeros(12))
    change(document)
    with pytest.raises(MotionkitError) as caught:
        read(tmp_path, document)
    assert said in f"{caught.value.message} {caught.value.why}"


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({"MuX": [], "StdX": []}, "a normalisation bundle"),
        ({"epochs": 3, "seq_len": 60, "tf_mode": "x"}, "a training configuration"),
        ({"root": "None", "pelvis": "root"}, "give it as --hierarchy"),
        ({"NumBones": 1, "Bones": []}, "give it as --offsets"),
        ({"what": 1}, "has no Frames"),
        ([1, 2], "holds a list"),
        ("text", "holds a str"),
    ],
)
def test_something_else_is_called_by_its_name(tmp_path: Path, document: object, said: str) -> None:
    with pytest.raises(MotionkitError) as caught:
        read(tmp_path, document)
    assert said in caught.value.message


def test_frames_that_are_missing_are_noticed(tmp_path: Path) -> None:
    document = exported(starter_motion(), YAW)
    document["NumFrames"] = 90
    assert "NumFrames is 90, there are 40 frames." in read(tmp_path, document).warnings


def test_fps_from_the_user(tmp_path: Path) -> None:
    document = exported(starter_motion(), YAW)
    del document["FPS"]
    clip = read(tmp_path, document, fps=24.0)
    assert clip.motion.fps == 24.0
    assert "24 frames per second were taken" in clip.warnings[0]


@pytest.mark.parametrize(
    "change",
    [
        put(math.nan, "Frames", 6, "BoneRotations", 2, 1),
        put(None, "Frames", 6, "BoneRotations", 2, 1),
        put(math.inf, "Frames", 6, "RootYaw"),
        put(math.nan, "Frames", 6, "RootPosition", 0),
        put(math.nan, "Frames", 6, "RootVelocityXY", 1),
        put(-math.inf, "Frames", 6, "TrajectoryDir", 2, 0),
        put(math.nan, "Frames", 6, "ActionBits", 0),
    ],
    ids=["rotation", "null", "yaw", "position", "velocity", "trajectory", "action"],
)
def test_a_value_that_is_not_finite_spoils_its_frame_alone(tmp_path: Path, change: Change) -> None:
    motion = starter_motion()
    document = exported(motion, np.linspace(2.0, 4.5, motion.frames))
    (whole,) = read_mpl_json(save(tmp_path / "whole.json", document))
    change(document)
    (clip,) = read_mpl_json(save(tmp_path / "gap.json", document))
    assert "values are not finite in 1 of 40 frames." in clip.warnings
    (finding,) = [finding for finding in check_motion(clip.motion) if finding.kind == "nan"]
    assert finding.frames == ((6, 7),)
    others = [frame for frame in range(40) if frame != 6]
    for name in ("rotations", "translations"):
        ours, theirs = getattr(clip.motion, name), getattr(whole.motion, name)
        assert ours[6].isnan().all()
        torch.testing.assert_close(ours[others], theirs[others])
    for name in whole.motion.tracks:
        torch.testing.assert_close(clip.motion.tracks[name][others], whole.motion.tracks[name][others])


def test_a_path_goes_on_after_a_velocity_that_is_not_finite(tmp_path: Path) -> None:
    """Without positions it is summed up from velocities: the lost one counts as the one before it."""
    document = exported(motion := starter_motion(), np.zeros(40))
    for frame in document["Frames"]:
        del frame["RootPosition"]
    (whole,) = read_mpl_json(save(tmp_path / "whole.json", document))
    document["Frames"][6]["RootVelocityXY"] = [math.nan, 0.0]
    (clip,) = read_mpl_json(save(tmp_path / "gap.json", document))
    before, after = (
        document["Frames"][5]["RootVelocityXY"],
        exported(motion, np.zeros(40))["Frames"][6]["RootVelocityXY"],
    )
    off = np.linalg.norm(np.subtract(before, after)) / motion.fps
    moved = (clip.motion.translations[7:, 0] - whole.motion.translations[7:, 0]).norm(dim=-1)
    torch.testing.assert_close(moved, torch.full_like(moved, float(off)))


def test_contacts_that_are_not_finite_are_made_from_the_motion(tmp_path: Path) -> None:
    document = exported(starter_motion(), np.zeros(40))
    document["Frames"][6]["FootEvidence"]["L"]["soft_contact_score"] = math.nan
    (clip,) = read_mpl_json(save(tmp_path / "a.json", document))
    assert clip.motion.tracks["contacts"].isfinite().all()
    assert any("foot evidence is missing in 1 frame (the first: frame 6, left)" in said for said in clip.warnings)


def legacy(motion: Motion, yaw: np.ndarray, offset: float = 0.0) -> dict[str, Any]:
    """A document of an older exporter: places of bones instead of their lengths, older names, RootPosition level."""
    document = exported(motion, yaw, offset=offset)
    basis = np.array([HOUSE[word] for word in UNREAL], dtype=float).T
    places = motion.positions().numpy() @ basis
    for t, frame in enumerate(document["Frames"]):
        frame["RootPosition"][2] = 0.0
        level = (places[t] - frame["RootPosition"]) @ turn(2, yaw[t] - offset)
        frame["BonePositions"] = level.tolist()
        frame["BoneVelocities"] = np.zeros_like(level).tolist()
        frame["RootVelocity"] = frame.pop("RootVelocityXY")
    del document["meta"]["skeleton"]["ref_local_offsets_m"]
    return document


@pytest.mark.parametrize("offset", [0.0, math.radians(90.0)])
def test_places_of_bones_stand_for_lengths(tmp_path: Path, offset: float) -> None:
    motion = starter_motion()
    clip = read(tmp_path, legacy(motion, np.linspace(2.0, 4.5, 40), offset))
    torch.testing.assert_close(clip.motion.positions(), motion.positions(), atol=1e-6, rtol=0)
    assert clip.notes["skeleton"] == "BonePositions"
    assert clip.notes["not read"].startswith("BoneVelocities")
    assert "taken from BonePositions" in " ".join(clip.warnings)
    assert "positions are not known" not in " ".join(clip.warnings)
    assert "contacts" in clip.motion.tracks


def test_places_of_bones_that_are_none_are_not_used(tmp_path: Path) -> None:
    document = legacy(starter_motion(), np.linspace(2.0, 4.5, 40))
    generator = np.random.default_rng(0)
    for frame in document["Frames"]:
        frame["BonePositions"] = generator.normal(size=(22, 3)).tolist()
    clip = read(tmp_path, document)
    assert clip.notes["skeleton"] == "unknown"
    assert "do not fit the rotations" in " ".join(clip.warnings)
    assert "positions are not known" in " ".join(clip.warnings)
    document["Frames"][3]["BonePositions"].pop()
    with pytest.raises(MotionkitError, match="BonePositions of frame 3 has shape 21x3"):
        read(tmp_path, document)


def test_places_of_bones_need_parents_and_yield_to_a_skeleton(tmp_path: Path) -> None:
    motion, yaw = starter_motion(), np.zeros(40)
    document = legacy(motion, yaw)
    skeleton = document["meta"].pop("skeleton")
    clip = read(tmp_path, document)
    assert "cannot be used without the bones' parents" in " ".join(clip.warnings)
    assert clip.notes["skeleton"] == "unknown"
    offsets = exported(motion, yaw)["meta"]["skeleton"]["ref_local_offsets_m"]
    document["meta"]["skeleton"] = {**skeleton, "ref_local_offsets_m": offsets}
    assert read(tmp_path, document).notes["skeleton"] == "meta.skeleton"


@pytest.mark.parametrize("kind", ["json", "npz"])
def test_a_body_that_its_axes_turn_upside_down_is_turned_back(tmp_path: Path, kind: str) -> None:
    """The component is turned by half a turn about its forward axis: as of axes that name up what is down."""
    motion = starter_motion(frames=60)
    half = turn_up("-y")
    root = half @ motion.rotations[:, :1]
    places = torch.cat([motion.translations[:, :1] @ half.T, motion.translations[:, 1:]], dim=1)
    down = replace(motion, rotations=torch.cat([root, motion.rotations[:, 1:]], dim=1), translations=places)
    document = exported(down, np.zeros(60))
    if kind == "npz":
        (clip,) = read_mpl_npz(original_npz(tmp_path / "a.npz", document))
        (kept,) = read_mpl_npz(tmp_path / "a.npz", ReadOptions(up="z"))
        (given,) = read_mpl_npz(tmp_path / "a.npz", ReadOptions(up="-z"))
    else:
        clip, kept = read(tmp_path, document), read(tmp_path, document, up="z")
        given = read(tmp_path, document, up="-z")
    head, tall = HUMANML.index("head"), float((motion.positions()[:, 15, 1] - motion.positions()[:, 0, 1]).mean())
    rise = [
        float((one.motion.positions()[:, head, 1] - one.motion.positions()[:, 0, 1]).mean()) for one in (clip, kept)
    ]
    assert rise == pytest.approx([tall, -tall], abs=1e-4)
    assert clip.notes["up"] == "-z"
    assert "the trunk points along -Z: Z down was taken; if that is wrong, pass --up z." in clip.warnings
    assert "root_yaw" not in clip.motion.tracks
    torch.testing.assert_close(given.motion.positions(), clip.motion.positions())
    assert not [warning for warning in (*kept.warnings, *given.warnings) if "--up" in warning]


@pytest.mark.parametrize("root", [None, "None", ""], ids=["null", "word", "empty"])
def test_the_parent_of_the_root_may_be_null(tmp_path: Path, root: str | None) -> None:
    motion = starter_motion()
    hierarchy, offsets = tables(motion)
    offsets["Bones"][0]["Parent"] = root
    document = exported(motion, YAW)
    document["meta"]["skeleton"] = {"bone_names": list(motion.names)}
    save(tmp_path / "FullHierarchy.json", {**hierarchy, "root": root})
    save(tmp_path / "FullOffsets.json", offsets)
    assert read(tmp_path, document).motion.parents == motion.parents


@pytest.mark.parametrize(
    ("name", "content", "example"),
    [
        ("FullOffsets.json", {"hips": [0, 0, 0]}, {"Units": "centimeters"}),
        ("FullHierarchy.json", {"hips": 3}, {"pelvis": None, "thigh_l": "pelvis"}),
    ],
)
def test_a_table_of_another_layout_is_answered_with_an_example(
    tmp_path: Path, name: str, content: object, example: dict[str, object]
) -> None:
    save(tmp_path / name, content)
    with pytest.raises(MotionkitError) as caught:
        read(tmp_path, guide(exported(starter_motion(), YAW)))
    shown = json.loads(caught.value.why[caught.value.why.index("{") : caught.value.why.rindex("}") + 1])
    assert example.items() <= shown.items()
