"""From 22 joints to what the critic reads: SMPL's rotations, and the root's place."""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor

from motionkit.geometry import accumulate_rotations, matrix_to_rotvec, positions_from_bones
from motionkit.motion import HUMANML, JointMotion
from motionkit.rigs import default_rest, solve

FPS = 20.0  # of the critic's training clips
WINDOW = 60  # frames of them


def critic_input(joints: Tensor) -> Tensor:
    """Return a motion as the critic reads it.

    Rotations are found by `motionkit.rigs.solve`. It measures them from a T-pose; SMPL's zero pose is another one by
    some degrees, so that what it finds for SMPL's zero pose is taken off. What joints do not show stays what the solver
    makes of it: the twist of straight limbs, wrists, feet and head. Hands are at rest. There is no gradient.

    Args:
        joints: ``[T, 22, 3]`` finite metres at 20 fps, Y up.

    Returns:
        ``[T, 25, 3]`` float32: axis-angles in radians of SMPL's 24 joints, each from its parent, then the root's way in
        metres since the first frame.

    Raises:
        MotionkitError: The joints are no finite body.
    """
    world = _world(joints) @ _zero().mT
    parents = torch.tensor(HUMANML.parents)
    local = world.clone()
    local[:, 1:] = world[:, parents[1:]].mT @ world[:, 1:]
    result = torch.zeros(len(joints), 25, 3, dtype=torch.float64)
    result[:, : HUMANML.joints] = matrix_to_rotvec(local)  # angles up to pi, as in the critic's training data
    root = joints[:, 0].double().cpu()
    result[:, -1] = root - root[0]
    return result.float()


def windows(motion: Tensor) -> list[Tensor]:
    """Return the parts of a motion ``[T, 25, 3]`` that are scored: as few as cover it, evenly spread.

    Each has `WINDOW` frames and starts at the origin. A shorter motion stands still at its end, as the critic's
    training clips do.
    """
    frames = len(motion)
    if frames < WINDOW:
        motion = torch.cat([motion, motion[-1:].expand(WINDOW - frames, -1, -1)])
        frames = WINDOW
    starts = torch.linspace(0, frames - WINDOW, -(-frames // WINDOW)).round().long().tolist()
    parts = [motion[start : start + WINDOW].clone() for start in starts]
    for part in parts:
        part[:, -1] = part[:, -1] - part[:1, -1]
    return parts


def _world(joints: Tensor) -> Tensor:
    """Return the rotation of each joint in the world, ``[T, 22, 3, 3]`` float64, from the solver's T-pose."""
    solved = solve(JointMotion(HUMANML.joint_names, HUMANML.parents, joints.double().cpu(), FPS)).motion
    return accumulate_rotations(solved.rotations, solved.parents)[:, : HUMANML.joints]


@lru_cache(maxsize=1)
def _zero() -> Tensor:
    """Return those rotations of SMPL's zero pose, ``[22, 3, 3]``."""
    return _world(positions_from_bones(default_rest(), HUMANML.parents)[None])[0]
