"""Names of motions, joints and files: what a writer writes is read again, with all names that its format can hold."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from motionkit.clips.convert import FileTarget, convert, open_sources
from motionkit.clips.convert.feature_target import FeatureTarget
from motionkit.clips.convert.targets import write_file
from motionkit.clips.motion_clip import LoadedClip
from motionkit.formats.table import read_clips
from motionkit.motion import HUMANML, Caption, Clip, JointMotion, Motion, ReadOptions, plain_id
from motionkit.motion.clip import clip_keys
from motionkit.rigs import solve

from ..made.bodies import walker
from ..made.glb_files import edit, parts

NAMES = {
    "Blender": "Armature|walk",
    "FBX": "Take 001",
    "Mixamo by Blender": "Armature|mixamo.com|Layer0",
    "a copy": "mixamo.com (1)",
    "brackets": "[walk] {slow} <b>&amp;</b>",
    "Japanese": "歩く 走る",
    "Arabic": "المشي ببطء",
    "Persian": "می\u200cروم",
    "a picture": "🚶🏽\u200d♀️",
    "accents apart": "e\u0301le\u0300ve",
    "200 letters": "walk " * 40 + "x",
    "200 signs": "歩" * 200,
    "quotes": "a \"walk\" 'slow' \\n",
    "a path": "../../walk/slow",
    "a drive": "C:\\walk:slow?*",
    "a device": "con",
    "a device with an ending": "nul.txt",
    "dots": "walk...",
    "a comment": "#walk, slow; now",
    "an option": "--out",
    "a word of BVH": "MOTION",
    "percent": "%s %d {0}",
}

FRAMES = 45
_HUMANML = HUMANML.joint_names


def motion(names: tuple[str, ...] = _HUMANML) -> Motion:
    solved = solve(JointMotion(_HUMANML, HUMANML.parents, walker(FRAMES), 20.0)).motion
    return replace(solved, names=(*names, *solved.names[len(names) :]))


@pytest.fixture(scope="module")
def rotated() -> Motion:
    return motion()


def written(folder: Path, kind: str, clip: Clip, stem: str = "a") -> Path:
    path = folder / f"{stem}{ {'mpl': '.npz', 'joints': '.npy'}.get(kind, f'.{kind}') }"
    write_file(path, kind, [clip])
    return path


def same_places(clip: Clip, motion: Motion, names: Sequence[str] = ()) -> None:
    """Compare the 22 joints, found by their names where the order may be another."""
    order = [clip.motion.names.index(name) for name in names] or list(range(len(_HUMANML)))
    places = clip.motion.positions()[:, order]
    assert float((places - motion.positions()[:, : len(_HUMANML)]).abs().max()) < 2e-5


@pytest.mark.parametrize("what", NAMES)
@pytest.mark.parametrize("kind", ["npz", "glb", "mpl", "bvh"])
def test_every_writer_is_read_again(tmp_path: Path, rotated: Motion, kind: str, what: str):
    """The names of the motion, of a joint, of captions and of the file itself."""
    name = NAMES[what]
    joints = ("pelvis", *(name if joint == "spine1" else joint for joint in _HUMANML[1:]), *rotated.names[22:])
    clip = Clip(replace(rotated, names=joints), captions=(Caption(name),), group=name, part=name, split="train")
    path = written(tmp_path, kind, clip, plain_id(name))
    (source,) = open_sources([path]).sources
    (back,) = source.load()
    assert back.motion.frames == FRAMES
    if kind == "bvh":  # which has neither quotes nor names of motions, and other programs end a joint's name at a blank
        plain = "_".join(name.replace("{", " ").replace("}", " ").split())
        same_places(back, rotated, [plain if joint == name else joint for joint in joints[:22]])
        return
    same_places(back, rotated)
    assert back.motion.names == joints
    assert back.part == ("" if kind == "mpl" else name)
    if kind in ("npz", "mpl"):
        assert (back.captions[0].text, back.group, back.split) == (name, name, "train")


@pytest.mark.parametrize("what", NAMES)
def test_two_motions_of_such_names_become_files(tmp_path: Path, rotated: Motion, what: str):
    name = NAMES[what]
    clips = [Clip(rotated, part=f"{name}|{other}") for other in ("one", "two")] + [Clip(rotated, part=name)]
    for kind in ("npz", "joints"):
        out = tmp_path / kind
        report = convert([_Several("take", clips)], out, FileTarget(kind))
        assert len(report.written) == 3
        assert not report.failed
        opened = open_sources([out]).sources
        assert sorted(source.key for source in opened) == sorted(report.written)
        for source in opened:
            (back,) = source.load()
            same_places(back, rotated)
    report = convert(open_sources([tmp_path / "npz"]).sources, tmp_path / "set", FeatureTarget())
    back = open_sources([tmp_path / "set"]).sources
    assert sorted(source.key for source in back) == sorted(report.written), "names do not grow from step to step"
    assert {source.load()[0].split for source in back} <= {"train", "val", "test"}


class _Several(LoadedClip):
    def load(self):
        return self.clip

    def __init__(self, key: str, clips) -> None:
        super().__init__(key, tuple(clips))


def keys(parts_of: list[str], others: tuple[str, ...] = ()) -> list[str]:
    clip = Clip(JointMotion(("hips",), (-1,), torch.zeros(2, 1, 3, dtype=torch.float64), 20.0))
    return clip_keys(_Several("x", []), [replace(clip, part=part) for part in parts_of], others)


def test_ids_of_motions_are_short_and_differ():
    assert keys(["Armature|walk"]) == ["x"], "a file with one motion is called as the file"
    assert keys(["Armature|walk", "Armature|run"]) == ["x_walk", "x_run"]
    whole = "Armature|Armature|{}_Armature"
    assert keys([whole.format(name) for name in ("agree", "walk")]) == ["x_agree", "x_walk"]
    assert keys(["Armature|mixamo.com|Layer0", "Armature|idle|Layer0"]) == ["x_mixamo.com", "x_idle"]
    assert keys(["A|walk", "B|walk"]) == ["x_A", "x_B"]
    assert keys(["Armature|walk", "walk"]) == ["x_Armature_walk", "x_walk"]
    assert keys(["walk 1", "walk_1", "Walk|1"]) == ["x_walk_1", "x_walk_1_2", "x_Walk_1_3"]
    assert keys(["walk", "run"], ("x_walk",)) == ["x_walk_2", "x_run"], "another file has this id"


def test_files_whose_names_meet_are_all_written(tmp_path: Path, rotated: Motion):
    """``a.glb`` has an animation walk, and there is a file ``a_walk.npz``."""
    folder = tmp_path / "in"
    folder.mkdir()
    written(folder, "glb", Clip(rotated, part="walk"))

    def twice(document):
        document["animations"].append({**document["animations"][0], "name": "Walk"})

    edit(folder / "a.glb", twice)
    written(folder, "npz", Clip(rotated), "a_walk")
    report = convert(open_sources([folder]).sources, tmp_path / "out", FileTarget("npz"))
    assert not report.failed
    assert sorted(report.written) == ["a_Walk_3", "a_walk", "a_walk_2"]


def test_names_of_animations_in_a_file_are_told_apart(tmp_path: Path, rotated: Motion):
    written(tmp_path, "glb", Clip(rotated))

    def several(document):
        names = ("x 2", "x", "x", None, 7, "a\tb\0c", "y" * 300)
        document["animations"] = [{**document["animations"][0], "name": name} for name in names]

    clips = read_clips(edit(tmp_path / "a.glb", several))
    assert [clip.part for clip in clips] == [
        "x 2", "x", "x 3", "animation 3", "animation 4", "a b c", "y" * 255,
    ]  # fmt: skip


def test_control_characters_do_not_get_into_names(tmp_path: Path, rotated: Motion):
    written(tmp_path, "glb", Clip(rotated))

    def odd(document):
        document["nodes"][1]["name"] = "left\0hip"
        document["nodes"][2]["name"] = "left\0 hip"
        document["nodes"][3]["name"] = "\x1b[2Jspine"

    (clip,) = read_clips(edit(tmp_path / "a.glb", odd), ReadOptions(up="y", unit="m"))
    names = clip.motion.names
    assert "left hip" in names
    assert "left hip 2" in names
    assert not any(letter < " " for name in names for letter in name)
    for kind in ("npz", "mpl", "bvh", "glb"):
        (back,) = read_clips(written(tmp_path, kind, clip, kind), ReadOptions(up="y"))
        assert back.motion.frames == FRAMES


def test_joints_that_bvh_names_alike_are_numbered(tmp_path: Path):
    names = ("Hips", "Left Leg", "Left_Leg", "Left{Leg", "Left\0Leg")
    offsets = torch.tensor([[0.0, 1, 0]] * 5, dtype=torch.float64)
    eye = torch.eye(3, dtype=torch.float64).expand(2, 5, 3, 3)
    made = Motion(names, (-1, 0, 0, 0, 0), offsets, eye, offsets.expand(2, 5, 3), 30.0)
    (back,) = read_clips(written(tmp_path, "bvh", Clip(made)), ReadOptions(up="y", unit="cm"))
    solid = [name for name in back.motion.names if not name.endswith(" End")]
    assert solid == ["Hips", "Left_Leg", "Left_Leg_2", "Left_Leg_3", "Left_Leg_4"]


def test_a_joint_of_bvh_that_is_called_like_an_end_site_is_a_joint(tmp_path: Path):
    text = """HIERARCHY
ROOT Hips { OFFSET 0 0 0 CHANNELS 3 Zrotation Xrotation Yrotation
JOINT Spine End { OFFSET 0 10 0 CHANNELS 3 Zrotation Xrotation Yrotation
JOINT Head { OFFSET 0 10 0 CHANNELS 3 Zrotation Xrotation Yrotation End Site { OFFSET 0 9 0 } } } }
MOTION
Frames: 2
Frame Time: 0.05
0 0 0 1 2 3 0 0 0
0 0 0 4 5 6 0 0 0
"""
    (tmp_path / "a.bvh").write_text(text)
    (clip,) = read_clips(tmp_path / "a.bvh", ReadOptions(up="y", unit="cm"))
    assert clip.motion.names == ("Hips", "Spine_End", "Head", "Head End")
    (back,) = read_clips(written(tmp_path, "mpl", clip))
    assert back.motion.names == clip.motion.names
    assert float((back.motion.rotations - clip.motion.rotations).abs().max()) < 1e-5


def test_old_files_are_read(tmp_path: Path, rotated: Motion):
    """Parts of older files had letters, digits, ``_``, ``.`` and ``-`` alone, or were empty."""
    for part in ("", "02", "sample00_rep00", "Kn.e-e"):
        path = written(tmp_path, "npz", Clip(rotated, part=part))
        with np.load(path) as data:
            assert json.loads(str(data["about"]))["part"] == part
        assert [clip.part for clip in read_clips(path)] == [part]


def test_animations_through_the_command_line(tmp_path: Path, cli, rotated: Motion):
    """W1: what ``convert`` writes of a file of Blender's can be viewed and converted."""
    written(Path(), "glb", Clip(rotated), "x")
    names = [
        "Armature|Armature|walk_Armature",
        "Armature|Armature|Take 001_Armature",
        "Armature|Armature|歩く (1)_Armature",
    ]

    def several(document):
        document["animations"] = [{**document["animations"][0], "name": name} for name in names]

    edit(Path("x.glb"), several)
    result = cli("convert", "x.glb", "out", "--to", "npz")
    assert result.exit_code == 0, result.output
    files = sorted(path.name for path in Path("out").glob("*.npz"))
    assert files == ["x_Take_001.npz", "x_walk.npz", "x_歩く_(1).npz"]
    assert sorted(read_clips(Path("out") / name)[0].part for name in files) == sorted(names)
    result = cli("view", "out", "--out", "v.html", "--no-open")
    assert result.exit_code == 0, result.output
    assert "3 clips in v.html" in result.output
    for kind in ("bvh", "glb", "mpl", "joints", "humanml"):
        result = cli("convert", "out", f"again_{kind}", "--to", kind)
        assert result.exit_code == 0, result.output
        document = json.loads(Path(f"again_{kind}/convert.json").read_text())
        assert sorted(document["clips"]) == sorted(name.removesuffix(".npz") for name in files)
    (animation,) = parts(Path("again_glb/x_walk.glb"))[0]["animations"]
    assert animation["name"] == names[0], "only names of files are made plain"


def test_names_of_files_that_are_no_text(tmp_path: Path, cli, rotated: Motion):
    """Linux lets file names be any bytes."""
    written(Path(), "npz", Clip(rotated), "a")
    for ending in (".glb", ".bvh", ".npz", ".npy", ".html"):
        result = cli("convert", "a.npz", f"caf\udce9{ending}")
        assert result.exit_code == 0, result.output
        if ending != ".html":
            result = cli("convert", f"caf\udce9{ending}", f"back{ending[1:]}.npz")
            assert result.exit_code == 0, result.output
