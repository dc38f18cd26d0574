"""From moving joints to a moving skeleton: constant bones, rotations that do not flip."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from motionkit.motion._motion import JointMotion, Motion
from motionkit.rigs._flips import count_flips
from motionkit.rigs._kit import rig_names
from motionkit.rigs._rest import RestRig
from motionkit.rigs._solve_bones import closest_pose, fit_rig
from motionkit.rigs._solve_rotations import joint_frames, to_local


@dataclass(frozen=True)
class Solved:
    """Rotations found for moving joints.

    Attributes:
        motion: The skeleton with constant bones; its joints are those of the rig, in its order.
        residual_mean: Mean distance in metres, over frames and joints, between given and solved joints. It is zero
            (1e-6) for joints of a skeleton with constant bones, and else what no skeleton with this rig's bones can
            avoid: each frame is the closest pose in the least-squares sense. Generated motions, whose bones stretch,
            and trunks of capture rigs mapped to other joints have millimetres to centimetres.
        residual_max: The largest such distance.
        flips: How often a joint spins about its bone by half a turn or so although nothing shows it; see
            `count_flips`.
    """

    motion: Motion
    residual_mean: float
    residual_max: float
    flips: int


def solve(motion: JointMotion) -> Solved:
    """Find the skeleton and the rotations behind moving joints.

    Bones are fitted (`fit_rig`); every frame becomes the closest pose that these bones allow; rotations follow from it,
    continuous in time (`joint_frames`). Rotations stored in HumanML3D features are not used: they come from an inverse
    kinematics that restarts at every chain and flips. KIT's joints, whose names are those of the other side, get the
    names of their own (`rig_names`).

    Args:
        motion: Finite joints in metres, Y up; any tree. The 22 joints of HumanML3D and the 21 of KIT get a T-pose to
            start from and end sites; any other skeleton starts from its first frame.

    Raises:
        MotionkitError: Joints that are not one finite tree.

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
    wanted = motion.joints.detach().double().cpu()
    count = len(motion.names)
    # The rig has the motion's joints in their order, then end sites, which have a rest pose and no rotation.
    body = RestRig(rig.names[:count], rig.parents[:count], rig.offsets[:count])
    pose = closest_pose(wanted, body)
    rotations = torch.eye(3, dtype=torch.float64).repeat(motion.frames, rig.joints, 1, 1)
    rotations[:, :count] = to_local(joint_frames(pose, body, motion.fps), body.parents)
    translations = rig.offsets.repeat(motion.frames, 1, 1)
    translations[:, 0] = pose[:, 0]
    names = rig_names(rig.names)
    solved = Motion(names, rig.parents, rig.offsets, rotations, translations, motion.fps, dict(motion.tracks))
    miss = (solved.positions()[:, :count] - wanted).norm(dim=-1)
    return Solved(solved, float(miss.mean()), float(miss.max()), count_flips(solved))
