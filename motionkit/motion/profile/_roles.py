"""Which joints of a body are its hips, shoulders and feet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from motionkit.geometry import heading
from motionkit.motion._motion import JointMotion, Motion
from motionkit.motion._skeleton import HUMANML, KIT
from motionkit.motion.contacts import find_feet
from motionkit.motion.rigs._bodymap import find_roles

_NAMES = ("left hip", "right hip", "left shoulder", "right shoulder")
_OWN = {
    HUMANML.joint_names: (
        "left_hip", "right_hip", "left_shoulder", "right_shoulder", "left_ankle", "left_foot", "right_ankle",
        "right_foot",
    ),
    KIT.joint_names: ("LH", "RH", "LS", "RS", "LA", "LF", "RA", "RF"),
}  # fmt: skip


@dataclass(frozen=True)
class Roles:
    """Places of joints in a rig.

    Attributes:
        left_hip: Left hip.
        right_hip: Right hip.
        left_shoulder: Left shoulder.
        right_shoulder: Right shoulder.
        left_foot: Left ankle and toe.
        right_foot: Right ankle and toe.
    """

    left_hip: int
    right_hip: int
    left_shoulder: int
    right_shoulder: int
    left_foot: tuple[int, int]
    right_foot: tuple[int, int]


def body_roles(names: tuple[str, ...], parents: Sequence[int]) -> Roles | None:
    """Return the roles by the joints' names, or None where the names do not tell.

    Args:
        names: Joint names.
        parents: Parent of each joint.
    """
    if (own := _OWN.get(names)) is not None:
        place = [names.index(name) for name in own]
    else:
        found = find_roles(names, parents)
        feet = find_feet(names, parents)
        if feet is None or not all(name in found for name in _NAMES):
            return None
        # A foot without a toe stands for both.
        place = [found[name] for name in _NAMES] + [foot[part % len(foot)] for foot in feet for part in (0, 1)]
    return Roles(place[0], place[1], place[2], place[3], (place[4], place[5]), (place[6], place[7]))


def body_yaw(motion: Motion | JointMotion, positions: Tensor, roles: Roles | None) -> Tensor | None:
    """Return the yaw ``[T]`` in radians, unwrapped: +Z is 0, towards +X it grows; None where nothing tells it.

    The line across hips and shoulders says where a body faces; without it, the root's rotation since the first frame.
    """
    if roles is not None:
        left = positions[:, roles.left_hip] + positions[:, roles.left_shoulder]
        across = left - positions[:, roles.right_hip] - positions[:, roles.right_shoulder]
        up = across.new_tensor([0.0, 1.0, 0.0]).expand_as(across)
        yaw = heading(torch.linalg.cross(across, up, dim=-1))
    elif isinstance(motion, Motion):
        since = motion.rotations[:, 0] @ motion.rotations[0, 0].T
        yaw = heading(since[..., 2])
    else:
        return None
    return unwrap(yaw)


def unwrap(angle: Tensor) -> Tensor:
    """Return angles ``[T]`` in radians without the steps of a whole turn."""
    step = angle.diff()
    whole = ((step + torch.pi) / (2 * torch.pi)).floor() * (2 * torch.pi)
    return angle - torch.nn.functional.pad(whole.cumsum(0), (1, 0))
