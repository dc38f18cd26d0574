"""VRM models and animations, and glTF as text: GLB files of other names, known by their content."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import roma
import torch

from motionkit.clips.convert import open_sources, read_rig
from motionkit.errors import MotionkitError
from motionkit.formats.glb import read_glb, write_glb
from motionkit.formats.glb.tree import VRM_BONES
from motionkit.formats.table import FORMATS, read_clips
from motionkit.motion import Motion, ReadOptions
from motionkit.motion.clip import BODY
from motionkit.rigs import named_rig, onto_rig
from motionkit.rigs.roles import find_roles

from ..made.commands import assert_refused, run
from ..made.glb_files import as_text, data_uri, edit, parts
from ..made.rigs import starter_rig
from .test_glb import moving

METRES = ReadOptions(up="y", unit="m")
BONES = {bone: BODY[role] for bone, role in VRM_BONES.items()}
"""VRM's bones to the joints of the body that `moving` has."""


def humanoid(names: tuple[str, ...], kind: str) -> dict:
    """The table of a VRM file: which node is which bone."""
    nodes = {bone: names.index(joint) for bone, joint in BONES.items()}
    if kind == "VRM":
        rows = [{"bone": bone, "node": node} for bone, node in nodes.items()]
        return {"VRM": {"humanoid": {"humanBones": [*rows, {"bone": "jaw", "node": -1}]}}}
    return {kind: {"specVersion": "1.0", "humanoid": {"humanBones": {b: {"node": n} for b, n in nodes.items()}}}}


def vrm(path: Path, kind: str, *, names=lambda number, name: f"node.{number:03d}", frames: int = 12) -> Path:
    """Write the moving body as a VRM file whose nodes have names that say nothing."""
    motion = moving(frames)
    write_glb(path.with_suffix(".made"), motion)

    def change(document: dict) -> None:
        document["extensions"] = humanoid(motion.names, kind)
        document["extensionsUsed"] = [kind]
        for number, name in enumerate(motion.names):
            document["nodes"][number]["name"] = names(number, name)
        if kind == "VRMC_vrm_animation":  # which has neither a skin nor a mesh
            del document["skins"], document["meshes"], document["nodes"][-1]
            document["scenes"][0]["nodes"] = [0]
            for channel in document["animations"][0]["channels"]:  # a spring of the hair has no place in a body
                channel.setdefault("extras", {})
        else:
            del document["animations"]

    edit(path.with_suffix(".made"), change, path)
    path.with_suffix(".made").unlink()
    return path


def test_a_vrm_animation_is_read_by_its_own_table(tmp_path):
    path = vrm(tmp_path / "idle.vrma", "VRMC_vrm_animation")
    (clip,) = read_clips(path)
    roles = find_roles(clip.motion.names, clip.motion.parents)
    for bone, role in VRM_BONES.items():
        assert clip.motion.names[roles[role]] == bone
    body = moving(12)
    at = [roles[role] for role in VRM_BONES.values()]
    there = [body.names.index(BODY[role]) for role in VRM_BONES.values()]
    assert float((clip.motion.positions()[:, at] - body.positions()[:, there]).abs().max()) < 1e-5


def test_nodes_keep_names_by_which_they_are_found(tmp_path):
    path = vrm(tmp_path / "idle.vrma", "VRMC_vrm_animation", names=lambda number, name: name)
    assert read_clips(path)[0].motion.names == moving().names


def test_a_node_that_is_called_like_a_bone_is_not_taken_for_it(tmp_path):
    """An armature above the hips is called hips, and a spine bone like a leg."""

    def misleading(number: int, name: str) -> str:
        return {"spine1": "leftUpperLeg", "spine2": "hips"}.get(name, f"node.{number:03d}")

    (clip,) = read_clips(vrm(tmp_path / "idle.vrma", "VRMC_vrm_animation", names=misleading))
    roles = find_roles(clip.motion.names, clip.motion.parents)
    for role in VRM_BONES.values():
        order = [moving().names[k] for k in _order(clip.motion)]
        assert order[roles[role]] == BODY[role]
    assert len({*clip.motion.names}) == len(clip.motion.names)


def _order(motion: Motion) -> list[int]:
    """Number of each joint in the body that was written, by its place at the start."""
    body = moving(12).positions()[0]
    return [int((body - place).norm(dim=-1).argmin()) for place in motion.positions()[0]]


def test_only_bones_count_in_a_vrm_animation(tmp_path):
    """Expressions and the gaze are nodes of their own, animated too; they are beside the body."""
    path = vrm(tmp_path / "a.vrma", "VRMC_vrm_animation")

    def beside(document: dict) -> None:
        document["nodes"].append({"name": "happy"})
        document["scenes"][0]["nodes"].append(len(document["nodes"]) - 1)
        (animation,) = document["animations"]
        translated = next(c for c in animation["channels"] if c["target"]["path"] == "translation")
        animation["channels"].append(
            {"sampler": translated["sampler"], "target": {"node": len(document["nodes"]) - 1, "path": "translation"}}
        )

    (clip,) = read_clips(edit(path, beside))
    assert "happy" not in clip.motion.names
    assert clip.motion.frames == 12


def test_three_bones_are_enough(tmp_path):
    """A test file of a library has hips, spine and head alone."""
    path = vrm(tmp_path / "a.vrma", "VRMC_vrm_animation")

    def few(document: dict) -> None:
        bones = document["extensions"]["VRMC_vrm_animation"]["humanoid"]["humanBones"]
        for bone in {*bones} - {"hips", "head"}:
            del bones[bone]

    (clip,) = read_glb(edit(path, few), METRES)
    assert {"hips", "head"} <= {*clip.motion.names}


@pytest.mark.parametrize("kind", ["VRMC_vrm", "VRM"])
def test_a_model_is_a_rig(tmp_path, cli, kind):
    path = vrm(Path("avatar.vrm"), kind)
    rig = read_rig("avatar.vrm")
    roles = find_roles(rig.names, rig.parents)
    assert {rig.names[roles[role]] for role in VRM_BONES.values()} == {*VRM_BONES}
    write_glb(Path("walk.glb"), starter_rig("walk"))
    result = cli("convert", "walk.glb", "out.glb", "--rig", "avatar.vrm")
    assert result.exit_code == 0, result.output
    document, _ = parts(Path("out.glb"))
    assert document["extensions"] == parts(path)[0]["extensions"], "it is still that model"
    assert document["meshes"] == parts(path)[0]["meshes"]
    (clip,) = read_glb(Path("out.glb"))
    roles = find_roles(clip.motion.names, clip.motion.parents)
    body = starter_rig("walk")
    hand = body.names.index("left_wrist")
    away = (clip.motion.positions()[:, roles["left wrist"]] - body.positions()[:, hand]).norm(dim=-1)
    assert float(away.max()) < 0.02


def test_a_model_of_vrm_0_that_faces_back_walks_ahead(cli):
    """VRM 0.x models look along -Z."""
    body = starter_rig("walk")
    turn = torch.diag(torch.tensor([-1.0, 1.0, -1.0], dtype=torch.float64))
    back = replace(
        body.cut(0, 1), offsets=body.offsets @ turn, translations=body.offsets[None] @ turn,
        rotations=torch.eye(3, dtype=torch.float64).expand(1, len(body.names), 3, 3),
    )  # fmt: skip
    write_glb(Path("made.glb"), back)

    def change(document: dict) -> None:
        document["extensions"] = humanoid(body.names, "VRM")
        del document["animations"]

    edit(Path("made.glb"), change, Path("avatar.vrm"))
    write_glb(Path("walk.glb"), body)
    result = cli("convert", "walk.glb", "out.glb", "--rig", "avatar.vrm")
    assert result.exit_code == 0, result.output
    (clip,) = read_glb(Path("out.glb"))
    mine, theirs = (motion.positions() - motion.positions()[:, :1] for motion in (clip.motion, body))
    for name in ("left_wrist", "right_wrist", "left_foot", "right_foot", "head"):
        away = mine[:, clip.motion.names.index(name)] - theirs[:, body.names.index(name)]
        assert float(away.norm(dim=-1).max()) < 0.03, name


@pytest.mark.parametrize("quarters", [1, 2, 3])
def test_a_motion_whose_rest_pose_faces_another_way_is_the_same_on_a_rig(quarters):
    """The neighbour of it: the rest pose of the source faces +X, -Z or -X."""
    body, rig = starter_rig("walk"), named_rig("vrm")
    turn = roma.rotvec_to_rotmat(torch.tensor([0.0, quarters * torch.pi / 2, 0.0], dtype=torch.float64))
    rotations = turn @ body.rotations @ turn.mT
    rotations[:, 0] = body.rotations[:, 0] @ turn.mT  # the same movement, from a rest pose that is turned
    other = replace(body, offsets=body.offsets @ turn.mT, rotations=rotations, translations=body.translations @ turn.mT)
    other.translations[:, 0] = body.translations[:, 0]
    assert float((other.positions() - body.positions()).abs().max()) < 1e-9
    mine, theirs = (onto_rig(motion, rig).motion.positions() for motion in (other, body))
    assert float((mine - theirs).abs().max()) < 1e-6


def test_a_model_says_what_it_is_good_for(tmp_path, cli):
    vrm(Path("avatar.vrm"), "VRMC_vrm")
    assert_refused(cli("convert", "avatar.vrm", "a.bvh"), "it is a model", "--rig")


def test_the_named_rig_is_read_again(tmp_path):
    rig = named_rig("vrm").pose()
    write_glb(tmp_path / "a.glb", rig)
    path = edit(
        tmp_path / "a.glb",
        lambda document: document.update(
            extensions={
                "VRMC_vrm": {
                    "humanoid": {"humanBones": {n: {"node": k} for k, n in enumerate(rig.names) if "End" not in n}}
                }
            }
        ),
    )
    assert read_rig(str(path)).names == rig.names


BAD_TABLES = {
    "no table": ({"VRMC_vrm_animation": 3}, "not a body by their names"),
    "no bones": ({"VRMC_vrm_animation": {"humanoid": {"humanBones": {}}}}, "not a body by their names"),
    "nowhere": ({"VRMC_vrm_animation": {"humanoid": {"humanBones": {"hips": {"node": 500}}}}}, "500 is not one of"),
    "text": ({"VRMC_vrm_animation": {"humanoid": {"humanBones": {"hips": {"node": "0"}}}}}, "not a body"),
    "a list": ({"VRM": {"humanoid": {"humanBones": [3, None, {"bone": 4, "node": 1}]}}}, "not a body"),
}


@pytest.mark.parametrize("what", BAD_TABLES)
def test_damaged_tables_are_named(tmp_path, what):
    extensions, words = BAD_TABLES[what]
    path = edit(vrm(tmp_path / "a.vrma", "VRMC_vrm_animation"), lambda document: document.update(extensions=extensions))
    with pytest.raises(MotionkitError, match=words):
        read_glb(path)


@pytest.mark.parametrize("pieces", [1, 3])
def test_gltf_with_its_data_inside_is_read(tmp_path, cli, pieces):
    write_glb(tmp_path / "a.glb", starter_rig("walk"))
    path = as_text(tmp_path / "a.glb", Path("a.gltf"), pieces=pieces)
    (clip,), (same,) = read_clips(path), read_clips(tmp_path / "a.glb")
    assert torch.equal(clip.motion.positions(), same.motion.positions())
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())  # a byte order mark
    assert cli("convert", "a.gltf", "b.bvh").exit_code == 0
    result = cli("convert", "a.gltf", "c.glb", "--rig", "a.gltf")
    assert result.exit_code == 0, result.output
    (moved,) = read_clips(Path("c.glb"))
    away = [motion.positions() - motion.positions()[:, :1] for motion in (moved.motion, same.motion)]
    assert float((away[0] - away[1]).abs().max()) < 1e-4


def test_gltf_with_files_beside_it_is_refused(tmp_path):
    write_glb(tmp_path / "a.glb", moving())
    document, binary = parts(tmp_path / "a.glb")
    document["buffers"][0]["uri"] = "a.bin"
    (tmp_path / "a.bin").write_bytes(binary)
    (tmp_path / "a.gltf").write_text(json.dumps(document))
    assert_refused(
        run("convert", tmp_path / "a.gltf", tmp_path / "b.bvh"),
        "its data are in another file ('a.bin')",
        "export it as GLB, one .glb file",
    )


BAD_TEXT = {
    "empty": (lambda document: "", "it is empty"),
    "no glTF": (lambda document: '{"a": 1}', "JSON without an asset"),
    "glTF 1": (lambda document: json.dumps(document | {"asset": {"version": "1.0"}}), "glTF '1.0' is not read"),
    "another file": (lambda document: "HIERARCHY\nROOT Hips", "begins neither with glTF"),
    "not base64": (lambda document: json.dumps(document | _buffer("data:application/x;base64,!!!")), "not base64"),
    "percent": (lambda document: json.dumps(document | _buffer("data:application/x,%00")), "not base64"),
    "too short": (lambda document: json.dumps(document | _buffer(data_uri(b"1234"))), "ends beyond"),
    "no data": (lambda document: json.dumps({**document, "buffers": [{"byteLength": 9}]}), "ends beyond"),
    "a view of nothing": (
        lambda document: json.dumps({**document, "bufferViews": [{"buffer": 7}]} | _buffer(data_uri(b"1234"))),
        "7 is not one of its 1 buffers",
    ),
    "a view before it": (
        lambda document: json.dumps(
            {**document, "bufferViews": [{"buffer": 0, "byteOffset": -8, "byteLength": 4}]} | _buffer(data_uri(b"1234"))
        ),
        "ends beyond",
    ),
    "a script": (lambda document: json.dumps(document | _buffer("javascript:alert(1)")), "another file"),
}


def _buffer(uri: str) -> dict:
    return {"buffers": [{"byteLength": 4, "uri": uri}]}


@pytest.mark.parametrize("what", BAD_TEXT)
def test_damaged_text_is_named(tmp_path, what):
    change, words = BAD_TEXT[what]
    write_glb(tmp_path / "a.glb", moving())
    (tmp_path / "b.gltf").write_text(change(parts(tmp_path / "a.glb")[0]))
    with pytest.raises(MotionkitError) as caught:
        read_glb(tmp_path / "b.gltf")
    assert words in f"{caught.value.message} {caught.value.why}"
    result = run("convert", tmp_path / "b.gltf", tmp_path / "c.bvh")
    assert result.exit_code == 2
    assert "Traceback" not in result.output


def test_folders_pass_none_of_them_over(tmp_path, cli):
    folder = Path("in")
    folder.mkdir()
    vrm(folder / "idle.vrma", "VRMC_vrm_animation", frames=40)
    vrm(folder / "avatar.vrm", "VRMC_vrm")
    write_glb(tmp_path / "a.glb", moving(40))
    as_text(tmp_path / "a.glb", folder / "inside.gltf")
    (folder / "beside.gltf").write_text(json.dumps({"asset": {"version": "2.0"}, "buffers": [{"uri": "b.bin"}]}))
    (folder / "CAPS.GLB").write_bytes((tmp_path / "a.glb").read_bytes())
    assert sorted(source.path.name for source in open_sources([folder]).sources) == [
        "CAPS.GLB", "avatar.vrm", "beside.gltf", "idle.vrma", "inside.gltf",
    ]  # fmt: skip
    result = cli("convert", "in", "out", "--to", "npz")
    assert result.exit_code == 1
    assert sorted(path.name for path in Path("out").glob("*.npz")) == ["CAPS.npz", "idle.npz", "inside.npz"]
    assert "avatar.vrm: there is no animation" in result.output
    assert "beside.gltf" in result.output


def test_endings_of_other_programs_are_not_written(cli):
    for ending in (".vrm", ".vrma", ".gltf"):
        assert_refused(cli("convert", "starter", f"a{ending}"), f"{ending} files cannot be written")


def test_every_suffix_is_known():
    assert FORMATS["glb"].suffixes == (".glb", ".gltf", ".vrm", ".vrma")
