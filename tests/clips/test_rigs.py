"""``convert --rig``: motions on Mixamo's, Unreal's, VRM's and SMPL's rigs, and on the user's own."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import motionkit
from motionkit.errors import MotionkitError
from motionkit.formats import read_clips
from motionkit.formats.bvh import write_bvh
from motionkit.formats.glb import read_glb, read_glb_rig, write_glb
from motionkit.motion import HUMANML, ReadOptions
from motionkit.motion.motion import JointMotion, Motion
from motionkit.rigs import named_rig, onto_rig, solve, standing_slide, to_body
from motionkit.rigs.named import NAMES
from motionkit.rigs.roles import find_roles
from motionkit.starter import generate

from ..formats.test_glb import Player
from ..formats.test_glb_read import pack, parts
from ..made.commands import assert_refused, run

METRES = ReadOptions(up="y", unit="m")


@pytest.fixture(scope="module")
def walk() -> Motion:
    made = generate("walk", frames=80)
    joints = torch.from_numpy(made.joints).double()
    return solve(JointMotion(HUMANML.joint_names, HUMANML.parents, joints, made.fps)).motion


@pytest.fixture(scope="module")
def walk_file(walk: Motion, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("walk") / "walk.bvh"
    write_bvh(path, walk)
    return path


@pytest.mark.parametrize("name", NAMES)
def test_a_rig_is_a_body_with_its_own_names(name):
    rig = named_rig(name)
    roles = find_roles(rig.names, rig.parents)
    assert len(roles) == 16  # every joint of a body, toes too
    places = rig.pose().positions()[0]
    assert float(places[:, 1].min()) == pytest.approx(0.0, abs=0.03)
    for joint in ("hip", "knee", "ankle", "shoulder", "elbow", "wrist"):
        left, right = places[roles[f"left {joint}"]], places[roles[f"right {joint}"]]
        assert float(left[0]) > 0 > float(right[0])
        assert float((left * torch.tensor([-1.0, 1, 1]) - right).abs().max()) < 0.01
    lowered = float(places[roles["left shoulder"], 1] - places[roles["left wrist"], 1])
    assert lowered == pytest.approx(
        1.8 * (0.186 + 0.146) * math.sin(math.pi / 4) if name == "unreal" else 0.0, abs=0.02
    )


def test_lengths_are_those_of_the_table():
    """Drillis and Contini's parts of the stature, as Winter prints them."""
    rig = named_rig("mixamo")
    bones = dict(zip(rig.names, rig.offsets, strict=True))
    length = {name.removeprefix("mixamorig:"): math.dist(bone, (0, 0, 0)) / 1.8 for name, bone in bones.items()}
    assert length["LeftForeArm"] == pytest.approx(0.186)
    assert length["LeftHand"] == pytest.approx(0.146)
    assert length["LeftLeg"] == pytest.approx(0.530 - 0.285, abs=1e-3)
    assert length["LeftFoot"] == pytest.approx(0.285 - 0.039, abs=1e-3)


@pytest.mark.parametrize("name", NAMES)
def test_a_walk_keeps_its_pose_its_way_and_its_contacts(walk, name):
    found = onto_rig(walk, named_rig(name))
    assert found.motion.names == named_rig(name).names
    assert found.motion.frames == walk.frames
    most = 0.08 if name == "smpl" else 0.035  # SMPL's trunk is divided in another way
    assert max(found.misses["left wrist"], found.misses["right wrist"], found.misses["head"]) < most
    assert max(found.misses["left ankle"], found.misses["right ankle"]) < 0.005
    assert found.contacts > 0.95
    body = to_body(found.motion, HUMANML, walk.fps)
    mine = to_body(walk, HUMANML, walk.fps)
    way = (body[-1, :3] - body[0, :3]).mean(0) - found.scale * (mine[-1, :3] - mine[0, :3]).mean(0)
    assert float(way.norm()) < 0.03
    # Bones keep the rig's lengths, and feet do not begin to slide.
    offsets = torch.tensor(named_rig(name).offsets, dtype=torch.float64)
    bones = found.motion.translations[:, 3:] - offsets[3:]
    assert float(bones.abs().max()) < 1e-9
    before, after = standing_slide(walk, [walk])[0], standing_slide(found.motion, [found.motion])[0]
    assert after < 1.3 * before + 0.03  # feet of other lengths roll a little otherwise


def test_the_same_rig_gives_the_motion_back(walk):
    """Onto the walk's own skeleton: every joint comes back to within a centimetre, the head and hands by rotations."""
    own = read_rig_of(walk)
    found = onto_rig(walk, own)
    assert found.scale == pytest.approx(1.0, abs=1e-6)
    apart = (found.motion.positions() - walk.positions())[:, : HUMANML.joints].norm(dim=-1)
    assert float(apart.mean()) < 0.01


def read_rig_of(motion: Motion):
    from motionkit.rigs import Rig

    offsets = tuple(tuple(row) for row in motion.offsets.tolist())
    return Rig("own", motion.names, motion.parents, offsets)


def test_turned_heads_stay_turned(walk):
    """The head of the first rig turns by 40 degrees; no joint position shows it, and still it comes over."""
    import roma

    head = walk.names.index("head")
    turned = walk.rotations.clone()
    angle = torch.tensor([0.0, math.radians(40), 0.0], dtype=torch.float64)
    turned[:, head] = turned[:, head] @ roma.rotvec_to_rotmat(angle)
    plain = onto_rig(walk, named_rig("vrm")).motion
    looking = onto_rig(replace(walk, rotations=turned), named_rig("vrm")).motion
    joint = plain.names.index("head")
    change = roma.rotmat_geodesic_distance(plain.rotations[:, joint], looking.rotations[:, joint])
    assert float(change.mean().rad2deg()) == pytest.approx(40.0, abs=1.0)


def test_what_hips_hang_on_stays(walk):
    motion = onto_rig(walk, named_rig("unreal")).motion
    assert motion.names[:2] == ("root", "pelvis")
    assert float(motion.translations[:, 0].abs().max()) == 0
    assert float((motion.rotations[:, 0] - torch.eye(3)).abs().max()) == 0
    assert float(motion.translations[-1, 1, 2] - motion.translations[0, 1, 2]) > 1


@pytest.mark.parametrize("suffix", ["bvh", "glb"])
@pytest.mark.parametrize("name", NAMES)
def test_convert_writes_the_rig(walk_file, tmp_path, name, suffix):
    result = run("convert", walk_file, tmp_path / f"a.{suffix}", "--rig", name)
    assert result.exit_code == 0, result.output
    for words in ("on the rig: off by, mm", "contacts kept", "times as long"):
        assert words in result.output
    (clip,) = read_clips(tmp_path / f"a.{suffix}", METRES if suffix == "glb" else ReadOptions(up="y", unit="cm"))
    rig = named_rig(name)
    assert {*rig.names} <= {*clip.motion.names}
    rest = torch.tensor(rig.offsets, dtype=torch.float64)
    for joint, label in enumerate(rig.names[1:], 1):
        own = clip.motion.offsets[clip.motion.names.index(label)]
        assert float((own - rest[joint]).abs().max()) < 1e-5


def character(path: Path) -> Path:
    """A character: Mixamo's names, joints turned at rest, in centimetres below a scaled armature, with a mesh."""
    import roma

    rig = named_rig("mixamo")
    write_glb(path, replace(rig.pose(), names=rig.names), name="hero")
    document, binary = parts(path)
    random = torch.Generator().manual_seed(5)
    turns = torch.linalg.qr(torch.randn(len(rig.names), 3, 3, generator=random, dtype=torch.float64)).Q
    turns = turns * torch.linalg.det(turns).sign()[:, None, None]
    places = rig.pose().positions()[0]
    binds = []
    for joint, parent in enumerate(rig.parents):
        above = turns[parent] if parent >= 0 else torch.eye(3, dtype=torch.float64)
        start = places[parent] if parent >= 0 else torch.zeros(3, dtype=torch.float64)
        x, y, z, w = roma.rotmat_to_unitquat(above.mT @ turns[joint]).tolist()
        local = 100 * (above.mT @ (places[joint] - start))
        document["nodes"][joint] |= {"rotation": [x, y, z, w], "translation": local.tolist()}
        world = torch.eye(4, dtype=torch.float64)
        world[:3, :3], world[:3, 3] = 0.01 * turns[joint], places[joint]
        binds.append(torch.linalg.inv(world).mT)
    count = len(document["nodes"])
    document["nodes"].append({"name": "Armature", "scale": [0.01] * 3, "children": [0]})
    document["scenes"] = [{"nodes": [count, count - 1]}]
    matrices = torch.stack(binds).numpy().astype("<f4").tobytes()
    view = {"buffer": 0, "byteOffset": len(binary), "byteLength": len(matrices)}
    document["bufferViews"].append(view)
    document["accessors"].append(
        {"bufferView": len(document["bufferViews"]) - 1, "componentType": 5126, "count": len(binds), "type": "MAT4"}
    )
    document["skins"][0]["inverseBindMatrices"] = len(document["accessors"]) - 1
    document["buffers"][0]["byteLength"] = len(binary) + len(matrices)
    del document["animations"]
    return pack(path, document, binary + matrices)


class Skinned(Player):
    """The oracle's player, with scale."""

    def world(self, time: float) -> np.ndarray:
        for node in self.file.nodes:
            assert node.matrix is None
        matrices = super().world(time)
        armature = next(k for k, node in enumerate(self.file.nodes) if node.name == "Armature")
        # The player leaves scale out: below the armature all of it is a hundredth.
        for number in self.file.skins[0].joints:
            matrices[number, :3] *= 0.01
        assert armature >= 0
        return matrices


def test_a_characters_mesh_comes_out_animated(walk, walk_file, tmp_path):
    model = character(tmp_path / "hero.glb")
    result = run("convert", walk_file, tmp_path / "hero-walk.glb", "--rig", model)
    assert result.exit_code == 0, result.output
    before, after = parts(model), parts(tmp_path / "hero-walk.glb")
    assert after[0]["meshes"] == before[0]["meshes"]
    assert after[1][: len(before[1])] == before[1]
    # Every joint is where it is on the rig by name, whatever its nodes are turned by at rest.
    (clip,) = read_glb(tmp_path / "hero-walk.glb", METRES)
    named = onto_rig(read_clips(walk_file)[0].motion, named_rig("mixamo")).motion
    assert clip.motion.frames == named.frames
    order = [clip.motion.names.index(name) for name in named.names]
    assert float((clip.motion.positions()[:, order] - named.positions()).norm(dim=-1).max()) < 2e-3
    # And the skin follows its bones: the mesh of a bone keeps its distance from the joint.
    player = Skinned(tmp_path / "hero-walk.glb")
    mesh = player.skinned(1.0)
    rest = player.array(player.file.meshes[0].primitives[0].attributes.POSITION)
    owner = player.array(player.file.meshes[0].primitives[0].attributes.JOINTS_0)[:, 0]
    places = named.positions()[20].numpy()
    start = named_rig("mixamo").pose().positions()[0].numpy()
    far = np.linalg.norm(mesh - places[owner], axis=-1) - np.linalg.norm(rest - start[owner], axis=-1)
    assert np.abs(far).max() < 2e-3


def test_a_bvh_file_is_a_rig_too(walk_file, tmp_path):
    rig = named_rig("vrm")
    write_bvh(tmp_path / "mine.bvh", replace(rig.pose(), names=rig.names))
    result = run("convert", walk_file, tmp_path / "a.bvh", "--rig", tmp_path / "mine.bvh", "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["figures"]["rig_feet"] < 0.005
    (clip,) = read_clips(tmp_path / "a.bvh")
    assert clip.motion.names[0] == "hips"
    lowest = clip.motion.positions()[..., 1].amin(1)
    assert float(lowest.median()) == pytest.approx(0.017, abs=0.02)  # its toes are as high above the ground


def unnamed(path: Path) -> Path:
    rig = named_rig("vrm")
    write_bvh(path, replace(rig.pose(), names=tuple(f"b{k}" for k in range(len(rig.names)))))
    return path


def test_names_that_fit_nothing_show_a_table_to_fill_in(walk_file, tmp_path):
    rig = unnamed(tmp_path / "odd.bvh")
    assert_refused(
        run("convert", walk_file, tmp_path / "a.glb", "--rig", rig),
        "has no joint that looks like: head, left hip",
        "--rig-map FILE",
        'left_hip = ""',
    )
    names = named_rig("vrm").names
    roles = find_roles(names, named_rig("vrm").parents)
    from motionkit.motion.clip import BODY

    table = "".join(f'{ours} = "b{roles[role]}"\n' for role, ours in BODY.items())
    (tmp_path / "rig.toml").write_text(table)
    result = run("convert", walk_file, tmp_path / "a.glb", "--rig", rig, "--rig-map", tmp_path / "rig.toml")
    assert result.exit_code == 0, result.output
    (clip,) = read_glb(tmp_path / "a.glb")
    assert {f"b{k}" for k in range(len(names))} <= {*clip.motion.names}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("a.glb", "--rig", "mixmo"), "did you mean mixamo?"),
        (("a.glb", "--rig", "nowhere.glb"), "there is no such file"),
        (("a.glb", "--rig-map", "t.toml"), "--rig-map acts with --rig only"),
        (("a.glb", "--rig", "vrm", "--rig-map", "t.toml"), "--rig-map does not act with --rig vrm"),
        (("a.glb", "--rig", "vrm", "--height", 2), "--height does not act with --rig"),
        (("set", "--rig", "vrm"), "--rig does not act with --to humanml"),
        (("a.npy", "--rig", "vrm"), "--rig does not act on joints"),
    ],
)
def test_what_cannot_be_done_is_said(walk_file, tmp_path, monkeypatch, words, said):
    monkeypatch.chdir(tmp_path)
    assert_refused(run("convert", walk_file, *words), said)


def test_loops_stay_closed_on_a_rig(walk_file, tmp_path):
    words = ("--rig", "mixamo", "--loop", "--in-place", "--fix", "feet")
    assert run("convert", walk_file, tmp_path / "a.glb", *words).exit_code == 0
    (clip,) = read_glb(tmp_path / "a.glb", METRES)
    places = clip.motion.positions()
    assert float((places[0] - places[-1]).abs().max()) < 5e-3


def test_the_python_function_takes_a_rig(walk_file, tmp_path):
    report = motionkit.convert(walk_file, tmp_path / "a.glb", rig="smpl")
    assert report.figures["rig_contacts"] > 0.9
    with pytest.raises(MotionkitError, match="is not a rig"):
        motionkit.convert(walk_file, tmp_path / "b.glb", rig="maya")


def test_a_glb_rig_is_read_as_it_stands(tmp_path):
    rig = read_glb_rig(character(tmp_path / "hero.glb"))
    order = [rig.names.index(name) for name in named_rig("mixamo").names]
    expected: Any = named_rig("mixamo").pose().positions()[0]
    assert float((rig.positions()[0, order] - expected).abs().max()) < 1e-5
