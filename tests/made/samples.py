"""A small sound file of every format that is read."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from motionkit.formats.glb import write_glb
from motionkit.formats.native import write_native
from motionkit.formats.table import FORMATS
from motionkit.motion import HUMANML, Clip, JointMotion, joints_to_features

from .blender import as_fbx
from .bodies import walker
from .bvh_files import write_bvh

SAMPLES = ("bvh", "glb", "fbx", "unreal-json", "mpl", "amass", "npz", "joints", "features", "mdm-results")
"""Formats with a sample; packages that are installed may read more."""


def write_sample(folder: Path, name: str, frames: int = 400) -> Path:
    """Write a walk in a format and return its file."""
    path = folder / f"a.{FORMATS[name].suffix.rsplit('.', 1)[1]}"  # of .amass.npz the last part
    eye = np.eye(3)[:, :2].T.reshape(6)
    match name:
        case "bvh":
            write_bvh(path, frames)
        case "glb":
            write_glb(path, JointMotion(HUMANML.joint_names, HUMANML.parents, walker(frames), 20.0))
        case "fbx":
            write_glb(path, JointMotion(HUMANML.joint_names, HUMANML.parents, walker(frames), 20.0))
            as_fbx(path)
        case "unreal-json":
            frame = {"RootYaw": 0.0, "RootVelocityXY": [0.0, 0.0], "BoneRotations": [eye.tolist()] * 3}
            path.write_text(json.dumps({"FPS": 60, "Frames": [frame] * frames}))
        case "mpl":
            flat = {
                "root_yaw": np.zeros(frames),
                "root_vel": np.zeros((frames, 2)),
                "soft_contacts": np.zeros((frames, 2)),
            }
            np.savez_compressed(path, rot6d=np.tile(eye, (frames, 22, 1)), angvel=np.zeros((frames, 22, 3)), **flat)
        case "amass":
            np.savez_compressed(
                path, poses=np.zeros((frames, 156), "u1"), trans=np.zeros((frames, 3)), mocap_framerate=60.0
            )
        case "npz":
            write_native(path, Clip(JointMotion(HUMANML.joint_names, HUMANML.parents, walker(frames), 20.0)))
        case "joints":
            np.save(path, walker(frames).numpy())
        case "features":
            np.save(path, joints_to_features(walker(frames + 1), HUMANML).float().numpy())
        case "mdm-results":
            motion = walker(frames).permute(1, 2, 0)[None].numpy()
            content = {"motion": motion, "text": ["a walk"], "lengths": np.array([frames]), "num_samples": 1}
            np.save(path, np.array(content, dtype=object), allow_pickle=True)
    return path
