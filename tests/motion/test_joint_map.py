"""Tables of joint names, limits of a motion, batches."""

from __future__ import annotations

import json
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from motionkit.errors import MotionkitError
from motionkit.formats.bvh import read_bvh
from motionkit.formats.table import FORMATS, readers, recognise
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
from motionkit.rigs import to_body
from motionkit.rigs.bodymap import map_body
from motionkit.rigs.roles import find_roles
from motionkit.starter import generate

from ..made.blender import stand_in
from ..made.bodies import walker
from ..made.bvh_files import NAMES, Dialect, write_bvh, write_dialect
from ..made.commands import assert_refused, run
from ..made.samples import SAMPLES, write_sample
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


@pytest.mark.parametrize("name", [form.name for form in readers() if form.name in SAMPLES])
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
