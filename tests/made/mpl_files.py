"""Motion as Unreal's exporter and the predictor's original converter write it, made from motions of the starter."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

from motionkit.motion import HUMANML
from motionkit.motion.motion import Motion
from motionkit.starter import OFFSETS, PARENTS, generate

HOUSE = {
    "forward": (0, 0, 1), "backward": (0, 0, -1), "left": (1, 0, 0), "right": (-1, 0, 0), "up": (0, 1, 0),
    "down": (0, -1, 0),
}  # fmt: skip
UNREAL = ("forward", "right", "up")


def starter_motion(name: str = "walk/circle-left", frames: int = 40, fps: float = 30.0) -> Motion:
    """A moving skeleton in house space whose root is 0.9 m above its component at rest."""
    clip = generate(name, frames=frames, fps=fps, seed=1)
    offsets = torch.from_numpy(OFFSETS.copy())
    offsets[0] = torch.tensor([0.02, 0.9, -0.05])
    translations = offsets.repeat(frames, 1, 1)
    translations[:, 0] = torch.from_numpy(clip.root)
    return Motion(HUMANML.joint_names, PARENTS, offsets, torch.from_numpy(clip.rotations), translations, fps)


def turn(axis: int, angle: float) -> np.ndarray:
    a, b = (axis + 1) % 3, (axis + 2) % 3
    matrix = np.eye(3)
    matrix[a, a] = matrix[b, b] = np.cos(angle)
    matrix[b, a], matrix[a, b] = np.sin(angle), -np.sin(angle)
    return matrix


def exported(
    motion: Motion,
    yaw: np.ndarray,
    *,
    columns: str = "XZ",
    axes: tuple[str, str, str] = UNREAL,
    units: str = "meters",
    per_metre: float = 1.0,
    offset: float = 0.0,
    evidence: bool = True,
) -> dict[str, Any]:
    """The document for `motion` whose component has the given yaw, frame by frame and bone by bone."""
    basis = np.array([HOUSE[word] for word in axes], dtype=float).T
    up = next(k for k, word in enumerate(axes) if word in ("up", "down"))
    ground = [k for k in range(3) if k != up]
    rotations = basis.T @ motion.rotations.numpy() @ basis
    places = motion.translations[:, 0].numpy() @ basis
    offsets = motion.offsets.numpy() @ basis
    a, b = ("XYZ".index(column) for column in columns)
    positions = []
    for t in range(motion.frames):
        component = turn(up, yaw[t] - offset)
        rotations[t, 0] = component.T @ rotations[t, 0]
        positions.append((places[t] - component @ offsets[0]) * per_metre)
    positions = np.array(positions)
    steps = np.diff(positions, axis=0, append=2 * positions[-1:] - positions[-2:-1]) * motion.fps
    frames = []
    for t in range(motion.frames):
        frame: dict[str, Any] = {
            "RootPosition": positions[t].tolist(),
            "RootYaw": float(yaw[t]),
            "RootVelocityXY": steps[t, ground].tolist(),
            "BoneRotations": [[*R[:, a], *R[:, b]] for R in rotations[t]],
            "TrajectoryDir": [[1.0, 0.0]] * 5,
            "ActionBits": [0, 1, 0, 0],
        }
        if evidence:
            score = 0.45 + 0.4 * np.sin(0.5 * t)
            frame["FootEvidence"] = {"L": {"soft_contact_score": score}, "R": {"soft_contact_score": 0.9 - score}}
        frames.append(frame)
    return {
        "NumFrames": motion.frames,
        "FPS": motion.fps,
        "ClipAction": "EAction::Walk",
        "meta": {
            "version": "v3",
            "units": units,
            "handedness": "left" if np.linalg.det(basis) < 0 else "right",
            "axes": dict(zip("xyz", axes, strict=True)),
            "spaces": {"bone_rotations": "local_6d", "root_motion": "component"},
            "root_motion": {
                "root_yaw_units": "radians",
                "planar_alignment_applied": True,
                "forward_axis_offset_deg": float(np.degrees(offset)),
            },
            "skeleton": {
                "root_bone": "root",
                "bone_names": list(motion.names),
                "parents": list(motion.parents),
                "ref_local_offsets_m": offsets.tolist(),
            },
            "rot6d_spec": {"columns": list(columns), "order": "A_then_B", "matrix_layout": "columns_are_axes"},
        },
        "Frames": frames,
    }


def guide(document: dict[str, Any]) -> dict[str, Any]:
    """What the guide's example has, and nothing more."""
    kept = ("RootYaw", "RootVelocityXY", "BoneRotations", "FootEvidence")
    return {
        "FPS": document["FPS"],
        "Frames": [{name: frame[name] for name in kept if name in frame} for frame in document["Frames"]],
    }


def tables(motion: Motion) -> tuple[dict[str, str], dict[str, Any]]:
    """The two tables of a skeleton below a bone ``root``, in centimetres and Unreal's axes."""
    basis = np.array([HOUSE[word] for word in UNREAL], dtype=float).T
    offsets = motion.offsets.numpy() @ basis * 100.0
    above = ["root" if parent < 0 else motion.names[parent] for parent in motion.parents]
    hierarchy = {"root": "None", **dict(zip(motion.names, above, strict=True))}
    bones = [{"Name": "root", "Index": 0, "Parent": "None", "Offset": [0, 0, 0]}]
    for index, (name, parent) in enumerate(zip(motion.names, above, strict=True)):
        bones.append({"Name": name, "Index": index + 1, "Parent": parent, "Offset": offsets[index].tolist()})
    return hierarchy, {"NumBones": len(bones), "Units": "centimeters", "Bones": bones}


def save(path: Path, document: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document))
    return path


def original_npz(path: Path, document: dict[str, Any]) -> Path:
    """An npz in the layout of the predictor's original converter: object arrays, a path inside, no contacts."""
    frames = document["Frames"]
    six = np.array([frame["BoneRotations"] for frame in frames], np.float32)
    velocity = np.array([frame["RootVelocityXY"] for frame in frames], np.float32)
    speed = np.linalg.norm(velocity, axis=1, keepdims=True)
    bits = np.array([frame["ActionBits"] for frame in frames], np.float32)
    skeleton = document["meta"]["skeleton"]
    np.savez(
        path,
        bone_rot6d=six,
        bone_pos=np.zeros(0, np.float32),
        bone_vel=np.zeros(0, np.float32),
        root_pos=np.array([frame["RootPosition"] for frame in frames], np.float32),
        root_vel=velocity,
        root_yaw=np.array([[frame["RootYaw"]] for frame in frames], np.float32),
        cond_in=np.concatenate([bits, velocity / np.maximum(speed, 1e-6), speed], axis=1)[:-1],
        FPS=np.int32(document["FPS"]),
        bone_names=np.array(skeleton["bone_names"], dtype=object),
        parents=np.array(skeleton["parents"], np.int32),
        meta_json=np.array(json.dumps(document["meta"]), dtype=object),
        source_json=np.array("/nobody/raw_data/Walk_F.json"),
    )
    return path
