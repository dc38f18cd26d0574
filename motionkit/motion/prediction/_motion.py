"""From states back to a motion in the world."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from motionkit.geometry._yaw import yaw_matrix
from motionkit.motion._motion import Motion
from motionkit.motion.prediction._state import MotionState, follow


def motion_of(
    state: MotionState, *, names: Sequence[str], parents: Sequence[int], offsets: Tensor, fps: float
) -> Motion:
    """Return a motion whose first frame stands at the origin and faces +Z.

    Args:
        state: ``[T, ...]``; the step to the first frame does not count.
        names: Joint names.
        parents: Parent of each joint, -1 for joint 0.
        offsets: ``[J, 3]`` metres from the parent.
        fps: Frames per second.
    """
    state = state.map(Tensor.double)
    steps = torch.cat([torch.zeros_like(state.steps[:1]), state.steps[1:]])
    place, yaw = follow(steps)
    rotations = state.rotations.clone()
    rotations[:, 0] = yaw_matrix(yaw) @ rotations[:, 0]
    translations = offsets.double().repeat(state.frames, 1, 1)
    translations[:, 0] = torch.stack([place[:, 0], state.heights, place[:, 1]], dim=-1)
    tracks = {"contacts": state.contacts}
    return Motion(tuple(names), tuple(parents), offsets.double(), rotations, translations, fps, tracks)
