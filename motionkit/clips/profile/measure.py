"""Measure one clip: its figures, and its part of the sums over all clips."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields

import torch
from torch import Tensor

from motionkit.clips.checks.check import check_motion
from motionkit.clips.checks.faults import floor_height
from motionkit.clips.checks.finding import Finding, longest_clean_run
from motionkit.clips.profile.sums import (
    ANGLE_BINS,
    HEIGHT_BINS,
    REACH_BINS,
    SPEED_BINS,
    YAW_BINS,
    Circle,
    Contacts,
    Counts,
    FootJoints,
    Moments,
    Rig,
    RigSums,
    count_contacts,
    named_feet,
    speed_of,
    tally_facing,
    tally_travel,
    velocity_of,
    yaw_of,
)
from motionkit.kernels import physics_sums
from motionkit.motion.clip import Clip
from motionkit.motion.motion import END, JointMotion, Motion
from motionkit.rigs import body_yaw

FIGURES_FPS = 20.0
"""Frames per second at which skate and jerk are measured, so that clips of different rates compare."""


@dataclass(frozen=True)
class ClipRow:
    """Figures of one clip."""

    clip: str  # Id
    origin: str  # Where it came from
    split: str  # ``train``, ``val``, ``test`` or empty
    group: str  # Clips of one group should be in one split
    format: str  # Of its file
    fps: float  # Frames per second
    frames: int  # Number of frames
    seconds: float  # Its length
    speed_mean: float | None  # Mean speed of the root along the floor in m/s; None for a single frame
    turned_deg: float | None  # Degrees turned in all, both ways added up; None if its front is unknown
    contact_ratio: float | None  # Part of the frames of both feet that are contacts; None without known feet
    skate: float | None  # Foot skate in m/s, None without known feet
    jerk: float | None  # Jerk in m/s³
    captions: int  # Number of captions
    findings: tuple[Finding, ...]  # Findings of `check_motion`
    splits: tuple[str, ...] = ()  # All splits that list the clip, where that is more than one

    @property
    def listed(self) -> tuple[str, ...]:
        """Return every split that lists the clip; none for a clip without one."""
        return self.splits or ((self.split,) if self.split else ())


@dataclass
class Sums:
    """Figures that add up over clips."""

    yaw: Moments = field(default_factory=Moments)  # |yaw| in degrees, unwrapped, over all frames
    facing: Circle = field(default_factory=Circle)  # Where bodies face, relative to their first frame
    yaw_bins: Counts = field(default_factory=YAW_BINS.zeros)  # ``[25]`` frames by that direction
    # ``[25]`` moving steps by the direction of travel relative to the front.
    travel_bins: Counts = field(default_factory=YAW_BINS.zeros)
    # Speed in m/s: the file's own root velocity, else over the root's steps.
    speed: Moments = field(default_factory=Moments)
    speed_bins: Counts = field(default_factory=SPEED_BINS.zeros)  # Steps by speed
    bone_angle: Moments = field(default_factory=Moments)  # Degrees of local rotations, root and end sites left out
    contacts: Contacts = field(default_factory=Contacts)  # Frames by the feet that touch the floor

    def add_sums(self, other: Sums) -> None:
        """Take in the figures of more clips."""
        for one in fields(Sums):
            setattr(self, one.name, getattr(self, one.name) + getattr(other, one.name))


@dataclass(kw_only=True)
class Measure(Sums):
    """One clip's contribution to a profile."""

    row: ClipRow  # Its figures
    texts: tuple[str, ...]  # Its captions
    joints: RigSums  # Its skeleton and where its joints go


def measure(clip: Clip, key: str, origin: str) -> Measure:
    """Measure one clip; frames that are not finite count in the findings and nowhere else."""
    whole = clip.motion
    positions = whole.positions().double()
    findings = check_motion(whole, positions=positions)
    broken = [finding for finding in findings if finding.kind == "nan"]
    start, stop = longest_clean_run(whole.frames, broken)
    motion, positions = whole.cut(start, stop), positions[start:stop]
    feet = named_feet(motion.names, motion.parents)
    facing = body_yaw(motion, positions) if len(positions) else None
    yaw, since = yaw_of(motion, facing)
    velocity = velocity_of(motion, positions)
    speed = speed_of(motion, velocity)
    contacts = count_contacts(motion, positions, feet)
    # Features have their floor at 0; elsewhere it is where feet stand.
    known = clip.features is not None or not len(positions)
    floor = 0.0 if known else floor_height(positions, motion.fps)
    skate, jerk = _physics(motion, positions, feet, floor)
    angles = _angles(motion)
    bones = [joint for joint, name in enumerate(motion.names) if joint and not name.endswith(END)]
    texts = clip.texts
    row = ClipRow(
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
        row=row,
        texts=texts,
        joints=RigSums(
            Rig.of(whole),
            key,
            1,
            whole.frames,
            ANGLE_BINS.tally(angles),
            HEIGHT_BINS.tally(heights),
            REACH_BINS.tally(reaches),
        ),
        yaw=Moments.of(torch.rad2deg(yaw.abs())) if yaw is not None else Moments(),
        facing=Circle.of(since) if since is not None else Circle(),
        yaw_bins=tally_facing(since),
        travel_bins=tally_travel(velocity, facing),
        speed=Moments.of(speed),
        speed_bins=SPEED_BINS.tally(speed),
        bone_angle=Moments.of(angles[bones]) if len(angles) else Moments(),
        contacts=contacts,
    )


def _angles(motion: Motion | JointMotion) -> Tensor:
    """Return degrees from the rest pose ``[J, T]``; ``[0, T]`` without rotations."""
    import roma

    if not isinstance(motion, Motion):
        return torch.zeros(0, motion.frames, dtype=torch.float64)
    rest = torch.eye(3, dtype=motion.rotations.dtype)
    angle: Tensor = roma.rotmat_geodesic_distance(motion.rotations, rest.expand_as(motion.rotations))
    return torch.rad2deg(angle).T


def _physics(
    motion: Motion | JointMotion, positions: Tensor, feet: FootJoints | None, floor: float
) -> tuple[float | None, float | None]:
    """Return foot skate (None without known feet) and jerk at `FIGURES_FPS`, the floor taken as estimated."""
    if len(positions) < 2 or motion.fps <= 0:
        return None, None
    joints = JointMotion(motion.names, motion.parents, positions, motion.fps).resample(FIGURES_FPS).joints
    joints = joints - joints.new_tensor([0.0, floor, 0.0])
    if len(joints) < 4:
        return None, None
    joint_feet = (*feet[0], *feet[1]) if feet is not None else (0,)
    skate, jerk = physics_sums(joints[None], torch.tensor([len(joints)]), fps=FIGURES_FPS, feet=joint_feet)
    return (float(skate) if feet is not None else None), float(jerk)
