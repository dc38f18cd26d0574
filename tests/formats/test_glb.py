"""GLB files, read by pygltflib and trimesh and played by a plain numpy player that knows only the format."""

from __future__ import annotations

import json
import math
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pygltflib
import pytest
import roma
import torch

from motionkit.errors import MotionkitError
from motionkit.formats.glb import write_glb
from motionkit.motion import HUMANML, KIT
from motionkit.motion.motion import JointMotion, Motion
from motionkit.rigs.rest import rest_rig
from motionkit.rigs.solver import solve

from ..made.bodies import walker

NUMBERS = {5121: np.uint8, 5123: np.uint16, 5125: np.uint32, 5126: np.float32}
WIDTHS = {"SCALAR": 1, "VEC3": 3, "VEC4": 4, "MAT4": 16}


def moving(frames: int = 12, seed: int = 0) -> Motion:
    """A T-posed body whose joints all turn, and whose chest slides on its spine."""
    random = np.random.default_rng(seed)
    rig = rest_rig(HUMANML)
    time = torch.arange(frames, dtype=torch.float64)[:, None, None]
    rate = torch.from_numpy(random.normal(0.0, 0.4, (rig.joints, 3)))
    still = torch.tensor([0.0 if name.endswith(" End") else 1.0 for name in rig.names])[:, None]
    places = rig.offsets.repeat(frames, 1, 1)
    places[:, 0, 2] += 0.05 * time[:, 0, 0]
    places[:, 9, 1] += 0.01 * time[:, 0, 0]
    return Motion(rig.names, rig.parents, rig.offsets, roma.rotvec_to_rotmat(rate * still * time), places, 30.0)


class Player:
    """Reads a GLB with pygltflib and poses it at any time, by the words of the glTF specification."""

    def __init__(self, path: Path) -> None:
        self.file: Any = pygltflib.GLTF2().load(str(path))
        self.blob: bytes = self.file.binary_blob()

    def array(self, index: int) -> np.ndarray:
        accessor = self.file.accessors[index]
        view = self.file.bufferViews[accessor.bufferView]
        width = WIDTHS[accessor.type]
        start = (view.byteOffset or 0) + (accessor.byteOffset or 0)
        values = np.frombuffer(self.blob, NUMBERS[accessor.componentType], accessor.count * width, start)
        return values.reshape(accessor.count, width) if width > 1 else values

    def world(self, time: float) -> np.ndarray:
        """World matrices ``[nodes, 4, 4]`` at a time."""
        nodes = self.file.nodes
        place = {i: np.array(node.translation or [0.0, 0, 0]) for i, node in enumerate(nodes)}
        turn = {i: np.array(node.rotation or [0.0, 0, 0, 1]) for i, node in enumerate(nodes)}
        animation = self.file.animations[0]
        for channel in animation.channels:
            sampler = animation.samplers[channel.sampler]
            assert sampler.interpolation == "LINEAR"
            times, keys = self.array(sampler.input).astype(float), self.array(sampler.output).astype(float)
            after = int(np.clip(np.searchsorted(times, time), 1, max(len(times) - 1, 1)))
            if len(times) == 1:
                value = keys[0]
            else:
                part = (time - times[after - 1]) / (times[after] - times[after - 1])
                a, b = keys[after - 1], keys[after]
                if channel.target.path == "rotation":
                    angle = math.acos(min(1.0, abs(float(a @ b))))
                    # The specification's spherical interpolation, sign included.
                    sign = math.copysign(1.0, float(a @ b))
                    if angle > 1e-6:
                        value = math.sin((1 - part) * angle) * a + sign * math.sin(part * angle) * b
                        value = value / math.sin(angle)
                    else:
                        value = a
                else:
                    value = (1 - part) * a + part * b
            (turn if channel.target.path == "rotation" else place)[channel.target.node] = value
        matrices = np.zeros((len(nodes), 4, 4))

        def visit(index: int, above: np.ndarray) -> None:
            x, y, z, w = turn[index]
            local = np.eye(4)
            local[:3, :3] = [
                [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
                [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
                [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
            ]
            local[:3, 3] = place[index]
            matrices[index] = above @ local
            for child in nodes[index].children or []:
                visit(child, matrices[index])

        for top in self.file.scenes[self.file.scene].nodes:
            visit(top, np.eye(4))
        return matrices

    def skinned(self, time: float) -> np.ndarray:
        """Vertices ``[V, 3]`` of the mesh at a time."""
        world, skin = self.world(time), self.file.skins[0]
        binds = self.array(skin.inverseBindMatrices).reshape(-1, 4, 4).transpose(0, 2, 1)
        attributes = self.file.meshes[0].primitives[0].attributes
        points = np.c_[self.array(attributes.POSITION), np.ones(len(self.array(attributes.POSITION)))]
        joints, weights = self.array(attributes.JOINTS_0), self.array(attributes.WEIGHTS_0)
        matrices = np.stack([world[node] for node in skin.joints]) @ binds
        blend = (matrices[joints] * weights[..., None, None]).sum(axis=1)
        return np.einsum("vij,vj->vi", blend, points)[:, :3]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Motion]:
    path = tmp_path_factory.mktemp("glb") / "moving.glb"
    motion = moving()
    write_glb(path, motion, name="sway")
    return path, motion


def test_another_player_finds_every_joint_in_its_place(written):
    path, motion = written
    player = Player(path)
    ours = motion.positions().numpy()
    assert [node.name for node in player.file.nodes[: len(motion.names)]] == list(motion.names)
    for frame in range(motion.frames):
        places = player.world(frame / motion.fps)[: len(motion.names), :3, 3]
        np.testing.assert_allclose(places, ours[frame], atol=1e-4)


def test_between_frames_joints_turn_the_short_way(written):
    path, motion = written
    player = Player(path)
    half = motion.resample(60.0).positions().numpy()
    for frame in range(0, len(half), 3):
        places = player.world(frame / 60.0)[: len(motion.names), :3, 3]
        np.testing.assert_allclose(places, half[frame], atol=1e-4)


def test_quaternions_are_unit_and_never_change_sides(written):
    player = Player(written[0])
    animation = player.file.animations[0]
    rotations = [channel for channel in animation.channels if channel.target.path == "rotation"]
    assert len(rotations) == 22
    for channel in rotations:
        keys = player.array(animation.samplers[channel.sampler].output).astype(float)
        np.testing.assert_allclose(np.linalg.norm(keys, axis=1), 1.0, atol=1e-6)
        assert ((keys[1:] * keys[:-1]).sum(axis=1) >= 0).all()


def test_only_what_leaves_its_place_has_translations(written):
    path, motion = written
    animation = Player(path).file.animations[0]
    moved = [channel.target.node for channel in animation.channels if channel.target.path == "translation"]
    assert moved == [0, HUMANML.index("spine3")]
    assert animation.name == "sway"
    assert animation.extras == {"fps": 30.0}
    assert motion.fps == 30.0


def test_the_mesh_follows_the_bones(written):
    """The far tip of every bone's octahedron lies on the joint that the bone leads to, in every pose."""
    path, motion = written
    # Bones that slide out of their rest length take no mesh with them: hold them still for this.
    still = replace(motion, translations=motion.offsets.repeat(motion.frames, 1, 1))
    still.translations[:, 0] = motion.translations[:, 0]
    path = path.with_name("still.glb")
    write_glb(path, still)
    player = Player(path)
    bones = [joint for joint, parent in enumerate(still.parents) if parent >= 0]
    for frame in (0, 7):
        points = player.skinned(frame / still.fps)
        places = still.positions()[frame].numpy()
        for joint in bones:
            assert np.linalg.norm(points - places[joint], axis=1).min() < 1e-4
        apart = np.linalg.norm(points[:, None] - places[None], axis=-1).min(axis=1)
        assert apart.max() < 0.3


def test_trimesh_opens_it_and_its_surface_is_closed_and_faces_outwards(written):
    import trimesh

    path, motion = written
    scene = trimesh.load_scene(str(path))
    (mesh,) = scene.geometry.values()
    for start in range(0, len(mesh.faces), 8):
        body = trimesh.Trimesh(mesh.triangles[start : start + 8].reshape(-1, 3), np.arange(24).reshape(8, 3))
        body.merge_vertices()
        assert body.is_watertight
        assert body.is_winding_consistent
        assert body.volume > 0
    rest = mesh.bounds
    assert rest[0, 1] == pytest.approx(0.0, abs=0.05)  # stands on the floor
    assert 1.5 < rest[1, 1] < 1.9
    assert set(motion.names) <= set(scene.graph.nodes)
    attributes = Player(path).file.meshes[0].primitives[0].attributes
    normals = Player(path).array(attributes.NORMAL)
    np.testing.assert_allclose(np.linalg.norm(normals, axis=1), 1.0, atol=1e-5)


def test_the_file_keeps_the_formats_rules(written):
    """Header, chunk lengths, alignment, targets, and the bounds that accessors of positions and times must have."""
    data = written[0].read_bytes()
    magic, version, size = struct.unpack_from("<4sII", data)
    assert (magic, version, size) == (b"glTF", 2, len(data))
    length, kind = struct.unpack_from("<I4s", data, 12)
    assert kind == b"JSON"
    assert length % 4 == 0
    document = json.loads(data[20 : 20 + length])
    binary, kind = struct.unpack_from("<I4s", data, 20 + length)
    assert kind == b"BIN\0"
    assert binary == document["buffers"][0]["byteLength"] == len(data) - 28 - length
    for view in document["bufferViews"]:
        assert view["byteOffset"] % 4 == 0
        assert view["byteOffset"] + view["byteLength"] <= binary
    player = Player(written[0])
    bounded = [sampler["input"] for sampler in document["animations"][0]["samplers"]]
    bounded.append(document["meshes"][0]["primitives"][0]["attributes"]["POSITION"])
    for index in set(bounded):
        values = player.array(index)
        accessor = document["accessors"][index]
        np.testing.assert_array_equal(np.float32(accessor["min"]), np.atleast_1d(values.min(axis=0)))
        np.testing.assert_array_equal(np.float32(accessor["max"]), np.atleast_1d(values.max(axis=0)))
    assert document["asset"]["version"] == "2.0"
    weights = player.array(document["meshes"][0]["primitives"][0]["attributes"]["WEIGHTS_0"])
    np.testing.assert_array_equal(weights.sum(axis=1), 1.0)


@pytest.mark.parametrize("skeleton", [HUMANML, KIT], ids=["humanml", "kit"])
def test_joints_without_rotations_are_solved(tmp_path, skeleton):
    joints = walker(8, 3, sway=0.2, skeleton=skeleton)
    motion = JointMotion(skeleton.joint_names, skeleton.parents, joints, skeleton.fps)
    write_glb(tmp_path / "solved.glb", motion)
    player = Player(tmp_path / "solved.glb")
    expected = solve(motion).motion.positions().numpy()
    for frame in range(8):
        places = player.world(frame / skeleton.fps)[: expected.shape[1], :3, 3]
        np.testing.assert_allclose(places, expected[frame], atol=1e-4)


def test_same_bytes_every_time_and_nothing_left_beside(tmp_path):
    for name in ("a.glb", "b.glb"):
        write_glb(tmp_path / name, moving(4))
    assert (tmp_path / "a.glb").read_bytes() == (tmp_path / "b.glb").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.glb", "b.glb"]


def test_bad_motions_are_refused_before_a_file_is_made(tmp_path):
    motion = moving(5)
    broken = motion.translations.clone()
    broken[3, 0, 1] = math.inf
    for bad, word in ((replace(motion, translations=broken), "frame 3"), (motion.cut(0, 0), "no frames")):
        with pytest.raises(MotionkitError, match=word):
            write_glb(tmp_path / "x.glb", bad)
    assert list(tmp_path.iterdir()) == []
