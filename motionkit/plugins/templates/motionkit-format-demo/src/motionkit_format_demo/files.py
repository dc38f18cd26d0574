"""Format 'demo': the heavy half."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from motionkit.errors import MotionkitError
from motionkit.formats import WriteOptions
from motionkit.motion import HUMANML, Clip, JointMotion, ReadOptions
from motionkit.rigs import to_body

from motionkit_format_demo import COLUMNS


def read(path: Path, options: ReadOptions) -> Sequence[Clip]:
    """Read an example to replace: a row for each frame, x, y and z of each joint of HumanML3D's body, in metres."""
    try:
        rows = np.loadtxt(path, delimiter=",", ndmin=2)
    except ValueError as error:
        raise MotionkitError(f"{path} cannot be read: {error}") from error
    if not len(rows) or rows.shape[1] != COLUMNS:
        raise MotionkitError(f"{path} has {rows.shape[1]} columns.", why=f"{COLUMNS} are needed.")
    joints = torch.from_numpy(rows).unflatten(1, (-1, 3))  # [T, 22, 3]
    motion = JointMotion(HUMANML.joint_names, HUMANML.parents, joints, options.fps or 20.0)
    return [Clip(motion, notes={"format": "demo"})]


def write(path: Path, clips: Sequence[Clip], options: WriteOptions) -> None:
    """Write one clip, brought to HumanML3D's body."""
    (clip,) = clips
    joints = to_body(clip.motion, HUMANML, clip.motion.fps)  # [T, 22, 3]
    np.savetxt(path, joints.flatten(1).numpy(), delimiter=",", fmt="%.6f")
