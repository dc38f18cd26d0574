"""A person who walks: the sound motion into which tests plant faults."""

from __future__ import annotations

import math
from dataclasses import replace

import roma
import torch
from torch import Tensor

from motionkit.motion import HUMANML
from motionkit.motion.motion import JointMotion, Motion

_SWING = {"left_hip": 0.4, "right_hip": -0.4, "left_shoulder": -0.3, "right_shoulder": 0.3, "spine2": 0.05}


def person(frames: int = 240, fps: float = 60.0, speed: float = 1.0, turn: float = 0.0) -> Motion:
    """Return a walker in metres, its lowest joint on the floor y = 0 in every frame; it turns `turn` rad/s."""
    time = torch.arange(frames, dtype=torch.float64) / fps
    turns = torch.zeros(frames, 22, 3, dtype=torch.float64)
    for name, size in _SWING.items():
        turns[:, HUMANML.index(name), 0] = size * (2 * math.pi * 0.9 * time).sin()
    for side in ("left", "right"):
        turns[:, HUMANML.index(f"{side}_ankle"), 0] = 0.05 * (2 * math.pi * 1.8 * time).sin()
    turns[:, 0, 1] = turn * time
    offsets = torch.tensor(HUMANML.target_offsets, dtype=torch.float64)
    rotations = roma.rotvec_to_rotmat(turns)
    translations = offsets.repeat(frames, 1, 1)
    heading = torch.stack([(turn * time).sin(), torch.zeros_like(time), (turn * time).cos()], 1)
    translations[:, 0] = (heading * speed / fps).cumsum(0)
    motion = Motion(HUMANML.joint_names, HUMANML.parents, offsets, rotations, translations, fps)
    translations[:, 0, 1] -= motion.positions()[..., 1].amin(1)
    return replace(motion, translations=translations)


def joints_of(motion: Motion, joints: Tensor | None = None) -> JointMotion:
    """Return the motion as joints without rotations, or with other joints."""
    places = motion.positions() if joints is None else joints
    return JointMotion(motion.names, motion.parents, places, motion.fps)
