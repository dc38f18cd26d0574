"""Where a change says something: how far a clip moves and travels, and whether it ends elsewhere than it begins."""

from __future__ import annotations

import math

from torch import Tensor

from motionkit.motion._skeleton import Skeleton
from motionkit.motion.changes._poses import Poses

LEAST_RANGE = 0.1
"""Metres that a joint of a clip moves at least, seen from the root; a clip below it is a still pose already."""

LEAST_TRAVEL = 0.5
"""Metres from its start that a clip goes at least where its path can be missed."""

_LEAST_TURN = math.radians(45.0)
_LEAST_PART = 0.4


def joint_ranges(joints: Tensor, skeleton: Skeleton, fps: float) -> Tensor:
    """Return how far each joint moves as seen from the root, in the heading's frame.

    Args:
        joints: ``[F, J, 3]`` metres.
        skeleton: Their body.
        fps: Frames per second.

    Returns:
        ``[J]`` metres, the diagonal of the box that holds the joint in all frames.
    """
    seen = Poses.of(joints, skeleton, fps).offsets()
    ranges: Tensor = (seen.amax(0) - seen.amin(0)).norm(dim=-1)
    return ranges


def moves(joints: Tensor, skeleton: Skeleton, fps: float) -> bool:
    """Whether some joint moves more than `LEAST_RANGE`, seen from the root; joints ``[F, J, 3]``."""
    return bool(joint_ranges(joints, skeleton, fps).max() > LEAST_RANGE)


def travels(joints: Tensor) -> bool:
    """Whether the root gets more than `LEAST_TRAVEL` away from its start; joints ``[F, J, 3]``, Y up."""
    ground = joints[:, 0, [0, 2]]
    return bool((ground - ground[0]).norm(dim=-1).max() > LEAST_TRAVEL)


def goes_one_way(joints: Tensor, skeleton: Skeleton, fps: float) -> bool:
    """Whether a clip ends elsewhere than it begins, so that it is another clip when it is reversed.

    It does where it travels, where its heading ends 45 degrees from where it began, or where the mean place of a joint
    (the root's height included) differs between its halves by 0.1 m and 0.4 of the joint's range. Cyclic movements in
    place, and those that come back to where they began, do not: waving, jumping on the spot, a squat.

    Args:
        joints: ``[F, J, 3]`` metres, Y up.
        skeleton: Their body.
        fps: Frames per second.
    """
    if travels(joints):
        return True
    poses = Poses.of(joints, skeleton, fps)
    if abs(float(poses.yaw[-1] - poses.yaw[0])) > _LEAST_TURN:
        return True
    places = poses.offsets()
    places[:, :, 1] += poses.height[:, None]
    half = len(places) // 2
    change = (places[half:].mean(0) - places[:half].mean(0)).norm(dim=-1)
    ranges = (places.amax(0) - places.amin(0)).norm(dim=-1)
    return bool(((change > LEAST_RANGE) & (change > _LEAST_PART * ranges)).any())
