"""Putting a motion onto the target bones, onto the floor and in front of the viewer."""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.geometry._kinematics import bones_from_positions, positions_from_bones
from motionkit.geometry._yaw import heading, rotate_yaw
from motionkit.motion._skeleton import Skeleton


def retarget(joints: Tensor, skeleton: Skeleton, bones: Tensor | None = None) -> Tensor:
    """Give a motion the target bone lengths, keeping every bone's direction (HumanML3D's ``uniform_skeleton``).

    HumanML3D runs inverse kinematics to rotations and forward kinematics back with other bones; because each
    rotation is the smallest one that reaches the bone's direction, the outcome is that direction times the new length.
    The root path is scaled by the ratio of leg lengths in frame 0.

    Args:
        joints: ``[..., T, J, 3]`` metres.
        skeleton: Body with `target_offsets`.
        bones: ``[J]`` target bone lengths in metres; the skeleton's own when None.

    Returns:
        ``[..., T, J, 3]``.

    Raises:
        MotionkitError: The body has no target bones and none were given, or a leg of frame 0 has no length.

    Example:
        >>> from motionkit.motion import HUMANML
        >>> from motionkit.starter import generate
        >>> child = torch.from_numpy(generate("walk", frames=40, scale=0.6).joints)
        >>> adult = retarget(child, HUMANML)
        >>> thigh = adult[:, HUMANML.index("right_knee")] - adult[:, HUMANML.index("right_hip")]
        >>> round(float(thigh[0].norm()), 4)
        0.3902
    """
    bones = target_bones(skeleton, bones).to(joints)
    source = bones_from_positions(joints, skeleton.parents)
    lengths = source.norm(dim=-1, keepdim=True)
    leg = list(skeleton.leg_joints)
    source_leg = lengths[..., :1, leg, 0].sum(dim=-1)
    check_legs(source_leg)
    scale = bones[leg].sum() / source_leg
    directions = source / lengths.clamp_min(torch.finfo(joints.dtype).tiny)
    moved = directions * bones[:, None]
    root = joints[..., :1, :] * scale[..., None, None]
    return positions_from_bones(torch.cat([root, moved[..., 1:, :]], dim=-2), skeleton.parents)


def target_bones(skeleton: Skeleton, bones: Tensor | None) -> Tensor:
    """Return ``[J]`` target bone lengths in metres: `bones`, or the skeleton's own.

    Raises:
        MotionkitError: There are none, or not J of them.
    """
    if bones is None:
        if skeleton.target_offsets is None:
            raise MotionkitError(
                f"the {skeleton.name} body has no published target bones.",
                fix="pass bones (kit_bones() has some), or extract with target=False.",
            )
        return _own_bones(skeleton)
    if bones.shape != (skeleton.joints,):
        raise MotionkitError(f"bones have shape {list(bones.shape)}; the {skeleton.name} body has {skeleton.joints}.")
    return bones


@lru_cache(maxsize=4)
def _own_bones(skeleton: Skeleton) -> Tensor:
    bones: Tensor = torch.tensor(skeleton.target_offsets, dtype=torch.float64).norm(dim=-1)
    return bones


def check_legs(lengths: Tensor) -> None:
    """Refuse leg lengths that no scale can be taken from.

    Raises:
        MotionkitError: One is zero, or not known (NaN).
    """
    if not bool((lengths > 0).all()):
        raise MotionkitError("the legs have no length in the first frame.", why="the body's scale is taken from them.")


def canonicalise(joints: Tensor, skeleton: Skeleton) -> Tensor:
    """Put the lowest joint of the clip on y = 0, the first root at x = z = 0, the first frame facing +Z.

    Args:
        joints: ``[..., T, J, 3]``.
        skeleton: Tells hips and shoulders.

    Returns:
        ``[..., T, J, 3]``.

    Example:
        >>> from motionkit.motion import HUMANML
        >>> from motionkit.starter import generate
        >>> placed = canonicalise(torch.from_numpy(generate("walk", frames=40).joints) + 3.0, HUMANML)
        >>> [round(float(value), 6) + 0.0 for value in placed[0, 0, [0, 2]]]
        [0.0, 0.0]
    """
    floor = joints[..., 1].amin(dim=(-1, -2))[..., None, None]
    first = joints[..., 0, :, :]
    shift = torch.stack([first[..., :1, 0][..., None], floor, first[..., :1, 2][..., None]], dim=-1)
    joints = joints - shift
    right_hip, left_hip, right_shoulder, left_shoulder = skeleton.face_joints
    across = first[..., right_hip, :] - first[..., left_hip, :]
    across = across + first[..., right_shoulder, :] - first[..., left_shoulder, :]
    forward = torch.stack([across[..., 2], torch.zeros_like(across[..., 0]), -across[..., 0]], dim=-1)
    return rotate_yaw(joints, -heading(forward)[..., None, None])
