"""From moving joints to a moving skeleton: constant bones, and rotations that do not flip (`count_flips`)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from motionkit.geometry import accumulate_rotations, matrix_to_quaternion, rotation_between
from motionkit.motion.motion import JointMotion, Motion
from motionkit.rigs._solve_bones import SHORT, closest_pose, fit_rig
from motionkit.rigs._solve_rotations import joint_frames, to_local
from motionkit.rigs.rest import RestRig
from motionkit.rigs.roles import rig_names

FLIP = math.radians(120.0)
"""A spin above this within `WITHIN` that no neighbour shows is a flip (half a turn). In 228 captured clips the largest
is 80 degrees as 22 or 21 bare joints and 101 as joints of their own rigs; hands and arms followed by markers, on these
rigs, exceed 108 in one clip of 20."""

WITHIN = 0.25
"""Seconds of the window, so that a flip that is spread over some frames is found as well."""

_SEEN = math.sin(math.radians(20.0))
"""Sine of the angle between two bones above which the second shows how the first turns about itself."""


@dataclass(frozen=True)
class Solved:
    """Rotations found for moving joints."""

    motion: Motion  # The skeleton with constant bones; its joints are those of the rig, in its order
    # Mean distance in metres, over frames and joints, between given and solved joints. It is zero (1e-6) for joints of
    # a skeleton with constant bones; otherwise it is the least-squares minimum for this rig's bones. Generated motions,
    # whose bones stretch, and trunks of capture rigs mapped to other joints have millimetres to centimetres.
    residual_mean: float
    residual_max: float  # The largest such distance
    worst: str = ""  # Joint and frame of the largest distance, in words

    @cached_property
    def flips(self) -> int:
        """Number of unseen spins, see `count_flips`; counted where it is asked for."""
        return count_flips(self.motion)


def solve(motion: JointMotion) -> Solved:
    """Find the skeleton and the rotations behind moving joints.

    Bones are fitted (`fit_rig`); every frame becomes the closest pose that these bones allow; rotations follow from it,
    continuous in time (`joint_frames`). Rotations stored in HumanML3D features are not used: they come from an inverse
    kinematics that restarts at every chain and flips. KIT's joints, which are named after the other side, get the names
    of their side (`rig_names`).

    Args:
        motion: Finite joints in metres, Y up; any tree. The 22 joints of HumanML3D and the 21 of KIT get a T-pose as
            rest pose and end sites; the rest pose of any other skeleton is its first frame.

    Example:
        >>> from motionkit.motion import HUMANML
        >>> from motionkit.starter import generate
        >>> walk = generate("walk", frames=40)
        >>> motion = JointMotion(HUMANML.joint_names, HUMANML.parents, torch.from_numpy(walk.joints), walk.fps)
        >>> solved = solve(motion)
        >>> solved.residual_max < 1e-3, solved.flips
        (True, 0)
    """
    rig = fit_rig(motion)
    joints = motion.joints.detach().double().cpu()
    count = len(motion.names)
    # The rig has the motion's joints in their order, then end sites, which have a rest pose and no rotation.
    body = RestRig(rig.names[:count], rig.parents[:count], rig.offsets[:count])
    pose = closest_pose(joints, body)
    rotations = torch.eye(3, dtype=torch.float64).repeat(motion.frames, rig.joints, 1, 1)
    rotations[:, :count] = to_local(joint_frames(pose, body, motion.fps), body.parents)
    translations = rig.offsets.repeat(motion.frames, 1, 1)
    translations[:, 0] = pose[:, 0]
    names = rig_names(rig.names)
    solved = Motion(names, rig.parents, rig.offsets, rotations, translations, motion.fps, dict(motion.tracks))
    miss = (solved.positions()[:, :count] - joints).norm(dim=-1)
    frame, joint = divmod(int(miss.argmax()), count)
    worst = f"{names[joint]} in frame {frame}"
    return Solved(solved, float(miss.mean()), float(miss.max()), worst)


def count_flips(motion: Motion) -> int:
    """Count how often a joint spins unseen about its bone by more than 120 degrees in a quarter of a second.

    The spin is a joint's turn in the world without its bone's movement (parallel transport). It may be shown by
    sibling bones that turn round it, by the bones of the next joint if that is bent by 20 degrees, or by the joint
    above. A window's spin between 0 and what one of these shows is explained; the rest is unseen. Windows that overlap
    are one flip.
    """
    if motion.frames < 2:
        return 0
    world = accumulate_rotations(motion.rotations, motion.parents)
    index = [max(parent, 0) for parent in motion.parents]
    bones = (world[:, index] @ motion.translations[..., None])[..., 0]
    children = [
        [
            child
            for child, parent in enumerate(motion.parents)
            if parent == joint and float(motion.offsets[child].norm()) > SHORT
        ]
        for joint in range(len(motion.names))
    ]
    width = max(1, int(WITHIN * motion.fps + 0.5))
    return sum(
        _events(_unseen(motion, world, bones, children, joint, width), width)
        for joint in range(len(motion.names))
        if children[joint]
    )


def _unseen(
    motion: Motion, world: Tensor, bones: Tensor, children: Sequence[Sequence[int]], joint: int, width: int
) -> Tensor:
    """Return the size in radians of a joint's unseen spin within each window of frames."""
    main = max(children[joint], key=lambda child: float(motion.offsets[child].norm()))
    axis = torch.nn.functional.normalize(bones[:, main], dim=-1)
    # Turn from frame to frame without the bone's movement: its angle about the bone is the spin, [T - 1].
    carried = rotation_between(axis[:-1], axis[1:])
    spin = _windows(_turn_about(carried.mT @ world[1:, joint] @ world[:-1, joint].mT, axis[:-1]), width)
    low, high = torch.zeros_like(spin), torch.zeros_like(spin)
    shown = [_shown(bones[:, bone], axis, carried) for bone in (*children[joint], *children[main]) if bone != main]
    if (parent := motion.parents[joint]) >= 0:
        shown.append(_turn_about(carried.mT @ world[1:, parent] @ world[:-1, parent].mT, axis[:-1]))
    for turn in shown:
        total = _windows(turn, width)
        low, high = torch.minimum(low, total), torch.maximum(high, total)
    # Spins between the least and the greatest shown turn (including 0) are explained.
    return torch.maximum(spin - high, low - spin).clamp_min(0.0)


def _turn_about(rotations: Tensor, axis: Tensor) -> Tensor:
    """Return the part of rotations ``[T, 3, 3]`` that is about an axis ``[T, 3]``, in (-pi, pi]."""
    quaternion = matrix_to_quaternion(rotations)
    angle = 2.0 * torch.atan2((quaternion[:, 1:] * axis).sum(dim=-1), quaternion[:, 0])
    return torch.remainder(angle + math.pi, 2.0 * math.pi) - math.pi


def _shown(bone: Tensor, axis: Tensor, carried: Tensor) -> Tensor:
    """Return by how much a bone ``[T, 3]`` turns round an axis from frame to frame, 0 if it lies along it."""
    unit = torch.nn.functional.normalize(bone, dim=-1)
    across = unit - (unit * axis).sum(dim=-1, keepdim=True) * axis
    seen = across.norm(dim=-1) > _SEEN
    before, after = across[:-1], (carried.mT @ across[1:, :, None])[..., 0]
    angle = torch.atan2(
        (torch.linalg.cross(before, after, dim=-1) * axis[:-1]).sum(dim=-1), (before * after).sum(dim=-1)
    )
    return torch.where(seen[:-1] & seen[1:], angle, torch.zeros_like(angle))


def _windows(steps: Tensor, width: int) -> Tensor:
    """Return moving sums over `width` steps, over all of them if there are fewer."""
    total = torch.cat([steps.new_zeros(1), steps.cumsum(dim=0)])
    width = min(width, len(steps))
    return total[width:] - total[:-width]


def _events(unseen: Tensor, width: int) -> int:
    """Count flips: windows beyond `FLIP` that lie apart."""
    count, free = 0, 0
    for start in (unseen > FLIP).nonzero().flatten().tolist():
        count += start >= free
        free = start + width
    return count
