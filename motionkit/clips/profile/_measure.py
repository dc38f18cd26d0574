"""What is measured of one clip."""

from __future__ import annotations

import math
from dataclasses import dataclass

import roma
import torch
from torch import Tensor

from motionkit.clips.checks import check_motion, floor_height, longest_clean_run
from motionkit.clips.profile._contact_count import Contacts, count_contacts
from motionkit.clips.profile._course import SPEED_BINS, speed_of, tally_facing, tally_travel, velocity_of, yaw_of
from motionkit.clips.profile._moments import Circle, Counts, Moments
from motionkit.clips.profile._ranges import ANGLE_BINS, HEIGHT_BINS, REACH_BINS
from motionkit.clips.profile._roles import Roles, body_roles
from motionkit.clips.profile._row import Rig, Row
from motionkit.kernels import physics_sums
from motionkit.motion._clip import Clip
from motionkit.motion._motion import END, JointMotion, Motion
from motionkit.rigs import body_yaw

FIGURES_FPS = 20.0
"""Skate and jerk are taken at this rate, so that clips of different rates compare."""


@dataclass(frozen=True)
class Measure:
    """One clip's contribution to a profile.

    Attributes:
        row: Its figures.
        rig: Its skeleton.
        texts: Its captions.
        yaw: |yaw| in degrees, unwrapped, over its frames.
        facing: Where it faces, relative to its first frame.
        yaw_bins: ``[25]`` frames by that direction.
        travel_bins: ``[25]`` frames by the direction of travel relative to the front, where it moves.
        speed: Speed in m/s: the file's own root velocity, else over the root's steps.
        speed_bins: Steps by speed.
        bone_angle: Degrees of local rotations, root and end sites left out.
        angles: ``[J, 90]`` frames by angle, per joint; empty without rotations.
        heights: ``[J, 160]`` frames by height above the floor.
        reaches: ``[J, 100]`` frames by distance from the root.
        contacts: Contacts of its feet.
    """

    row: Row
    rig: Rig
    texts: tuple[str, ...]
    yaw: Moments
    facing: Circle
    yaw_bins: Counts
    travel_bins: Counts
    speed: Moments
    speed_bins: Counts
    bone_angle: Moments
    angles: Counts
    heights: Counts
    reaches: Counts
    contacts: Contacts


def measure(clip: Clip, key: str, origin: str) -> Measure:
    """Measure one clip; of frames that are not finite nothing is taken but the finding.

    Args:
        clip: The clip.
        key: Its id.
        origin: Where it came from.
    """
    whole = clip.motion
    positions = whole.positions().double()
    findings = check_motion(whole, positions=positions)
    broken = [finding for finding in findings if finding.kind == "nan"]
    start, stop = longest_clean_run(whole.frames, broken)
    motion, positions = whole.cut(start, stop), positions[start:stop]
    roles = body_roles(motion.names, motion.parents)
    facing = body_yaw(motion, positions) if len(positions) else None
    yaw, since = yaw_of(motion, facing)
    velocity = velocity_of(motion, positions)
    speed = speed_of(motion, velocity)
    contacts = count_contacts(motion, positions, roles)
    # Features have their floor at 0; elsewhere it is where feet stand.
    known = clip.features is not None or not len(positions)
    floor = 0.0 if known else floor_height(positions, motion.fps)
    skate, jerk = _physics(motion, positions, roles, floor)
    angles = _angles(motion)
    bones = [joint for joint, name in enumerate(motion.names) if joint and not name.endswith(END)]
    texts = clip.texts
    row = Row(
        key,
        origin,
        clip.split,
        clip.group,
        clip.notes.get("format", ""),
        whole.fps,
        whole.frames,
        whole.frames / whole.fps,
        float(speed.mean()) if len(speed) else None,
        math.degrees(float(since.diff().abs().sum())) if since is not None else None,
        contacts.ratio,
        skate,
        jerk,
        len(texts),
        findings,
        clip.splits,
    )
    heights = (positions[..., 1] - floor).T
    reaches = (positions - positions[:, :1])[..., [0, 2]].norm(dim=-1).T
    return Measure(
        row,
        Rig.of(whole),
        texts,
        Moments.of(torch.rad2deg(yaw.abs())) if yaw is not None else Moments(),
        Circle.of(since) if since is not None else Circle(),
        tally_facing(since),
        tally_travel(velocity, facing),
        Moments.of(speed),
        SPEED_BINS.tally(speed),
        Moments.of(angles[bones]) if len(angles) else Moments(),
        ANGLE_BINS.tally(angles),
        HEIGHT_BINS.tally(heights),
        REACH_BINS.tally(reaches),
        contacts,
    )


def _angles(motion: Motion | JointMotion) -> Tensor:
    """Return degrees from the rest pose ``[J, T]``; ``[0, T]`` without rotations."""
    if not isinstance(motion, Motion):
        return torch.zeros(0, motion.frames, dtype=torch.float64)
    rest = torch.eye(3, dtype=motion.rotations.dtype)
    angle: Tensor = roma.rotmat_geodesic_distance(motion.rotations, rest.expand_as(motion.rotations))
    return torch.rad2deg(angle).T


def _physics(
    motion: Motion | JointMotion, positions: Tensor, roles: Roles | None, floor: float
) -> tuple[float | None, float | None]:
    """Return foot skate (None without known feet) and jerk at `FIGURES_FPS`, the floor taken as estimated."""
    if len(positions) < 2 or motion.fps <= 0:
        return None, None
    joints = JointMotion(motion.names, motion.parents, positions, motion.fps).resample(FIGURES_FPS).joints
    joints = joints - joints.new_tensor([0.0, floor, 0.0])
    if len(joints) < 4:
        return None, None
    feet = (*roles.left_foot, *roles.right_foot) if roles is not None else (0,)
    skate, jerk = physics_sums(joints[None], torch.tensor([len(joints)]), fps=FIGURES_FPS, feet=feet)
    return (float(skate) if roles is not None else None), float(jerk)
