"""Writing a motion as a GLB file: a moving skeleton with a mesh of its bones, for Blender, three.js and Unity."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.geometry import matrix_to_quaternion, positions_from_bones
from motionkit.motion.motion import END, JointMotion, Motion
from motionkit.rigs.solver import solve
from motionkit.runs import write_bytes_atomic
from motionkit.version import __version__

STILL = 1e-6
"""Metres by which a joint may leave its place before its translation is written."""

VERTICES, INDICES = 34962, 34963
"""Targets of buffer views; other arrays have none."""

_COMPONENTS = {"float32": 5126, "uint32": 5125, "uint16": 5123, "uint8": 5121}
_SHAPES = {(): "SCALAR", (2,): "VEC2", (3,): "VEC3", (4,): "VEC4", (4, 4): "MAT4"}


def write_glb(path: Path, motion: Motion | JointMotion, *, name: str = "motion") -> None:
    """Write a motion as GLB: nodes, a skin, a mesh of the bones, one animation.

    Metres, Y up; a body that faces +Z faces the viewer, as glTF defines it. Every joint is a node and a joint of the
    skin, including end sites, so that Blender knows where a hand ends. Rotations are quaternions without sign flips
    (linear keys, one per frame); translations are written for the root and for joints that leave their place. The frame
    rate is in ``animations[0].extras.fps``. The same motion always gives the same bytes.

    Args:
        path: File to write; it is replaced as a whole, or not at all.
        motion: Joints without rotations are solved first (`motionkit.rigs`).
        name: Name of the animation.

    Example:
        >>> from motionkit.motion import HUMANML, JointMotion
        >>> from motionkit.starter import generate
        >>> walk = generate("walk", frames=40)
        >>> motion = JointMotion(HUMANML.joint_names, HUMANML.parents, torch.from_numpy(walk.joints), walk.fps)
        >>> write_glb(Path("walk.glb"), motion)
        >>> Path("walk.glb").read_bytes()[:4]
        b'glTF'
    """
    write_bytes_atomic(path, _glb(solve(motion).motion if isinstance(motion, JointMotion) else motion, name))


def _glb(motion: Motion, name: str) -> bytes:
    """Return the file's bytes."""
    if not motion.frames:
        raise MotionkitError("the motion has no frames.")
    for what, values in (("rotation", motion.rotations), ("translation", motion.translations)):
        bad = ~torch.isfinite(values).flatten(1).all(dim=1)
        if bool(bad.any()):
            raise MotionkitError(f"frame {int(bad.nonzero()[0])} has a {what} that is not finite (NaN or infinite).")
    buffer = Buffer()
    joints = len(motion.names)
    rest = positions_from_bones(motion.offsets.double(), motion.parents).numpy()
    nodes = _nodes(motion)
    nodes.append({"name": f"{name} bones", "mesh": 0, "skin": 0})
    document: dict[str, Any] = {
        "asset": {"version": "2.0", "generator": f"motionkit {__version__}"},
        "scene": 0,
        "scenes": [{"nodes": [0, joints]}],
        "nodes": nodes,
        "meshes": [{"name": f"{name} bones", "primitives": [_primitive(buffer, motion, rest)]}],
        "materials": [
            {
                "name": "bone",
                "pbrMetallicRoughness": {
                    "baseColorFactor": [1.0, 1.0, 1.0, 1.0],
                    "metallicFactor": 0.0,
                    "roughnessFactor": 0.7,
                },
            }
        ],
        "skins": [
            {
                "name": f"{name} skeleton",
                "skeleton": 0,
                "joints": list(range(joints)),
                "inverseBindMatrices": buffer.add(_inverse_binds(rest)),
            }
        ],
        "animations": [_animation(buffer, motion, name)],
    }
    return buffer.pack(document)


def _nodes(motion: Motion) -> list[dict[str, Any]]:
    """Return one node per joint, in the rest pose."""
    nodes = []
    for joint, (label, offset) in enumerate(zip(motion.names, motion.offsets.tolist(), strict=True)):
        node: dict[str, Any] = {"name": label, "translation": offset}
        if children := [child for child, parent in enumerate(motion.parents) if parent == joint]:
            node["children"] = children
        nodes.append(node)
    return nodes


def _primitive(buffer: Buffer, motion: Motion, rest: NDArray[np.float64]) -> dict[str, Any]:
    """Write the bones' mesh, each vertex bound to one joint."""
    mesh = bone_mesh(rest, motion.parents, [label.endswith(END) for label in motion.names])
    small = np.uint8 if len(motion.names) <= 256 else np.uint16
    joints = np.zeros((len(mesh.joints), 4), dtype=small)
    joints[:, 0] = mesh.joints
    weights = np.zeros((len(mesh.joints), 4), dtype=np.float32)
    weights[:, 0] = 1.0
    order = np.arange(len(mesh.points), dtype=np.uint16 if len(mesh.points) < 65535 else np.uint32)
    return {
        "attributes": {
            "POSITION": buffer.add(mesh.points.astype(np.float32), target=VERTICES, bounds=True),
            "NORMAL": buffer.add(mesh.normals.astype(np.float32), target=VERTICES),
            "COLOR_0": buffer.add(mesh.colours, target=VERTICES, normalized=True),
            "JOINTS_0": buffer.add(joints, target=VERTICES),
            "WEIGHTS_0": buffer.add(weights, target=VERTICES),
        },
        "indices": buffer.add(order, target=INDICES),
        "material": 0,
        "mode": 4,
    }


def _inverse_binds(rest: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return ``[J, 4, 4]``, columns first, from the world to each joint at rest, where rotations are the identity."""
    matrices = np.tile(np.eye(4, dtype=np.float32), (len(rest), 1, 1))
    matrices[:, 3, :3] = -rest
    return matrices


def _animation(buffer: Buffer, motion: Motion, name: str) -> dict[str, Any]:
    """Write the samplers and channels."""
    times = buffer.add((np.arange(motion.frames) / motion.fps).astype(np.float32), bounds=True)
    samplers: list[dict[str, Any]] = []
    channels: list[dict[str, Any]] = []

    def add(node: int, path: str, values: NDArray[np.float32]) -> None:
        channels.append({"sampler": len(samplers), "target": {"node": node, "path": path}})
        samplers.append({"input": times, "output": buffer.add(values), "interpolation": "LINEAR"})

    turns = quaternions(motion.rotations)
    moved = (motion.translations - motion.offsets).abs().amax(dim=(0, 2)) > STILL
    for joint, label in enumerate(motion.names):
        if motion.parents[joint] < 0 or bool(moved[joint]):
            add(joint, "translation", motion.translations[:, joint].numpy().astype(np.float32))
        if not label.endswith(END):
            add(joint, "rotation", turns[:, joint])
    return {"name": name, "channels": channels, "samplers": samplers, "extras": {"fps": motion.fps}}


def quaternions(rotations: Tensor) -> NDArray[np.float32]:
    """Return ``[T, J, 4]`` (x, y, z, w), each in the hemisphere of the frame before."""
    wxyz = matrix_to_quaternion(rotations.double())
    turned = (wxyz[1:] * wxyz[:-1]).sum(dim=-1) < 0
    sign = torch.where(turned, -1.0, 1.0).cumprod(dim=0)
    signed = torch.cat([wxyz[:1], wxyz[1:] * sign[..., None]])
    return torch.roll(signed, -1, dims=-1).numpy().astype(np.float32)


class Buffer:
    """Arrays laid one after the other, with the accessors that describe them."""

    def __init__(self) -> None:
        self.views: list[dict[str, Any]] = []  # ``bufferViews`` of the document
        self.accessors: list[dict[str, Any]] = []  # ``accessors`` of the document
        self._data = bytearray()

    def add(self, values: NDArray[Any], *, target: int = 0, bounds: bool = False, normalized: bool = False) -> int:
        """Append an array ``[count, ...]`` and return its accessor.

        Args:
            values: float32, uint32, uint16 or uint8; scalars, vectors or 4 x 4 matrices (columns first).
            target: `VERTICES`, `INDICES` or 0.
            bounds: Write minimum and maximum, which the format requires of positions and of times.
            normalized: Integers stand for 0 to 1.
        """
        view: dict[str, Any] = {"buffer": 0, "byteOffset": len(self._data), "byteLength": values.nbytes}
        if target:
            view["target"] = target
        accessor: dict[str, Any] = {
            "bufferView": len(self.views),
            "componentType": _COMPONENTS[values.dtype.name],
            "count": len(values),
            "type": _SHAPES[values.shape[1:]],
        }
        if normalized:
            accessor["normalized"] = True
        if bounds:
            accessor["min"] = np.atleast_1d(values.min(axis=0)).tolist()
            accessor["max"] = np.atleast_1d(values.max(axis=0)).tolist()
        self._data += np.ascontiguousarray(values).astype(values.dtype.newbyteorder("<"), copy=False).tobytes()
        self._data += b"\0" * (-len(self._data) % 4)
        self.views.append(view)
        self.accessors.append(accessor)
        return len(self.accessors) - 1

    def pack(self, document: dict[str, Any]) -> bytes:
        """Return the GLB file of a document with this buffer."""
        complete = {
            **document,
            "accessors": self.accessors,
            "bufferViews": self.views,
            "buffers": [{"byteLength": len(self._data)}],
        }
        return pack_glb(complete, bytes(self._data))


def pack_glb(document: dict[str, Any], data: bytes) -> bytes:
    """Return the bytes of a GLB file with this document and this buffer, whose size is a multiple of four."""
    # Names of files need not be text on Linux; what is none becomes a question mark.
    words = json.dumps(document, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    text = words.encode(errors="replace")
    text += b" " * (-len(text) % 4)
    size = 12 + 8 + len(text) + 8 + len(data)
    head = [struct.pack("<4sII", b"glTF", 2, size), struct.pack("<I4s", len(text), b"JSON"), text]
    return b"".join([*head, struct.pack("<I4s", len(data), b"BIN\0"), data])


Floats = NDArray[np.float64]

_FACES = ((0, 1, 2), (0, 2, 3), (0, 3, 4), (0, 4, 1), (5, 2, 1), (5, 3, 2), (5, 4, 3), (5, 1, 4))
"""Of an octahedron with its near tip 0, ring 1-4 and far tip 5, seen from outside."""

_THICK = (0.1, 0.012, 0.045)
"""Bone radius: (share of length, minimum, maximum) in metres."""

_WAIST = 0.15
"""Place of the largest radius, as a part of the bone's length."""

_KNOB = 0.014
"""Metres from a joint's centre to the tips of the small octahedron that marks it."""

_LEFT, _RIGHT, _CENTRE = (66, 135, 245, 255), (240, 130, 50, 255), (190, 190, 200, 255)


@dataclass(frozen=True)
class BoneMesh:
    """The bones in the rest pose as long octahedra, left and right in two colours; a vertex belongs to one joint."""

    points: Floats  # ``[V, 3]`` metres
    normals: Floats  # ``[V, 3]`` unit, flat
    colours: NDArray[np.uint8]  # ``[V, 4]`` 0 to 255
    joints: NDArray[np.int64]  # ``[V]`` the joint that moves the vertex


def bone_mesh(positions: Floats, parents: Sequence[int], ends: Sequence[bool]) -> BoneMesh:
    """Build the mesh of a skeleton in its rest pose.

    Args:
        positions: ``[J, 3]`` metres.
        parents: Parent of each joint, -1 for the root.
        ends: Which joints are end sites; they get no knob.
    """
    corners, owners = [], []
    for joint, parent in enumerate(parents):
        if not ends[joint]:
            corners.append(_octahedron(positions[joint], np.array([0.0, 2 * _KNOB, 0.0]), _KNOB, 0.5, -_KNOB))
            owners.append(joint)
        if parent >= 0:
            bone = positions[joint] - positions[parent]
            length = float(np.linalg.norm(bone))
            if length > 1e-3:
                thick = float(np.clip(_THICK[0] * length, _THICK[1], _THICK[2]))
                corners.append(_octahedron(positions[parent], bone, thick, _WAIST, 0.0))
                owners.append(parent)
    points = np.stack(corners)[:, np.array(_FACES)]
    normals = np.cross(points[..., 1, :] - points[..., 0, :], points[..., 2, :] - points[..., 0, :])
    normals /= np.linalg.norm(normals, axis=-1, keepdims=True)
    # Left and right by the place of a bone's middle at rest: the body faces +Z, so its left is +X.
    side = points.mean(axis=(1, 2))[:, 0] - positions[0, 0]
    colours = np.array([_LEFT if x > 0.03 else _RIGHT if x < -0.03 else _CENTRE for x in side], dtype=np.uint8)
    vertices = points.shape[1] * points.shape[2]
    return BoneMesh(
        points.reshape(-1, 3),
        np.repeat(normals[..., None, :], 3, axis=-2).reshape(-1, 3),
        np.repeat(colours, vertices, axis=0),
        np.repeat(np.array(owners), vertices),
    )


def _octahedron(start: Floats, bone: Floats, thick: float, waist: float, shift: float) -> Floats:
    """Return near tip, ring and far tip, ``[6, 3]``; `shift` moves all along the bone."""
    along = bone / np.linalg.norm(bone)
    start = start + shift * along
    helper = np.eye(3)[np.abs(along).argmin()]
    side = np.cross(along, helper)
    side /= np.linalg.norm(side)
    upward = np.cross(along, side)
    middle = start + waist * bone
    ring = [middle + thick * way for way in (side, upward, -side, -upward)]
    # The faces of `_FACES` look outwards for a ring that runs clockwise as seen from the near tip.
    return np.stack([start, *ring[::-1], start + bone])
