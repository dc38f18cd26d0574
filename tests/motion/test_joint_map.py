"""Tables of joint names, limits of a motion, batches, paths of a commanded motion."""

from __future__ import annotations

import json
import math
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest
import roma
import torch

from motionkit.errors import MotionkitError
from motionkit.formats.bvh import read_bvh
from motionkit.formats.table import FORMATS, readers, recognise
from motionkit.geometry import rotate_yaw
from motionkit.metrics import body_positions
from motionkit.motion import (
    HUMANML,
    KIT,
    JointMotion,
    MotionBatch,
    ReadOptions,
    Skeleton,
    feature_layout,
    joints_to_features,
)
from motionkit.motion import motion as limits
from motionkit.motion.clip import joint_map_text, read_joint_map
from motionkit.motion.prediction import (
    MotionState,
    follow,
    motion_of,
    path_points,
    read_path,
    state_positions,
    steps_of,
)
from motionkit.rigs import to_body
from motionkit.rigs.bodymap import map_body
from motionkit.rigs.roles import find_roles
from motionkit.starter import generate

from ..made.blender import stand_in
from ..made.bodies import walker
from ..made.bvh_files import NAMES, Dialect, write_bvh, write_dialect
from ..made.commands import assert_refused, run
from ..made.samples import write_sample
from ..rigs.rig_names import RIGS

STRANGE = [f"b{number:02d}" for number in range(22)]
"""Names that say nothing; the pelvis is found all the same, as the root."""


def table(path: Path, **names: str) -> Path:
    path.write_text("".join(f'{ours} = "{theirs}"\n' for ours, theirs in names.items()))
    return path


def filled(path: Path) -> Path:
    needed = {joint: name for joint, name in zip(HUMANML.joint_names, STRANGE, strict=True) if "spine" not in joint}
    return table(path, **needed)


def test_a_mapped_rig_becomes_the_same_body(tmp_path):
    plain = write_dialect(tmp_path / "plain.bvh", Dialect(), 0.5)
    strange = write_dialect(tmp_path / "strange.bvh", Dialect(names=tuple(STRANGE)), 0.5)
    names = {joint: name for joint, name in zip(HUMANML.joint_names, STRANGE, strict=True) if "spine" not in joint}
    for joint in ("neck", "left_collar", "right_collar"):
        del names[joint]
    options = ReadOptions(joint_map=read_joint_map(table(tmp_path / "rig.toml", **names)))
    want, have = (to_body(read_bvh(path, options)[0].motion, HUMANML, 20.0) for path in (plain, strange))
    torch.testing.assert_close(have, want, atol=1e-9, rtol=0)
    with pytest.raises(MotionkitError) as caught:
        to_body(read_bvh(strange, ReadOptions(unit="cm"))[0].motion, HUMANML, 20.0)
    assert "--write-joint-map" in caught.value.fix


def test_a_mapped_trunk_joint_is_taken_as_it_is(tmp_path):
    strange = write_dialect(tmp_path / "strange.bvh", Dialect(names=tuple(STRANGE)), 0.2)
    motion = read_bvh(strange, ReadOptions(joint_map=read_joint_map(filled(tmp_path / "rig.toml"))))[0].motion
    body = map_body(motion.names, motion.parents, motion.positions())
    neck = HUMANML.index("neck")
    assert body.weights[neck].tolist() == [float(name == "motionkit:neck") for name in motion.names]


def test_a_table_wins_against_names():
    names = [*NAMES, "other"]
    renamed = ["motionkit:left_hip" if name == "other" else name for name in names]
    roles = find_roles(renamed, [*HUMANML.parents, 0])
    assert roles["left hip"] == 22
    assert roles["right hip"] == names.index("RightUpLeg")


@pytest.mark.parametrize(
    ("text", "said", "fix"),
    [
        ('# rig\n\nleft_hipp = "a"', "line 3: 'left_hipp' is not a joint of the body", "did you mean left_hip?"),
        ('left_hip = "a"\nleft_knee = "a"', "line 2: left_knee and left_hip are the same joint 'a'", ""),
        ("left_hip = 3", "line 1: left_hip is not a name", "name of your joint"),
        ('left_hip = ""', "names no joint", "fill in"),
        ('left_hip = "a"\nleft_knee = b', "line 2", ""),
    ],
)
def test_mistakes_name_the_line(tmp_path, text, said, fix):
    (tmp_path / "rig.toml").write_text(text)
    with pytest.raises(MotionkitError) as caught:
        read_joint_map(tmp_path / "rig.toml")
    assert said in caught.value.message
    assert "rig.toml" in caught.value.message
    assert fix in caught.value.fix


def test_a_joint_that_the_rig_lacks_names_the_line(tmp_path):
    found = read_joint_map(table(tmp_path / "rig.toml", left_hip="thigh.l", left_knee="shln.l"))
    with pytest.raises(MotionkitError) as caught:
        found.apply(["root", "thigh.l", "shin.l", "shin.l End"])
    assert caught.value.fix == "did you mean shin.l?"
    assert found.apply(["Hips", "Spine"]) == ("Hips", "Spine"), "another rig"


def test_a_written_table_reads_back(tmp_path):
    names = ['a "quoted" name', "左足", *NAMES[2:], "左足 End"]
    path = tmp_path / "rig.toml"
    path.write_text(joint_map_text(names, {"pelvis": 0, "left hip": 1, "head": 15}, "walk.bvh"), encoding="utf-8")
    assert read_joint_map(path).rows == (
        ("pelvis", 'a "quoted" name', 28), ("head", "Head", 33), ("left_hip", "左足", 34),
    )  # fmt: skip


def test_from_check_to_a_dataset(tmp_path):
    strange = write_dialect(tmp_path / "strange.bvh", Dialect(names=(*STRANGE[:15], "Head", *STRANGE[16:])), 3.0)
    path = tmp_path / "rig.toml"
    result = run("convert", "--check", strange, "--write-joint-map", path, "--jobs", 1)
    assert "fill in left_hip, left_knee" in result.stderr
    text = path.read_text()
    assert 'head = "Head"' in text
    assert 'left_knee = ""' in text
    assert '#   "b04"' in text
    assert run("convert", "--check", strange, "--write-joint-map", path).exit_code == 2, "it is there already"
    assert run("convert", strange, tmp_path / "out", "--write-joint-map", path).exit_code == 2, "without --check"
    for joint, name in zip(HUMANML.joint_names, STRANGE, strict=True):
        text = text.replace(f'{joint} = ""', f'{joint} = "{name}"')
    path.write_text(text)
    result = run("convert", strange, tmp_path / "out", "--joint-map", path, "--jobs", 1, "--json")
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["bodies"][0]["unit"] == "cm"
    path.write_text(text.replace('"b04"', '"b44"'))
    assert_refused(
        run("convert", strange, tmp_path / "two", "--joint-map", path, "--jobs", 1),
        "there is no joint 'b44' in the file",
    )
    table(path, left_hip="nowhere")
    assert_refused(run("convert", strange, tmp_path / "two", "--joint-map", path), "names no joint of these files")


def test_japanese_names_in_their_own_code_page(tmp_path):
    path = write_dialect(tmp_path / "mmd.bvh", Dialect(names=tuple(RIGS["mmd"][0])), 0.2)
    path.write_bytes(path.read_text(encoding="utf-8").encode("cp932"))
    motion = read_bvh(path)[0].motion
    assert motion.names[0] == "センター"
    assert find_roles(motion.names, motion.parents)["left knee"] == motion.names.index("左ひざ")


def joints(frames: int = 30, fps: float = 20.0) -> JointMotion:
    return JointMotion(HUMANML.joint_names, HUMANML.parents, walker(frames), fps)


@pytest.mark.parametrize("fps", [0.0, -1.0, 1e-9, 0.0999, 1e5, 1e12, float("inf"), float("nan")])
def test_rates_that_no_motion_has(fps):
    solid = limits.Motion(
        ("root",), (-1,), torch.zeros(1, 3), torch.eye(3).expand(9, 1, 3, 3), torch.zeros(9, 1, 3), 20.0
    )
    for call in (lambda: joints(fps=fps), lambda: joints().resample(fps), lambda: replace(solid, fps=fps),
                 lambda: solid.resample(fps)):  # fmt: skip
        with pytest.raises(MotionkitError, match="frames per second"):
            call()


def test_a_motion_is_not_resampled_to_more_than_fits():
    slow = replace(joints(2000), fps=0.1)
    with pytest.raises(MotionkitError) as caught:
        slow.resample(10_000.0)
    assert "cut the motion" in caught.value.fix


@pytest.mark.parametrize("name", [form.name for form in readers()])
def test_every_reader_refuses_a_motion_that_would_fill_the_memory(tmp_path, monkeypatch, name):
    if name == "fbx":
        monkeypatch.setenv("MOTIONKIT_BLENDER", str(stand_in(tmp_path / "bin")))
        monkeypatch.setenv("MOTIONKIT_CACHE", str(tmp_path / "cache"))
    path = write_sample(tmp_path, name)
    form = recognise(path)
    assert form is not None
    assert form.name == name
    read = form.read(path, ReadOptions(fps=60.0))
    assert read[0].motion.frames == 400
    monkeypatch.setattr(limits, "LARGEST", 100 * 22)
    with pytest.raises(MotionkitError, match="GB once read"):
        form.read(path, ReadOptions(fps=60.0))


def test_a_bvh_file_with_a_stray_word_takes_little_memory(tmp_path):
    """It is read word by word then, to say where; a list of words took 28 times the file."""
    path = write_bvh(tmp_path / "a.bvh", 3000)
    path.write_text(path.read_text().rstrip() + " 0\n")
    tracemalloc.start()
    with pytest.raises(MotionkitError, match="found 207001"):
        FORMATS["bvh"].read(path, ReadOptions())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * path.stat().st_size
    path.write_text(path.read_text().rstrip() + " y\n")
    with pytest.raises(MotionkitError, match="is not a number"):
        FORMATS["bvh"].read(path, ReadOptions())


def test_headings_undo_the_turns_of_the_joints() -> None:
    clip = torch.from_numpy(generate("turn/around-left", frames=61).joints)
    features = joints_to_features(clip, HUMANML, target=False).float()
    padded = torch.cat([features, torch.full((7, 263), torch.nan)])[None]
    batch = MotionBatch(padded, torch.tensor([60]), skeleton=HUMANML, fps=20.0)
    assert float(batch.headings[0, :60].max() - batch.headings[0, :60].min()) > 2.5
    layout = feature_layout(HUMANML)
    stored = features[:, layout.positions].unflatten(-1, (21, 3)).clone()
    stored[..., 1] -= features[:, layout.root_height]
    found = body_positions(batch.joints, batch.headings)[0, :60, 1:]
    torch.testing.assert_close(found, stored, atol=1e-5, rtol=0)


@pytest.mark.parametrize(("skeleton", "names"), [(HUMANML, ("wrist", "foot")), (KIT, ("W", "F"))])
def test_limbs_end_in_wrists_and_feet(skeleton: Skeleton, names: tuple[str, str]) -> None:
    for (left, right), name in zip(skeleton.limbs.values(), names, strict=True):
        assert skeleton.joint_names[left].endswith(name)
        assert skeleton.mirror_order[left] == right


def test_the_left_limbs_are_at_positive_x_of_a_body_that_faces_ahead() -> None:
    pose = torch.from_numpy(generate("walk", frames=20).joints)[0]
    left, right = HUMANML.limbs["arm"]
    assert pose[left, 0] > pose[right, 0]
    # The names of KIT's joints say the other side, see `motionkit.rigs`.
    assert [KIT.joint_names[joint] for joint in KIT.limbs["arm"]] == ["RW", "LW"]


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "path.csv"
    path.write_text(text)
    return path


def test_steps_are_the_inverse_of_following_them() -> None:
    steps = torch.randn(20, 3, generator=torch.Generator().manual_seed(0)).double() * 0.2
    place, yaw = follow(steps)
    start = torch.zeros(1, 2, dtype=torch.float64)
    back = steps_of(torch.cat([start, place]), torch.cat([start[:, 0], yaw]))
    assert torch.allclose(back, steps, atol=1e-9)


def test_a_straight_path_and_a_turn(tmp_path: Path) -> None:
    """One metre ahead in a second, then one to the left in another: it faces where it goes."""
    steps = read_path(written(tmp_path, "seconds,x,z\n1,0,1\n2,1,1\n"), 10.0)
    place, yaw = follow(steps)
    assert len(steps) == 20
    assert place[9].tolist() == pytest.approx([0.0, 1.0], abs=1e-9)
    assert place[-1].tolist() == pytest.approx([1.0, 1.0], abs=1e-9)
    assert float(yaw[-1]) == pytest.approx(math.pi / 2)


def test_headings_of_the_file_win(tmp_path: Path) -> None:
    steps = read_path(written(tmp_path, "seconds,x,z,yaw\n0,0,0,0\n1,0,1,170\n2,0,2,190\n"), 10.0)
    _, yaw = follow(steps)
    assert float(yaw[9]) == pytest.approx(math.radians(170))
    assert float(yaw[-1]) == pytest.approx(math.radians(190))
    assert float(yaw.diff().abs().max()) < math.radians(20)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("time,x,z\n0,0,0\n", "not a path"),
        ("", "not a path"),
        ("seconds,x,z\n0,0,zero\n", "line 2, column z: 'zero'"),
        ("seconds,x,z\n0,0\n", "line 2 has no 'z'"),
        ("seconds,x,z\n0,0,nan\n1,0,1\n", "line 2, column z: nan"),
        ("seconds,x,z,yaw\n0,0,0,0\n1,0,1,nan\n", "line 3, column yaw: nan"),
        ("seconds,x,z,yaw\n0,0,0,0\n1,0,1,inf\n", "line 3, column yaw: inf"),
        ("seconds,x,z\n0,0,0\n1,1e300,1\n", "line 3, column x: 1e[+]300"),
        (f"seconds,x,z\n0,0,{'1' * 200_000}\n", "not a CSV file: line 2"),
        ("seconds,x,z\n1,0,0\n1,0,1\n", "line 3: seconds are 1"),
        ("seconds,x,z\n0,0,0\n1,0,1\n0.5,0,2\n", "line 4: seconds"),
        ("seconds,x,z\n2,0,0\n1,0,1\n3,0,1\n", "line 3: seconds"),
        ("seconds,x,z\n0,0,0\n", "0 seconds"),
        ("seconds,x,z\n0,0,0\n1,0,1\n1.1,3,1\n2,3,2\n", "before line 4"),
        ("seconds,x,z\n0.1,3,0\n", "before line 2"),
        ("seconds,x,z,yaw\n0,0,0,0\n1,0,1,0\n1.1,0,1.1,3600\n", "before line 4"),
        ("seconds,x,z,yaw\n0.05,0,0,150\n", "before line 2"),
    ],
)
def test_what_is_no_path_is_refused(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(MotionkitError, match=said):
        read_path(written(tmp_path, text), 30.0)


def test_a_file_begins_where_the_body_stands(tmp_path: Path) -> None:
    text = "seconds,x,z\n0,{0},{0}\n1,{0},{1}\n"
    place, _ = follow(read_path(written(tmp_path, text.format(1000, 1001)), 30.0))
    assert place[-1].tolist() == pytest.approx([0.0, 1.0])


def test_a_jump_says_in_what(tmp_path: Path) -> None:
    with pytest.raises(MotionkitError) as caught:
        read_path(written(tmp_path, "seconds,x,z,yaw\n0,0,0,0\n0.1,0,0,360\n"), 30.0)
    assert caught.value.why == "it turns by 360 degrees in 0.1 s, 3.6e+03 degrees/s; up to 2160 is possible."
    with pytest.raises(MotionkitError) as caught:
        read_path(written(tmp_path, "seconds,x,z\n0,0,0\n"), 30.0)
    assert "a point for a later second" in caught.value.fix


def test_ten_metres_a_second_and_one_point_are_paths(tmp_path: Path) -> None:
    place, _ = follow(read_path(written(tmp_path, "seconds,x,z\n2,0,20\n"), 30.0))
    assert place[-1].tolist() == pytest.approx([0.0, 20.0])


@pytest.mark.parametrize(
    ("yaws", "turn"),
    [
        ("0,350,10", 10.0),  # wrapped: it turns 10 to the right and 20 to the left
        ("170,-170,-150", 40.0),
        ("0,180,360", 360.0),
        ("0,360,720", 720.0),  # as written: a full circle in each second
        ("0,-360,-360", -360.0),
    ],
)
def test_a_heading_turns_by_a_full_circle_where_it_says_so(tmp_path: Path, yaws: str, turn: float) -> None:
    first, second, third = yaws.split(",")
    text = f"seconds,x,z,yaw\n0,0,0,{first}\n1,0,1,{second}\n2,0,2,{third}\n"
    _, yaw = follow(read_path(written(tmp_path, text), 30.0))
    assert abs(float(yaw[-1])) == pytest.approx(math.radians(abs(turn)), abs=1e-6)


def test_a_state_as_a_motion_begins_at_the_origin() -> None:
    state = MotionState(
        torch.eye(3).expand(4, 2, 3, 3), torch.tensor([0.0, 0.5, 0.0]).expand(4, 3), torch.ones(4), torch.zeros(4, 2)
    )
    offsets = torch.tensor([[0.0, 0.0, 0.0], [0.0, 0.3, 0.0]])
    motion = motion_of(state, names=("hips", "head"), parents=(-1, 0), offsets=offsets, fps=30.0)
    joints = motion.positions()
    assert joints[0, 0].tolist() == [0.0, 1.0, 0.0]
    assert joints[3, 0].tolist() == pytest.approx([0.0, 1.0, 1.5])
    assert joints[3, 1].tolist() == pytest.approx([0.0, 1.3, 1.5])


def random_steps(frames: int) -> torch.Tensor:
    return torch.randn(frames, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def test_steps_add_up_one_by_one() -> None:
    steps = random_steps(12)
    place, yaw = torch.zeros(3, dtype=torch.float64), torch.zeros((), dtype=torch.float64)
    places, yaws = follow(steps)
    for number, (x, z, turn) in enumerate(steps):
        place = place + rotate_yaw(torch.stack([x, torch.zeros_like(x), z]), yaw)
        yaw = yaw + turn
        torch.testing.assert_close(places[number], place[[0, 2]])
        torch.testing.assert_close(yaws[number], yaw)


def test_points_of_a_path_are_seen_from_its_start() -> None:
    steps = random_steps(12)
    points = path_points(steps, 5).view(2, 4)
    places, yaws = follow(steps)
    for row, frame in zip(points, (4, 9), strict=True):
        torch.testing.assert_close(row[:2], places[frame])
        assert math.remainder(math.atan2(float(row[2]), float(row[3])) - float(yaws[frame]), 2 * math.pi) == (
            pytest.approx(0.0, abs=1e-9)
        )


def test_positions_are_those_of_a_chain_walked_along() -> None:
    rotations = roma.random_rotmat(2 * 3, dtype=torch.float64).view(2, 3, 3, 3)
    steps = torch.tensor([[0.0, 1.0, math.pi / 2], [0.0, 2.0, 0.0]], dtype=torch.float64)
    state = MotionState(rotations, steps, torch.tensor([0.9, 1.0], dtype=torch.float64), torch.zeros(2, 2))
    offsets = torch.tensor([[9.0, 9, 9], [0, 0.5, 0], [0, 0.25, 0]], dtype=torch.float64)
    turn = roma.rotvec_to_rotmat(torch.tensor([0.0, math.pi / 2, 0], dtype=torch.float64))
    root = [torch.tensor([0.0, 0.9, 1.0]).double(), torch.tensor([2.0, 1.0, 1.0]).double()]
    found = state_positions(state, offsets, (-1, 0, 1))
    for frame in (0, 1):
        hips = turn @ rotations[frame, 0]
        middle = root[frame] + hips @ offsets[1]
        end = middle + hips @ rotations[frame, 1] @ offsets[2]
        torch.testing.assert_close(found[frame], torch.stack([root[frame], middle, end]))
    posed = state_positions(state, offsets, (-1, 0, 1), pose_only=True)
    torch.testing.assert_close(posed[0, 2], offsets[1] + rotations[0, 1] @ offsets[2])
