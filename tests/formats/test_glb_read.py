"""GLB files read by our own reader: beside the BVH they were made of, beside pygltflib, and damaged in many ways."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pygltflib
import pytest
import roma
import torch

from motionkit.clips.convert import open_sources
from motionkit.errors import MotionkitError
from motionkit.formats.bvh import read_bvh, write_bvh
from motionkit.formats.glb import read_glb, read_glb_pose, write_glb
from motionkit.formats.glb.write import Buffer
from motionkit.motion import ReadOptions, read_joint_map
from motionkit.rigs.roles import find_roles

from ..made.commands import run
from ..made.glb_files import pack, parts
from .test_glb import Player, moving

METRES = ReadOptions(up="y", unit="m")


def changed(folder: Path, change: Callable[[dict[str, Any]], object], frames: int = 12) -> Path:
    write_glb(folder / "sound.glb", moving(frames))
    document, binary = parts(folder / "sound.glb")
    change(document)
    return pack(folder / "changed.glb", document, binary)


def refused(path: Path, *words: str) -> None:
    with pytest.raises(MotionkitError) as caught:
        read_glb(path)
    said = f"{caught.value.message} {caught.value.why} {caught.value.fix}"
    assert all(word in said for word in words), said


def test_bvh_to_glb_and_back_moves_no_joint_by_a_tenth_of_a_millimetre(tmp_path):
    motion = moving(40)
    write_bvh(tmp_path / "a.bvh", motion)
    (first,) = read_bvh(tmp_path / "a.bvh", ReadOptions(up="y", unit="cm"))
    write_glb(tmp_path / "a.glb", first.motion)
    (second,) = read_glb(tmp_path / "a.glb")
    write_bvh(tmp_path / "b.bvh", second.motion)
    (third,) = read_bvh(tmp_path / "b.bvh", ReadOptions(up="y", unit="cm"))
    assert third.motion.names == first.motion.names
    assert third.motion.fps == first.motion.fps == 30
    assert float((third.motion.positions() - first.motion.positions()).abs().max()) < 1e-4
    assert float((second.motion.rotations - first.motion.rotations).abs().max()) < 1e-6
    assert float((second.motion.offsets - first.motion.offsets).abs().max()) < 1e-6


def test_convert_reads_glb_and_says_how(tmp_path):
    write_glb(tmp_path / "a.glb", moving(90))
    result = run("convert", tmp_path / "a.glb", tmp_path / "b.bvh")
    assert result.exit_code == 0, result.output
    assert "read as metres, Y up: bodies are 1.77 m tall" in result.output
    (clip,) = read_bvh(tmp_path / "b.bvh")
    order = [clip.motion.names.index(name) for name in moving().names]
    assert float((clip.motion.positions()[:, order] - moving(90).positions()).abs().max()) < 1e-4
    assert run("convert", "--check", tmp_path / "a.glb").exit_code in (0, 1)
    assert run("convert", tmp_path / "a.glb", tmp_path / "set", "--to", "humanml").exit_code == 0


def foreign(path: Path, **more: Any) -> tuple[Path, np.ndarray, Buffer]:
    """Write a leg below an armature that is turned, moved and scaled, as Blender and Mixamo write theirs."""
    random = np.random.default_rng(3)
    buffer = Buffer()
    times = np.array([0.0, 0.1, 0.3, 0.4], np.float32)
    turns = random.normal(size=(3, 4, 4))
    turns /= np.linalg.norm(turns, axis=-1, keepdims=True)
    quarter = [-(0.5**0.5), 0.0, 0.0, 0.5**0.5]
    nodes = [
        {"name": "Armature", "children": [1], "rotation": quarter, "scale": [0.01] * 3, "translation": [1.0, 2, 3]},
        {"name": "mixamorig:Hips", "children": [2], "translation": [0.0, 0.0, 90.0], "rotation": [0.0, 0.6, 0.0, 0.8]},
        {"name": "mixamorig:LeftUpLeg", "children": [3], "translation": [10.0, 0.0, -5.0]},
        {"name": "mixamorig:LeftLeg", "translation": [0.0, -40.0, 0.0], "rotation": [0.6, 0.0, 0.0, 0.8]},
    ]
    clock = buffer.add(times, bounds=True)
    samplers = [{"input": clock, "output": buffer.add(turn.astype(np.float32))} for turn in turns]
    channels = [{"sampler": k, "target": {"node": k + 1, "path": "rotation"}} for k in range(3)]
    channels.append({"sampler": 0, "target": {"path": "pointer", "extensions": {}}})
    binds = buffer.add(np.tile(np.eye(4, dtype=np.float32), (3, 1, 1)))
    document: dict[str, Any] = {
        "asset": {"version": "2.0"},
        "scene": 0,
        "scenes": [{"nodes": [0]}],
        "nodes": nodes,
        "skins": [{"joints": [3, 1], "inverseBindMatrices": binds}],
        "animations": [{"samplers": samplers, "channels": channels}],
        **more,
    }
    path.write_bytes(buffer.pack(document))
    return path, times, buffer


def test_an_armature_that_is_turned_and_scaled_is_taken_along(tmp_path):
    path, _, _ = foreign(tmp_path / "a.glb")
    (clip,) = read_glb(path, METRES)
    motion = clip.motion
    assert motion.names == ("mixamorig:Hips", "mixamorig:LeftUpLeg", "mixamorig:LeftLeg")
    assert motion.fps == 30  # the slowest usual rate that keys at 0, 0.1, 0.3 and 0.4 s lie on
    assert motion.frames == 13

    class Scaled(Player):
        """The oracle's player knows no scale: it is put into the places instead, which is the same for an even one."""

    player = Scaled(path)
    player.file.animations[0].channels = player.file.animations[0].channels[:3]
    for sampler in player.file.animations[0].samplers:
        sampler.interpolation = "LINEAR"
    for node in player.file.nodes[1:]:
        node.translation = [0.01 * value for value in node.translation]
    for frame in range(13):
        expected = player.world(frame / 30)[1:]
        np.testing.assert_allclose(motion.positions()[frame], expected[:, :3, 3], atol=1e-5)
    rest = motion.offsets.cumsum(0).numpy()
    assert rest[0] == pytest.approx([1.0, 2.9, 3.0], abs=1e-6)  # Z up inside, Y up outside


def test_keys_are_joined_as_gltf_says(tmp_path):
    for kind, keys in (("STEP", [[0.0, 0, 0], [1, 0, 0]]), ("CUBICSPLINE", None)):
        buffer = Buffer()
        clock = buffer.add(np.array([0.0, 1.0], np.float32), bounds=True)
        if keys is None:
            # arriving tangent, value, leaving tangent: from 0 with slope 2 to 1 with slope 0
            keys = [[0.0, 0, 0], [0, 0, 0], [2, 0, 0], [0, 0, 0], [1, 0, 0], [0, 0, 0]]
        out = buffer.add(np.array(keys, np.float32))
        document = {
            "nodes": [{"name": "Hips", "children": [1]}, {"name": "Spine", "translation": [0.0, 1.0, 0.0]}],
            "skins": [{"joints": [0, 1]}],
            "animations": [
                {
                    "channels": [{"sampler": 0, "target": {"node": 0, "path": "translation"}}],
                    "samplers": [{"input": clock, "output": out, "interpolation": kind}],
                    "extras": {"fps": 4},
                }
            ],
        }
        (tmp_path / f"{kind}.glb").write_bytes(buffer.pack(document))
        (clip,) = read_glb(tmp_path / f"{kind}.glb", METRES)
        x = clip.motion.translations[:, 0, 0].tolist()
        t = np.array([0, 0.25, 0.5, 0.75, 1.0])
        spline = (t**3 - 2 * t**2 + t) * 2 + 3 * t**2 - 2 * t**3
        assert x == pytest.approx([0, 0, 0, 0, 1] if kind == "STEP" else spline.tolist())


def test_every_animation_is_a_clip(tmp_path):
    def twice(document: dict[str, Any]) -> None:
        document["animations"] = [{**document["animations"][0], "name": name} for name in ("walk", "run", "run")]

    clips = read_glb(changed(tmp_path, twice))
    assert [clip.part for clip in clips] == ["walk", "run", "run 2"]
    result = run("convert", tmp_path / "changed.glb", tmp_path / "out", "--to", "bvh")
    assert result.exit_code == 0, result.output
    names = sorted(path.name for path in (tmp_path / "out").glob("*.bvh"))
    assert names == ["changed_run.bvh", "changed_run_2.bvh", "changed_walk.bvh"]


def test_two_skeletons_are_refused(tmp_path):
    def second(document: dict[str, Any]) -> None:
        document["nodes"].append({"name": "Hips.001"})
        document["skins"].append({"joints": [len(document["nodes"]) - 1]})

    refused(changed(tmp_path, second), "2 skeletons", "pelvis", "Hips.001", "one character")


def test_without_a_skin_animated_nodes_are_read_where_they_are_a_body(tmp_path):
    def bare(document: dict[str, Any]) -> None:
        del document["skins"], document["nodes"][-1]

    (clip,) = read_glb(changed(tmp_path, bare))
    assert set(clip.motion.names) == {*moving().names}
    assert float((clip.motion.positions()[:, 0] - moving().positions()[:, 0]).abs().max()) < 1e-6

    def cube(document: dict[str, Any]) -> None:
        bare(document)
        for number, node in enumerate(document["nodes"]):
            node["name"] = f"cube {number}"

    refused(changed(tmp_path, cube), "no skin", "cube 0", "mesh")

    def still(document: dict[str, Any]) -> None:
        bare(document)
        del document["animations"]

    refused(changed(tmp_path, still), "no skeleton")


def test_a_model_without_animation_is_refused(tmp_path):
    refused(changed(tmp_path, lambda document: document.pop("animations")), "no animation", "model")


def test_scaled_bones_keep_their_places(tmp_path):
    def scaled(document: dict[str, Any]) -> None:
        document["nodes"][3]["scale"] = [2.0, 2.0, 2.0]  # spine1
        document["nodes"][12]["scale"] = [1.0, 2.0, 1.0]  # neck
        document["nodes"][20]["scale"] = [1.0, 1.00002, 1.0]  # left wrist: rounding of another program

    (clip,) = read_glb(changed(tmp_path, scaled), METRES)
    motion, plain = clip.motion, moving()
    assert bool(motion.positions().isfinite().all())
    above = (motion.positions()[:, 6] - motion.positions()[:, 3]).norm(dim=-1)
    before = (plain.positions()[:, 6] - plain.positions()[:, 3]).norm(dim=-1)
    assert float((above - 2 * before).abs().max()) < 1e-6
    assert any("neck" in warning and "unevenly" in warning for warning in clip.warnings)
    assert not any("spine1" in warning or "left_wrist" in warning for warning in clip.warnings)
    product = motion.rotations @ motion.rotations.mT
    assert float((product - torch.eye(3, dtype=torch.float64)).abs().max()) < 1e-9

    def nothing(document: dict[str, Any]) -> None:
        document["nodes"][3]["scale"] = [0.0, 0.0, 0.0]
        document["nodes"][4]["translation"] = [0.0, 0.0, 0.0]  # a bone of length 0

    (clip,) = read_glb(changed(tmp_path, nothing), METRES)
    assert bool(clip.motion.positions().isfinite().all())
    assert bool(clip.motion.rotations.isfinite().all())
    assert any("to nothing" in warning for warning in clip.warnings)
    for suffix in ("bvh", "glb"):
        assert run("convert", tmp_path / "changed.glb", tmp_path / f"n.{suffix}", "--units", "m").exit_code == 0


def test_packed_files_are_refused_by_name(tmp_path):
    def draco(document: dict[str, Any]) -> None:
        document["extensionsUsed"] = document["extensionsRequired"] = ["KHR_draco_mesh_compression"]

    refused(changed(tmp_path, draco), "Draco", "KHR_draco_mesh_compression", "without Draco compression")
    result = run("convert", tmp_path / "changed.glb", tmp_path / "b.bvh")
    assert result.exit_code == 2
    assert "Draco" in result.output
    assert "Traceback" not in result.output

    def other(document: dict[str, Any]) -> None:
        document["extensionsRequired"] = ["KHR_texture_transform", None, 3]

    assert read_glb(changed(tmp_path, other))


@pytest.mark.parametrize("deep", [True, False])
@pytest.mark.parametrize("joints", [True, False])
def test_ten_thousand_nodes_are_read_or_refused_at_once(tmp_path, deep, joints):
    def many(document: dict[str, Any]) -> None:
        first, count = len(document["nodes"]), 10_000
        document["nodes"] += [{"name": "x"} for _ in range(count)]
        ends = list(range(first, first + count))
        if deep:
            for node in ends[:-1]:
                document["nodes"][node]["children"] = [node + 1]
            ends = ends[:1]
        document["nodes"][0]["children"] += ends
        if joints:
            document["skins"][0]["joints"] += list(range(first, first + count))

    path = changed(tmp_path, many)
    begun = time.process_time()
    if joints:
        refused(path, "10027 joints", "at most 1000")
    else:
        assert read_glb(path)[0].motion.names == moving().names
    assert time.process_time() - begun < 5


def test_a_chain_that_is_too_deep_is_refused(tmp_path):
    def chain(document: dict[str, Any]) -> None:
        first = len(document["nodes"])
        document["nodes"] += [{"name": "x", "children": [first + k + 1]} for k in range(500)] + [{"name": "end"}]
        document["nodes"][0]["children"].append(first)
        document["skins"][0]["joints"].append(first + 500)

    refused(changed(tmp_path, chain), "deeper than 200")


def accessor(**change: Any) -> Callable[[dict[str, Any]], object]:
    """Change the accessor of an animation's times."""
    return lambda document: document["accessors"][document["animations"][0]["samplers"][0]["input"]].update(change)


def view(**change: Any) -> Callable[[dict[str, Any]], object]:
    def apply(document: dict[str, Any]) -> None:
        times = document["accessors"][document["animations"][0]["samplers"][0]["input"]]
        document["bufferViews"][times["bufferView"]].update(change)

    return apply


def node(number: int, **change: Any) -> Callable[[dict[str, Any]], object]:
    return lambda document: document["nodes"][number].update(change)


def ring(document: dict[str, Any]) -> None:
    first = len(document["nodes"])
    document["nodes"] += [{"children": [first + 1]}, {"children": [first]}]


def without_data(document: dict[str, Any]) -> None:
    times = document["accessors"][document["animations"][0]["samplers"][0]["input"]]
    times["count"] = 5_000_000
    del times["bufferView"]


def lie_over_one_another(document: dict[str, Any]) -> None:
    whole = {"bufferView": len(document["bufferViews"]), "componentType": 5121, "type": "SCALAR", "count": 20_000}
    document["bufferViews"].append({"buffer": 0, "byteLength": 20_000})
    first = len(document["accessors"])
    document["accessors"] += [dict(whole) for _ in range(1000)]
    animation = document["animations"][0]
    animation["samplers"] = [{"input": first + k, "output": first + k} for k in range(1000)]
    animation["channels"] = [{"sampler": k, "target": {"node": k % 27, "path": "rotation"}} for k in range(1000)]


BAD = {
    "beyond the view": (accessor(count=10_000_000), "reads beyond"),
    "offset beyond": (accessor(byteOffset=10_000_000), "reads beyond"),
    "view beyond the buffer": (view(byteLength=5_000_000), "ends beyond"),
    "view at the end": (view(byteOffset=5_000_000), "ends beyond"),
    "negative": (view(byteOffset=-4), "ends beyond"),
    "stride of nothing": (view(byteStride=0), "reads beyond"),
    "no count": (accessor(count=0), "count"),
    "count is text": (accessor(count="7"), "count"),
    "unknown type": (accessor(type="VEC9"), "type"),
    "vectors for times": (accessor(type="VEC3", count=4), "values in a row"),
    "zeros without end": (without_data, "no data"),
    "times do not rise": (accessor(componentType=5121), "do not rise"),
    "no accessor": (lambda d: d["animations"][0]["samplers"][0].update(input=10_000), "accessors"),
    "true is no number": (lambda d: d["animations"][0]["samplers"][0].update(input=True), "accessors"),
    "unknown interpolation": (lambda d: d["animations"][0]["samplers"][0].update(interpolation="MAGIC"), "MAGIC"),
    "keys for half the times": (accessor(count=6), "6 times"),
    "no sampler": (lambda d: d["animations"][0]["channels"][0].update(sampler=-1), "samplers"),
    "no node": (lambda d: d["animations"][0]["channels"][0]["target"].update(node=500), "nodes"),
    "node below itself": (node(3, children=[3]), "parents"),
    "a ring": (ring, "below itself"),
    "two parents": (node(20, children=[1]), "two parents"),
    "place of text": (node(2, translation="here"), "translation"),
    "place that is not finite": (node(2, translation=[0, 0, float("nan")]), "not finite"),
    "nodes are a table": (lambda d: d.update(nodes={"a": 1}), "nodes"),
    "joints are text": (lambda d: d["skins"][0].update(joints="all"), "nodes"),
    "no joints": (lambda d: d["skins"][0].update(joints=[]), "no joints"),
    "data elsewhere": (lambda d: d["buffers"][0].update(uri="a.bin"), "another file ('a.bin')"),
    "sparse nonsense": (accessor(sparse={"count": 3}), "sparse"),
    "turned by two ways": (node(2, matrix=[1.0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1]), "matrix"),
}  # fmt: skip


@pytest.mark.parametrize("what", BAD)
def test_damage_is_named(tmp_path, what):
    change, words = BAD[what]
    path = changed(tmp_path, change)
    refused(path, words)
    result = run("convert", path, tmp_path / "b.bvh")
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.output


def test_arrays_over_one_another_do_not_fill_the_memory(tmp_path):
    path = changed(tmp_path, lie_over_one_another)
    begun = time.process_time()
    with pytest.raises(MotionkitError):
        read_glb(path)
    assert time.process_time() - begun < 5


def test_frames_that_are_not_finite_are_said(tmp_path):
    write_glb(tmp_path / "a.glb", moving())
    document, binary = parts(tmp_path / "a.glb")
    out = document["accessors"][document["animations"][0]["samplers"][0]["output"]]
    start = document["bufferViews"][out["bufferView"]]["byteOffset"]
    spoilt = bytearray(binary)
    spoilt[start : start + 4] = struct.pack("<f", float("nan"))
    (clip,) = read_glb(pack(tmp_path / "b.glb", document, bytes(spoilt)), METRES)
    assert any("not finite in 1 of 12 frames" in warning for warning in clip.warnings)
    assert int((~clip.motion.positions().isfinite()).any(-1).any(-1).sum()) == 1


def test_sparse_and_whole_number_keys_are_what_pygltflib_finds(tmp_path):
    """A sampler of normalised 16-bit quaternions, one of whose rows a sparse accessor replaces."""
    buffer = Buffer()
    clock = buffer.add(np.array([0.0, 1.0, 2.0], np.float32), bounds=True)
    stored = np.array([[0, 0, 0, 32767], [0, 32767, 0, 0], [0, 0, 0, 32767]], np.uint16)
    view_of = buffer.add(stored)
    buffer.accessors[view_of] |= {"componentType": 5122, "normalized": True}
    where, what = buffer.add(np.array([1], np.uint8)), buffer.add(np.array([[32767, 0, 0, 0]], np.uint16))
    buffer.accessors[view_of]["sparse"] = {
        "count": 1,
        "indices": {"bufferView": buffer.accessors[where]["bufferView"], "componentType": 5121},
        "values": {"bufferView": buffer.accessors[what]["bufferView"]},
    }
    document = {
        "nodes": [{"name": "Hips", "children": [1]}, {"name": "Spine", "translation": [0.0, 1.0, 0.0]}],
        "skins": [{"joints": [0, 1]}],
        "animations": [
            {
                "channels": [{"sampler": 0, "target": {"node": 0, "path": "rotation"}}],
                "samplers": [{"input": clock, "output": view_of}],
            }
        ],
    }
    (tmp_path / "a.glb").write_bytes(buffer.pack(document))
    assert pygltflib.GLTF2().load(str(tmp_path / "a.glb")).accessors[view_of].sparse.count == 1
    (clip,) = read_glb(tmp_path / "a.glb", METRES)
    half_turn_about_x = torch.diag(torch.tensor([1.0, -1, -1], dtype=torch.float64))
    assert (clip.motion.fps, clip.motion.frames) == (24, 49)  # three keys in two seconds are a curve
    assert float((clip.motion.rotations[24, 0] - half_turn_about_x).abs().max()) < 1e-6


def test_a_body_in_centimetres_is_seen_by_its_legs(tmp_path):
    motion = moving()
    big = replace(motion, offsets=100 * motion.offsets, translations=100 * motion.translations)
    write_glb(tmp_path / "a.glb", big)
    (clip,) = read_glb(tmp_path / "a.glb")
    assert float((clip.motion.positions() - motion.positions()).abs().max()) < 1e-5
    assert any("--units m" in warning for warning in clip.warnings)
    (kept,) = read_glb(tmp_path / "a.glb", METRES)
    assert float(kept.motion.positions()[0, 0, 1]) > 80
    result = run("convert", tmp_path / "a.glb", tmp_path / "a.bvh")
    assert "read as centimetres, Y up: bodies are 1.77 m tall; --units to change" in result.output


def test_names_of_a_table_are_applied(tmp_path):
    def renamed(document: dict[str, Any]) -> None:
        for number, entry in enumerate(document["nodes"][:27]):
            entry["name"] = f"bone{number}"

    path = changed(tmp_path, renamed, 90)
    assert run("convert", path, tmp_path / "set", "--to", "humanml").exit_code != 0
    result = run("convert", "--check", path, "--write-joint-map", tmp_path / "rig.toml")
    assert (tmp_path / "rig.toml").is_file(), result.output
    assert "bone20" in (tmp_path / "rig.toml").read_text()
    names = moving().names
    table = "".join(f'{name} = "bone{number}"\n' for number, name in enumerate(names[:22]))
    (tmp_path / "full.toml").write_text(table)
    (clip,) = read_glb(path, ReadOptions(joint_map=read_joint_map(tmp_path / "full.toml")))
    roles = find_roles(clip.motion.names, clip.motion.parents)
    assert clip.motion.names[roles["left knee"]] == "motionkit:left_knee"
    words = (path, tmp_path / "set", "--to", "humanml", "--joint-map", tmp_path / "full.toml")
    assert run("convert", *words).exit_code == 0


def test_the_first_pose_is_read_alone(tmp_path):
    write_glb(tmp_path / "a.glb", moving())
    pose = read_glb_pose(tmp_path / "a.glb")
    assert pose.frames == 1
    assert float((pose.positions()[0] - moving().positions()[0]).abs().max()) < 1e-6


def test_folders_with_glb_files_are_found(tmp_path):
    write_glb(tmp_path / "a.glb", moving())
    opened = open_sources([tmp_path])
    assert [source.format for source in opened.sources] == ["glb"]
    assert opened.bodies[0].unit == "m"


def test_a_turn_of_the_root_is_the_short_way(tmp_path):
    """Quaternions of opposite sign between two keys are one rotation."""
    buffer = Buffer()
    clock = buffer.add(np.array([0.0, 1.0], np.float32), bounds=True)
    angle = roma.rotvec_to_unitquat(torch.tensor([0.0, 1.0, 0.0])).numpy()
    out = buffer.add(np.stack([[0, 0, 0, 1], -angle]).astype(np.float32))
    document = {
        "nodes": [{"name": "Hips", "children": [1]}, {"name": "Spine", "translation": [0.0, 1.0, 0.0]}],
        "skins": [{"joints": [0, 1]}],
        "animations": [
            {
                "channels": [{"sampler": 0, "target": {"node": 0, "path": "rotation"}}],
                "samplers": [{"input": clock, "output": out}],
                "extras": {"fps": 2},
            }
        ],
    }
    (tmp_path / "a.glb").write_bytes(buffer.pack(document))
    (clip,) = read_glb(tmp_path / "a.glb", METRES)
    turned = roma.rotmat_to_rotvec(clip.motion.rotations[1, 0])
    assert turned.tolist() == pytest.approx([0.0, 0.5, 0.0], abs=1e-6)


def test_files_cut_short_are_refused(tmp_path):
    write_glb(tmp_path / "a.glb", moving())
    data = (tmp_path / "a.glb").read_bytes()
    for size in (0, 3, 8, 11, 12, 19, 21, 500, len(data) // 2, len(data) - 1):
        (tmp_path / "b.glb").write_bytes(data[:size])
        with pytest.raises(MotionkitError):
            read_glb(tmp_path / "b.glb")
    (tmp_path / "b.glb").write_bytes(data[:4] + struct.pack("<I", 1) + data[8:])
    refused(tmp_path / "b.glb", "glTF 1")
