"""Files that are dropped on a page, and those that it saves: the player's JavaScript against the readers here."""

from __future__ import annotations

import base64
import json
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from motionkit.formats.bvh import read_bvh
from motionkit.formats.bvh import write_bvh as bvh_writer
from motionkit.formats.glb import write_glb
from motionkit.motion import HUMANML, JointMotion
from motionkit.motion.clip import Axis
from motionkit.player import PlayerTrack, track_of
from motionkit.player._figure import figure_of
from motionkit.player._page import document
from motionkit.rigs import contact_score, find_feet, sides, soft_contacts, solve
from motionkit.rigs.roles import find_roles, head_joint
from motionkit.rigs.upright import AXES, turn_up
from motionkit.starter import generate

from ..made.bvh_files import ODD, ROWS, write_bvh
from ..rigs.rig_names import RIGS
from .figures import track
from .test_browser_code import node

OPEN = "const bytes = (text) => Uint8Array.from(Buffer.from(text, 'base64'));"


def dropped(path: Path) -> dict[str, Any]:
    """The track that a page makes of a file."""
    return node(
        f"""{OPEN} const t = readMotion(given.name, bytes(given.data));
        answer({{...t, positions: [...t.positions], follow: [...t.follow], shown: [...t.shown],
                 contacts: t.contacts && [...t.contacts], footing: 0}});""",
        {"name": path.name, "data": base64.b64encode(path.read_bytes()).decode()},
    )


def refused(name: str, data: bytes) -> str:
    return node(
        f"""{OPEN} let said = '';
        try {{ readMotion(given.name, bytes(given.data)); }} catch (error) {{ said = error.message; }}
        answer(said);""",
        {"name": name, "data": base64.b64encode(data).decode()},
    )


def walk(frames: int = 60) -> JointMotion:
    made = generate("walk", frames=frames, seed=1)
    return JointMotion(HUMANML.joint_names, HUMANML.parents, torch.from_numpy(made.joints).double(), made.fps)


def test_names_are_understood_as_they_are_here() -> None:
    given = []
    for names, more in RIGS.values():
        parents = [*HUMANML.parents, *(names.index(above) for above in more.values())]
        given.append({"names": [*names, *more], "parents": parents})
    got = node(
        "answer(given.map(({names, parents}) => [findRoles(names, parents), findSides(names), headJoint(names), "
        "findFeet(findRoles(names, parents), parents)]));",
        given,
    )
    for one, (roles, side, head, feet) in zip(given, got, strict=True):
        assert roles == find_roles(one["names"], one["parents"])
        assert tuple(side) == sides(one["names"])
        assert head == head_joint(one["names"])
        assert tuple(map(tuple, feet)) == find_feet(one["names"], one["parents"])


@pytest.mark.parametrize("fps", [30.0, 60.0, 120.0])
def test_a_dropped_bvh_is_what_the_reader_reads(tmp_path: Path, fps: float) -> None:
    (clip,) = read_bvh(write_bvh(tmp_path / "walk.bvh", 90, fps=fps))
    got = dropped(tmp_path / "walk.bvh")
    stride = max(1, round(fps / 60))
    assert (got["fps"], got["fileFps"], got["stride"], got["title"]) == (fps / stride, fps, stride, "walk")
    expected = clip.motion.positions()[::stride]
    assert np.abs(np.array(got["positions"]).reshape(expected.shape) - expected.numpy()).max() < 1e-5


def test_a_dropped_bvh_with_every_oddity(tmp_path: Path) -> None:
    path = tmp_path / "odd.bvh"
    path.write_text(ODD + "\n".join(" ".join(map(str, row)) for row in ROWS) + "\n")
    (clip,) = read_bvh(path)
    got = dropped(path)
    expected = clip.motion.positions()[::2].numpy()
    assert np.abs(np.array(got["positions"]).reshape(expected.shape) - expected).max() < 1e-5


def test_a_dropped_bvh_with_z_up_stands(tmp_path: Path) -> None:
    text = write_bvh(tmp_path / "y.bvh", 40).read_text()
    lines = []
    for line in text.splitlines():
        words = line.split()
        if words[:1] == ["OFFSET"]:
            x, y, z = map(float, words[1:])
            line = f"OFFSET {x} {-z} {y}"
        line = line.replace("Yposition Zposition", "Zposition Yposition").replace(
            "Xrotation Yrotation", "Xrotation Zrotation"
        )
        lines.append(line)
    (tmp_path / "z.bvh").write_text("\n".join(lines))
    (clip,) = read_bvh(tmp_path / "z.bvh")
    assert clip.notes["up"] == "z"
    got = np.array(dropped(tmp_path / "z.bvh")["positions"]).reshape(clip.motion.positions().shape)
    assert np.abs(got - clip.motion.positions().numpy()).max() < 1e-5


@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize("whole", [True, False], ids=["rest pose too", "root alone"])
def test_a_dropped_bvh_is_weighed_as_the_reader_does(tmp_path: Path, axis: Axis, whole: bool) -> None:
    """A walk with each direction up, in rest pose and motion or by the root's rotation alone."""
    upright = solve(walk(80)).motion
    back = turn_up(axis).T
    bones = back if whole else torch.eye(3, dtype=torch.float64)
    rotations = bones @ upright.rotations @ bones.T
    translations = upright.translations @ bones.T
    rotations[:, 0], translations[:, 0] = back @ upright.rotations[:, 0] @ bones.T, upright.translations[:, 0] @ back.T
    turned = replace(upright, offsets=upright.offsets @ bones.T, rotations=rotations, translations=translations)
    bvh_writer(tmp_path / "a.bvh", turned)
    (clip,) = read_bvh(tmp_path / "a.bvh")
    assert clip.notes["up"] == axis
    got = np.array(dropped(tmp_path / "a.bvh")["positions"]).reshape(clip.motion.positions().shape)
    assert np.abs(got - clip.motion.positions().numpy()).max() < 2e-3
    order = [upright.names.index(name) for name in clip.motion.names]
    assert np.abs(got[..., 1] - upright.positions().numpy()[:, order, 1]).max() < 2e-3


def test_a_dropped_body_that_lies_is_left_and_said(tmp_path: Path) -> None:
    upright = solve(walk(40)).motion.cut(0, 1)
    turn = turn_up("z").T
    rotations, translations = upright.rotations.repeat(40, 1, 1, 1), upright.translations.repeat(40, 1, 1)
    rotations[:, 0], translations[:, 0] = turn @ rotations[:, 0], translations[:, 0] @ turn.T
    bvh_writer(tmp_path / "a.bvh", replace(upright, rotations=rotations, translations=translations))
    (clip,) = read_bvh(tmp_path / "a.bvh")
    assert (clip.notes["up"], "lies along Z" in " ".join(clip.warnings)) == ("y", True)
    got = dropped(tmp_path / "a.bvh")
    assert got["said"] == "lies along Z for most of the clip: if Z up is meant, choose it under Up"


@pytest.mark.parametrize("axis", AXES)
def test_up_turns_a_track_of_the_page(axis: Axis) -> None:
    motion = walk(40)
    laid = replace(motion, joints=motion.joints @ turn_up(axis))
    heights = node(
        """const t = decodeTrack(given[0].tracks[0], given[0].step);
        const other = turnTrack(turnTrack(t, 'x'), given[1]);
        answer({positions: [...other.positions], height: other.height, up: other.up ?? "y", feet: other.footing.length,
                again: [...turnTrack(other, 'y').positions].every((value, i) => value === t.positions[i])});""",
        [document([track_of(laid, "walk")], title=""), axis],
    )
    assert np.abs(np.array(heights["positions"]).reshape(40, 22, 3) - motion.joints.numpy()).max() < 1e-3
    assert heights["height"] == pytest.approx(figure_of(track_of(motion, "walk")).height, abs=1e-3)
    assert (heights["up"], heights["feet"], heights["again"]) == (axis, 2, True)


def test_a_dropped_glb_is_what_was_written(tmp_path: Path) -> None:
    rotated = solve(walk()).motion
    write_glb(tmp_path / "walk.glb", rotated)
    got = dropped(tmp_path / "walk.glb")
    expected = rotated.positions().numpy()
    place = [got["names"].index(name) for name in rotated.names]
    assert np.abs(np.array(got["positions"]).reshape(expected.shape)[:, place] - expected).max() < 1e-5
    assert (got["fps"], got["frames"]) == (20.0, 60)


def test_a_dropped_file_is_measured_as_a_page_is(tmp_path: Path) -> None:
    write_bvh(tmp_path / "walk.bvh", 90, fps=30.0)
    (clip,) = read_bvh(tmp_path / "walk.bvh")
    shown = track_of(clip.motion, "walk")
    figure, got = figure_of(shown), dropped(tmp_path / "walk.bvh")
    for name in ("height", "middle", "reach", "spread"):
        assert got[name] == pytest.approx(getattr(figure, name), abs=1e-4), name
    assert got["centre"] == pytest.approx(figure.centre, abs=1e-4)
    assert np.abs(np.array(got["follow"]).reshape(-1, 2) - figure.follow.numpy()).max() < 1e-4
    assert got["radii"] == pytest.approx(figure.radii, abs=2e-5)
    assert got["sides"] == "".join(figure.sides)
    assert (got["root"], [tuple(bone) for bone in got["bones"]]) == (figure.root, list(figure.bones))
    assert figure.head is not None
    assert got["head"][:2] == [figure.head.at, figure.head.origin]
    assert got["head"][2:] == pytest.approx([figure.head.reach, figure.head.radius], abs=2e-5)


def glb(document: dict[str, Any], data: bytes = b"") -> bytes:
    text = json.dumps(document).encode()
    text += b" " * (-len(text) % 4)
    chunks = struct.pack("<I4s", len(text), b"JSON") + text + struct.pack("<I4s", len(data), b"BIN\0") + data
    return struct.pack("<4sII", b"glTF", 2, 12 + len(chunks)) + chunks


def moving(**change: Any) -> dict[str, Any]:
    """A node that two keys move; four bytes too little for them."""
    accessor = {"componentType": 5126, "bufferView": 0, "count": 2}
    return {
        "nodes": [{}], "buffers": [{"byteLength": 28}], "bufferViews": [{"buffer": 0, "byteLength": 28}],
        "accessors": [accessor | {"type": "SCALAR"}, accessor | {"type": "VEC3", "byteOffset": 8}],
        "animations": [{
            "channels": [{"sampler": 0, "target": {"node": 0, "path": "translation"}}],
            "samplers": [{"input": 0, "output": 1}],
        }],
    } | change  # fmt: skip


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("a.fbx", b"", "only BVH and GLB"),
        ("a.bvh", b"", "ends before its MOTION"),
        ("a.bvh", b"HELLO WORLD", "does not begin with HIERARCHY"),
        ("a.bvh", b"HIERARCHY ROOT a {\n OFFSET 0 0 x", "no number"),
        ("a.bvh", b"HIERARCHY ROOT a {\n OFFSET 0 0 0 CHANNELS 1 Xrotation\n}\nMOTION\nFrames: 2\nFrame Time: 0.1\n1",
         "expected 2 frames x 1 values, found 1"),
        ("a.bvh", b"HIERARCHY ROOT a {\n OFFSET 0 0 0 CHANNELS 1 Xrotation\n}\nMOTION\nFrames: 1\nFrame Time: 0.1\n1,5",
         "1,5 is no number"),
        ("a.glb", b"glTF", "not a GLB file"),
        ("a.glb", glb({"nodes": [{}]}), "no animation"),
        ("a.glb", glb(moving(), bytes(28)), "reaches beyond the buffer"),
        ("a.glb", glb(moving(nodes=[{"children": [0]}]), bytes(32)), "no tree"),
        ("a.glb", glb(moving(nodes=[{}] * 10_001), bytes(32)), "10001 nodes"),
        ("a.glb", glb(moving(extensionsRequired=["KHR_draco_mesh_compression"])), "KHR_draco_mesh_compression"),
    ],
)  # fmt: skip
def test_what_is_no_motion_is_refused_in_words(name: str, data: bytes, said: str) -> None:
    assert said in refused(name, data)


def test_saved_bvh_has_the_motion_of_the_page(tmp_path: Path) -> None:
    motion = walk()
    text = node(
        "answer(bvhText(decodeTrack(given.tracks[0], given.step)));", document([track_of(motion, "walk")], title="")
    )
    (tmp_path / "saved.bvh").write_text(text)
    (clip,) = read_bvh(tmp_path / "saved.bvh")
    place = [clip.motion.names.index(name) for name in HUMANML.joint_names]
    apart = (clip.motion.positions()[:, place] - motion.joints).norm(dim=-1)
    assert clip.motion.fps == 20.0
    assert float(apart.max()) < 2e-3


def footing(shown: PlayerTrack) -> list[dict[str, list[float]]]:
    return node(
        """const t = decodeTrack(given.tracks[0], given.step);
        answer(t.footing.map((foot) => Object.fromEntries(Object.entries(foot).map(([key, v]) => [key, [...v]]))));""",
        document([shown], title=""),
    )


def test_a_foot_that_stands_does_not_slide_and_one_that_glides_does() -> None:
    real = walk(100)
    planted = footing(track_of(real, "walk"))
    assert sum(planted[0]["slides"]) + sum(planted[1]["slides"]) == 0
    gliding = real.joints.clone()
    gliding[..., 2] += (torch.arange(100) / 20)[:, None] * 0.8
    glide = footing(track_of(JointMotion(real.names, real.parents, gliding, 20.0), "glides"))
    for foot in (0, 1):
        stands = np.array(planted[foot]["stands"])[3:-3] > 0.8
        slides = np.array(glide[foot]["slides"])[3:-3].astype(bool)
        assert slides[stands].all()
        assert slides.mean() < 0.75, "not while it swings"
        assert np.median(np.array(glide[foot]["speed"])[3:-3][stands]) == pytest.approx(0.8, abs=0.03)
        assert max(planted[foot]["height"]) == pytest.approx(
            float((real.joints[:, [7, 10], 1] - real.joints[:, [7, 10], 1].amin(0)).amin(1).max())
            if foot == 0
            else float((real.joints[:, [8, 11], 1] - real.joints[:, [8, 11], 1].amin(0)).amin(1).max()),
            abs=0.02,
        )


def test_contacts_of_a_page_are_measured_and_those_of_a_dropped_file_are_the_same_on_level_ground() -> None:
    motion = walk(100)
    got = footing(track_of(motion, "walk"))
    feet = find_feet(motion.names, motion.parents)
    assert feet is not None
    expected = soft_contacts(motion.joints, 20.0, feet)
    apart = np.abs(np.array([foot["stands"] for foot in got]).T - expected.numpy())
    assert np.mean(apart) < 0.02
    scores = node("answer(given.map((one) => contactScore(...one)));", [[0.0, 0.0, 0.0], [0.01, 0.2, 0.9], [0.2, 1, 3]])
    rows = torch.tensor([[0.0, 0.0, 0.0], [0.01, 0.2, 0.9], [0.2, 1, 3]], dtype=torch.float64)
    assert scores == pytest.approx(contact_score(*rows.T).tolist(), rel=1e-9)


def test_poses_of_the_past_stay_where_they_are() -> None:
    early, late, start = node("answer([ghostTimes(1.25), ghostTimes(1.49), ghostTimes(0.31)]);", None)
    assert early == late == pytest.approx([0.0, 0.3, 0.6, 0.9, 1.2])
    assert start == pytest.approx([0.0, 0.3])


def test_a_body_has_skin_where_its_joints_are_known() -> None:
    known, unknown = node(
        "answer(given.map((d) => decodeTrack(d.tracks[0], d.step).body));",
        [document([one], title="") for one in (track(), track(names=tuple(f"joint{i}" for i in range(22))))],
    )
    assert unknown is None
    radius = dict(zip(HUMANML.joint_names, known["radii"], strict=True))
    assert radius["left_hip"] > radius["left_knee"] > radius["left_ankle"] > 0
    assert radius["left_hip"] == radius["right_hip"]
    assert min(radius[name] for name in ("pelvis", "spine2", "spine3")) > radius["left_hip"]
    trunk = {name for name, inside in zip(HUMANML.joint_names, known["trunk"], strict=True) if inside}
    assert {"pelvis", "spine2", "neck", "head", "left_collar", "left_hip", "right_shoulder"} <= trunk
    assert not trunk & {"left_knee", "right_elbow", "left_wrist"}


def animated(
    nodes: list[dict[str, Any]], keys: list[tuple[int, str, list[float], list[list[float]], str]], **more: Any
) -> bytes:
    """A GLB file of nodes and samplers: node, path, times, values and interpolation of each."""
    data, views, accessors, samplers, channels = b"", [], [], [], []

    def put(values: np.ndarray, kind: str) -> int:
        nonlocal data
        raw = values.astype("<f4").tobytes()
        views.append({"buffer": 0, "byteOffset": len(data), "byteLength": len(raw)})
        accessors.append({"componentType": 5126, "bufferView": len(views) - 1, "count": len(values), "type": kind})
        data += raw
        return len(accessors) - 1

    for moved, path, times, values, kind in keys:
        output = np.array(values)
        width = "VEC4" if path == "rotation" else "VEC3"
        samplers.append({"input": put(np.array(times), "SCALAR"), "output": put(output, width), "interpolation": kind})
        channels.append({"sampler": len(samplers) - 1, "target": {"node": moved, "path": path}})
    document = {
        "nodes": nodes, "buffers": [{"byteLength": len(data)}], "bufferViews": views, "accessors": accessors,
        "animations": [{"channels": channels, "samplers": samplers, "extras": {"fps": 4}}],
    } | more  # fmt: skip
    return glb(document, data)


def positions_of(data: bytes) -> tuple[list[str], np.ndarray]:
    found = node(
        f"{OPEN} const f = readGlb(bytes(given)); answer({{...f, positions: [...f.positions], rest: 0}});",
        base64.b64encode(data).decode(),
    )
    return found["names"], np.array(found["positions"]).reshape(found["frames"], len(found["names"]), 3)


HALF = 0.5**0.5


def test_a_glb_without_a_skin_moves_as_its_nodes_do() -> None:
    """By hand: a scaled root that turns a quarter about Y, with a child one metre along X."""
    nodes = [{"name": "root", "children": [1], "scale": [2, 2, 2]}, {"name": "child", "translation": [1, 0, 0]}]
    turn = (0, "rotation", [0.0, 1.0], [[0, 0, 0, 1], [0, HALF, 0, HALF]], "LINEAR")
    names, places = positions_of(
        animated(nodes, [turn, (1, "translation", [0.0, 1.0], [[1, 0, 0], [1, 0, 0]], "LINEAR")])
    )
    assert names == ["root", "child"]
    angles = np.radians([0, 22.5, 45, 67.5, 90])
    assert np.allclose(places[:, 0], 0, atol=1e-6)
    assert np.allclose(places[:, 1], 2 * np.stack([np.cos(angles), 0 * angles, -np.sin(angles)], axis=-1), atol=1e-6)


def test_a_glb_is_sampled_by_its_interpolation() -> None:
    steps = (0, "translation", [0.0, 0.5, 1.0], [[0, 0, 0], [1, 0, 0], [2, 0, 0]], "STEP")
    # In- and out-tangents of zero: a Hermite curve that eases, 3 u^2 - 2 u^3.
    zero = [0.0, 0.0, 0.0]
    eases = (0, "translation", [0.0, 1.0], [zero, zero, zero, zero, [8.0, 0, 0], zero], "CUBICSPLINE")
    assert positions_of(animated([{}], [steps]))[1][:, 0, 0].tolist() == [0, 0, 1, 1, 2]
    u = np.linspace(0, 1, 5)
    assert np.allclose(positions_of(animated([{}], [eases]))[1][:, 0, 0], 8 * (3 * u**2 - 2 * u**3), atol=1e-6)


def test_the_first_of_two_skins_is_shown_and_a_matrix_is_a_place() -> None:
    matrix = [0, 0, -1, 0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 5, 0, 1]  # a quarter about Y, five metres up; columns first
    nodes = [{"children": [1, 3], "matrix": matrix}, {"name": "a", "children": [2]}, {"name": "b"}, {"name": "other"}]
    move = (2, "translation", [0.0, 0.25], [[1, 0, 0], [3, 0, 0]], "LINEAR")
    names, places = positions_of(animated(nodes, [move], skins=[{"joints": [2, 1]}, {"joints": [3]}]))
    assert names == ["a", "b"], "parents come before their children"
    assert np.allclose(places, [[[0, 5, 0], [0, 5, -1]], [[0, 5, 0], [0, 5, -3]]], atol=1e-6)
