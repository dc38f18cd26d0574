"""Changes that take movement away: path, heading and bones stay, poses do not change or change less."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from motionkit.motion._skeleton import Skeleton
from motionkit.motion.changes._applies import joint_ranges
from motionkit.motion.changes._poses import Poses, placed, turned_as


def mean_pose(joints: Tensor, skeleton: Skeleton, fps: float) -> Tensor:
    """Return the clip with its mean pose at its mean height in every frame: a statue that follows the path.

    Args:
        joints: ``[F, J, 3]`` metres, Y up.
        skeleton: Their body.
        fps: Frames per second.
    """
    return swing_times(joints, skeleton, fps, factor=0.0)


def swing_times(joints: Tensor, skeleton: Skeleton, fps: float, *, factor: float) -> Tensor:
    """Return the clip with every bone's turn from the mean pose, and its way from its mean height, times `factor`."""
    poses = Poses.of(joints, skeleton, fps)
    return placed(poses.averaged().towards(poses, factor).joints, joints, skeleton)


def held_frame(joints: Tensor, skeleton: Skeleton, fps: float, *, frame: int) -> Tensor:
    """Return the clip with the pose and the height of one frame in every frame."""
    poses = Poses.of(joints, skeleton, fps)
    held = poses.reordered(torch.full((len(poses),), frame), join=False)
    return placed(replace(held, ground=poses.ground, yaw=poses.yaw).joints, joints, skeleton)


def running_mean(joints: Tensor, skeleton: Skeleton, fps: float, *, seconds: float) -> Tensor:
    """Return the clip with the mean pose of `seconds` around each frame."""
    poses = Poses.of(joints, skeleton, fps)
    return placed(poses.smoothed(round(seconds * fps)).joints, joints, skeleton)


def still_limb(joints: Tensor, skeleton: Skeleton, fps: float, *, limb: int | None = None) -> Tensor:
    """Return the clip with the bones of one limb at their mean directions.

    Args:
        joints: ``[F, J, 3]``.
        skeleton: Their body.
        fps: Frames per second.
        limb: Number of the limb in `limbs`; None takes the one whose end moves most (`joint_ranges`).
    """
    poses = Poses.of(joints, skeleton, fps)
    parts = limbs(skeleton)  # joints from the body outwards, the end last
    if limb is None:
        ranges = joint_ranges(joints, skeleton, fps)
        limb = max(range(len(parts)), key=lambda number: float(ranges[parts[number][-1]]))
    bones = torch.tensor(parts[limb]) - 1  # the root has no bone
    directions = poses.directions.clone()
    directions[:, bones] = poses.averaged().directions[:, bones]
    return placed(replace(poses, directions=directions).joints, joints, skeleton)


def lively_statue(joints: Tensor, skeleton: Skeleton, fps: float, *, other: Tensor) -> Tensor:
    """Return the clip with its mean pose and the swing of another clip around it.

    Every bone turns from this clip's mean as the other clip's bone turns from that one's mean. The other clip runs to
    and fro where it is shorter.

    Args:
        joints: ``[F, J, 3]``.
        skeleton: The body of both.
        fps: Frames per second of both.
        other: ``[G, J, 3]`` joints of the other clip.
    """
    poses, moving = Poses.of(joints, skeleton, fps), Poses.of(other, skeleton, fps)
    # Frames of the other clip, to and fro: 0, 1, ..., G - 1, G - 2, ..., 1, 0, 1, ...
    count = torch.arange(len(poses)) % max(2 * len(moving) - 2, 1)
    index = torch.minimum(count, 2 * len(moving) - 2 - count)
    still, centre = poses.averaged(), moving.averaged()
    goal = moving.directions[index]
    directions = turned_as(still.directions, centre.directions[0].expand_as(goal), goal)
    floor = still.floor + moving.floor[index] - centre.floor[0]
    return placed(replace(still, directions=directions, floor=floor).joints, joints, skeleton)


def limbs(skeleton: Skeleton) -> tuple[tuple[int, ...], ...]:
    """Return the joints of each arm and leg beyond shoulder and hip, from the body outwards.

    Example:
        >>> from motionkit.motion import HUMANML
        >>> [[HUMANML.joint_names[joint] for joint in limb] for limb in limbs(HUMANML)][2]
        ['right_elbow', 'right_wrist']
    """
    ends = {joint: chain for chain in skeleton.chains for joint in chain if joint in skeleton.face_joints}
    return tuple(chain[chain.index(joint) + 1 :] for joint, chain in ends.items())
