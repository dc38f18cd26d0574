"""Motions that the player's and the video's tests show."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from motionkit.motion import HUMANML
from motionkit.player import PlayerTrack


def standing() -> Tensor:
    """The 22 joints of a body that stands on the floor and looks along +Z, ``[22, 3]``."""
    joints = torch.zeros(22, 3, dtype=torch.float64)
    for joint, parent in enumerate(HUMANML.parents):
        if parent >= 0:
            joints[joint] = joints[parent] + torch.tensor(HUMANML.target_offsets[joint], dtype=torch.float64)
    joints[:, 1] -= joints[:, 1].min()
    return joints


def walking(frames: int = 40, fps: float = 20.0, speed: float = 1.0) -> Tensor:
    """The body gliding along +Z while its wrists swing, ``[T, 22, 3]``."""
    time = torch.arange(frames, dtype=torch.float64) / fps
    joints = standing().repeat(frames, 1, 1)
    joints[..., 2] += (speed * time)[:, None]
    for joint, sign in ((20, 1.0), (21, -1.0)):
        joints[:, joint, 2] += sign * 0.2 * torch.sin(2 * math.pi * time)
    return joints


def track(title: str = "a walk", frames: int = 40, fps: float = 20.0, **further: object) -> PlayerTrack:
    return PlayerTrack(title, walking(frames, fps), HUMANML.parents, fps, **further)  # type: ignore[arg-type]
