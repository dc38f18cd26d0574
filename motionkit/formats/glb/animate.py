"""Writing a motion into a GLB file with a skeleton, so that its mesh is animated."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from motionkit.errors import MotionkitError
from motionkit.formats.glb.container import Container, open_glb
from motionkit.formats.glb.read import glb_unit, rest_frames, rest_poses, to_motion
from motionkit.formats.glb.tree import find_tree
from motionkit.formats.glb.write import STILL, pack_glb, quaternions
from motionkit.geometry import accumulate_rotations, matrix_to_quaternion
from motionkit.motion.motion import END, Motion
from motionkit.rigs.detect import UNITS
from motionkit.runs import write_bytes_atomic


def read_glb_rig(path: Path) -> Motion:
    """Return the skeleton of a GLB file in metres, as one frame whose rotations are the identity."""
    file = open_glb(path)
    tree = find_tree(file)
    rest = rest_poses(file, tree)
    motion = to_motion(tree, rest, rest, 30.0, None)
    scale = UNITS[glb_unit(motion)[0]].metres
    offsets = scale * motion.offsets
    return Motion(motion.names, motion.parents, offsets, motion.rotations, offsets[None], 30.0)


def write_animated(path: Path, model: Path, motion: Motion, *, name: str = "motion") -> None:
    """Write a copy of a GLB file whose only animation is a motion.

    Meshes, skins, materials and textures stay as they are, byte for byte. Each joint that the motion turns gets a
    rotation for every frame, and each that it moves a translation.

    Args:
        path: File to write; it is replaced as a whole, or not at all.
        model: The GLB file.
        motion: On the skeleton of that file (`read_glb_rig`), in metres, Y up.
        name: Name of the animation.
    """
    file = open_glb(model)
    tree = find_tree(file)
    if motion.names != tree.names:
        raise MotionkitError(f"the motion is not on the skeleton of {model}.", fix="give that file with --rig.")
    if not bool(motion.rotations.isfinite().all() and motion.translations.isfinite().all()):
        raise MotionkitError(f"{path} cannot be written: the motion has values that are not finite.")
    rest = rest_poses(file, tree)
    metres = UNITS[glb_unit(to_motion(tree, rest, rest, 30.0, None))[0]].metres
    world = accumulate_rotations(motion.rotations, motion.parents) @ rest.turns
    places = motion.positions() / metres
    frames = rest_frames(file, tree)
    data = bytearray(file.binary) + b"\0" * (-len(file.binary) % 4)
    document: dict[str, Any] = json.loads(json.dumps(file.document))
    for key in ("bufferViews", "accessors", "buffers"):
        file.items(key)  # refuses what is no list
        document.setdefault(key, [])
    samplers: list[dict[str, Any]] = []
    channels: list[dict[str, Any]] = []

    def put(values: NDArray[np.float32], **more: Any) -> int:
        document["bufferViews"].append({"buffer": 0, "byteOffset": len(data), "byteLength": values.nbytes})
        kind = {1: "SCALAR", 3: "VEC3", 4: "VEC4"}[values.shape[1] if values.ndim > 1 else 1]
        document["accessors"].append(
            {"bufferView": len(document["bufferViews"]) - 1, "componentType": 5126, "count": len(values), "type": kind}
            | more
        )
        data.extend(values.astype("<f4").tobytes())
        return len(document["accessors"]) - 1

    times = (np.arange(motion.frames) / motion.fps).astype(np.float32)
    clock = put(times, min=[float(times[0])], max=[float(times[-1])])

    def add(node: int, what: str, values: NDArray[np.float32]) -> None:
        channels.append({"sampler": len(samplers), "target": {"node": node, "path": what}})
        samplers.append({"input": clock, "output": put(values), "interpolation": "LINEAR"})

    moved = ((motion.translations - motion.offsets).abs().amax((0, 2)) > STILL).tolist()
    for joint, (node, parent) in enumerate(zip(tree.nodes, tree.parents, strict=True)):
        _take_apart(file, document["nodes"][node], node)
        above = frames.above_turn.expand_as(world[:, 0]) if parent < 0 else world[:, parent]
        if not motion.names[joint].endswith(END):
            add(node, "rotation", quaternions((above.mT @ world[:, joint])[:, None])[:, 0])
        if moved[joint]:
            start = frames.above_place if parent < 0 else places[:, parent]
            scale = frames.above_scale if parent < 0 else float(frames.scales[parent])
            local = (above.mT @ (places[:, joint] - start)[..., None])[..., 0] / scale
            add(node, "translation", local.numpy().astype(np.float32))
    document["animations"] = [{"name": name, "channels": channels, "samplers": samplers, "extras": {"fps": motion.fps}}]
    if document["buffers"]:
        document["buffers"][0]["byteLength"] = len(data)
    else:
        document["buffers"] = [{"byteLength": len(data)}]
    try:
        written = pack_glb(document, bytes(data))
    except ValueError as error:
        raise file.error("it has a number that is not finite, which JSON does not have") from error
    write_bytes_atomic(path, written)


def _take_apart(file: Container, entry: dict[str, Any], node: int) -> None:
    """Write a node's matrix as translation, rotation and scale, which an animated node must have."""
    if "matrix" not in entry:
        return
    matrix = torch.tensor(file.numbers(entry.pop("matrix"), 16, "matrix"), dtype=torch.float64).view(4, 4).mT
    scale = matrix[:3, :3].norm(dim=0)
    if not bool((scale > 0).all()):
        raise file.error(f"node {node} is scaled to nothing")
    w, x, y, z = matrix_to_quaternion(matrix[:3, :3] / scale).tolist()
    entry |= {"translation": matrix[:3, 3].tolist(), "rotation": [x, y, z, w], "scale": scale.tolist()}
