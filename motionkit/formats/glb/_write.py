"""Writing a motion as a glTF 2.0 binary file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from motionkit._version import __version__
from motionkit.errors import MotionkitError
from motionkit.formats.glb._buffer import INDICES, VERTICES, Buffer
from motionkit.formats.glb._mesh import bone_mesh
from motionkit.geometry import matrix_to_quaternion, positions_from_bones
from motionkit.motion._motion import END, JointMotion, Motion
from motionkit.rigs._solve import solve
from motionkit.runs import write_bytes_atomic

_STILL = 1e-6
"""Metres by which a joint may leave its place before its translation is written."""


def write_glb(path: Path, motion: Motion | JointMotion, *, name: str = "motion") -> None:
    """Write a motion as GLB: nodes, a skin, a mesh of the bones, one animation.

    Metres, Y up; a body that faces +Z looks at the viewer, as glTF wants it. Every joint is a node and a joint of the
    skin, end sites too, so that Blender knows where a hand ends. Rotations are quaternions in one hemisphere per
    joint (linear keys, one a frame), translations are written for the root and for joints that leave their place.
    The frame rate stands in ``animations[0].extras.fps``. The same motion always gives the same bytes.

    Args:
        path: File to write; it is replaced as a whole, or not at all.
        motion: Joints without rotations are solved first (`motionkit.rigs`).
        name: Name of the animation.

    Raises:
        MotionkitError: No frames, or values that are not finite.
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
    """Return ``[J, 4, 4]``, columns first, from the world to each joint at rest, where nothing is turned."""
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

    quaternions = _quaternions(motion)
    moved = (motion.translations - motion.offsets).abs().amax(dim=(0, 2)) > _STILL
    for joint, label in enumerate(motion.names):
        if motion.parents[joint] < 0 or bool(moved[joint]):
            add(joint, "translation", motion.translations[:, joint].numpy().astype(np.float32))
        if not label.endswith(END):
            add(joint, "rotation", quaternions[:, joint])
    return {"name": name, "channels": channels, "samplers": samplers, "extras": {"fps": motion.fps}}


def _quaternions(motion: Motion) -> NDArray[np.float32]:
    """Return ``[T, J, 4]`` (x, y, z, w), each in the hemisphere of the frame before: the short way round."""
    wxyz = matrix_to_quaternion(motion.rotations.double())
    turned = (wxyz[1:] * wxyz[:-1]).sum(dim=-1) < 0
    sign = torch.where(turned, -1.0, 1.0).cumprod(dim=0)
    signed = torch.cat([wxyz[:1], wxyz[1:] * sign[..., None]])
    return torch.roll(signed, -1, dims=-1).numpy().astype(np.float32)
