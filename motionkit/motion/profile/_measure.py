"""What is measured of one clip."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass

import roma
import torch
from torch import Tensor

from motionkit.kernels import physics_sums
from motionkit.motion._clip import Clip
from motionkit.motion._motion import END, JointMotion, Motion
from motionkit.motion.checks import Finding, check_motion, floor_height, longest_clean_run
from motionkit.motion.contacts import soft_contacts
from motionkit.motion.profile._moments import Bins, Circle, Counts, Moments
from motionkit.motion.profile._roles import Roles, body_roles, body_yaw, unwrap

SPEED_BINS = Bins(0.0, 0.05, 200)
"""m/s of the root along the floor."""

YAW_BINS = Bins(-math.pi - math.pi / 24, math.pi / 12, 25)
"""Radians; the first and the last bin are halves of the same direction, straight back."""

ANGLE_BINS = Bins(0.0, 2.0, 90)
"""Degrees of a joint's rotation from the rest pose."""

HEIGHT_BINS = Bins(-0.5, 0.02, 160)
"""Metres of a joint above the floor."""

REACH_BINS = Bins(0.0, 0.02, 100)
"""Metres of a joint from the root along the floor."""

FIGURES_FPS = 20.0
"""Skate and jerk are taken at this rate, so that clips of different rates compare."""

_MOVING = 0.2
_TOUCHING = 0.5


@dataclass(frozen=True)
class Rig:
    """A skeleton of the data set.

    Attributes:
        name: Number of joints and a short hash of names and parents.
        names: Joint names.
        rotations: Whether clips have rotations, not joints alone.
    """

    name: str
    names: tuple[str, ...]
    rotations: bool

    @classmethod
    def of(cls, motion: Motion | JointMotion) -> Rig:
        """Return the rig of a motion; equal names and parents are one rig."""
        text = "\n".join([*motion.names, *map(str, motion.parents)])
        mark = hashlib.sha256(text.encode()).hexdigest()[:6]
        joints = sum(not name.endswith(END) for name in motion.names)
        return cls(f"{joints} joints #{mark}", motion.names, isinstance(motion, Motion))


@dataclass(frozen=True)
class Row:
    """Figures of one clip.

    Attributes:
        clip: Id.
        origin: Where it came from.
        split: ``train``, ``val``, ``test`` or empty.
        group: Clips of one group should be in one split.
        format: Of its file.
        fps: Frames per second.
        frames: Number of frames.
        seconds: Its length.
        speed_mean: Mean speed of the root along the floor, m/s; None with a single frame.
        turned_deg: Degrees turned in all, both ways added up; None when the body's names do not tell its front.
        contact_ratio: Part of the frames of both feet that are contacts; None without known feet.
        skate: Foot skate in m/s, None without known feet.
        jerk: Jerk in m/s^3.
        captions: How many.
        findings: What `check_motion` found.
    """

    clip: str
    origin: str
    split: str
    group: str
    format: str
    fps: float
    frames: int
    seconds: float
    speed_mean: float | None
    turned_deg: float | None
    contact_ratio: float | None
    skate: float | None
    jerk: float | None
    captions: int
    findings: tuple[Finding, ...]


@dataclass(frozen=True)
class Contacts:
    """Frames by what touches the floor; two of them add.

    Attributes:
        frames: Frames looked at.
        left: Of them, with the left foot in contact.
        right: With the right foot.
        both: With both.
        neither: With none.
        from_file: Frames whose contacts the file itself gave; the others were worked out.
    """

    frames: int = 0
    left: int = 0
    right: int = 0
    both: int = 0
    neither: int = 0
    from_file: int = 0

    def __add__(self, other: Contacts) -> Contacts:
        """Return both together."""
        return Contacts(
            self.frames + other.frames,
            self.left + other.left,
            self.right + other.right,
            self.both + other.both,
            self.neither + other.neither,
            self.from_file + other.from_file,
        )

    @property
    def ratio(self) -> float | None:
        """Part of all feet's frames that are contacts."""
        return (self.left + self.right) / (2 * self.frames) if self.frames else None


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
    facing = body_yaw(motion, positions, roles) if len(positions) else None
    yaw, since = _yaw(motion, facing)
    velocity = _velocity(motion, positions)
    speed = _speed(motion, velocity)
    contacts = _contacts(motion, positions, roles)
    # Features have their floor at 0; elsewhere it is where feet stand.
    known = clip.features is not None or not len(positions)
    floor = 0.0 if known else floor_height(positions, motion.fps)
    skate, jerk = _physics(motion, positions, roles, floor)
    angles = _angles(motion)
    bones = [joint for joint, name in enumerate(motion.names) if joint and not name.endswith(END)]
    texts = (*clip.captions, *(caption.text for caption in clip.timed))
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
    )
    heights = (positions[..., 1] - floor).T
    reaches = (positions - positions[:, :1])[..., [0, 2]].norm(dim=-1).T
    return Measure(
        row,
        Rig.of(whole),
        texts,
        Moments.of(torch.rad2deg(yaw.abs())) if yaw is not None else Moments(),
        Circle.of(since) if since is not None else Circle(),
        YAW_BINS.tally(_wrapped(since)) if since is not None else YAW_BINS.zeros(),
        _travel(velocity, facing),
        Moments.of(speed),
        SPEED_BINS.tally(speed),
        Moments.of(angles[bones]) if len(angles) else Moments(),
        ANGLE_BINS.tally(angles),
        HEIGHT_BINS.tally(heights),
        REACH_BINS.tally(reaches),
        contacts,
    )


def _yaw(motion: Motion | JointMotion, facing: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
    """Return the yaw as a file gives it, else since the first frame; and always since the first frame. ``[T]`` each."""
    given = motion.tracks.get("root_yaw")
    if given is not None and given.numel() == motion.frames and motion.frames:
        yaw = unwrap(given.double().flatten())
        return yaw, yaw - yaw[0]
    if facing is None:
        return None, None
    since = facing - facing[0]
    return since, since


def _velocity(motion: Motion | JointMotion, positions: Tensor) -> Tensor:
    """Return the root's velocity along the floor ``[T-1, 2]`` (x, z) in m/s."""
    return (positions[1:, 0] - positions[:-1, 0])[:, [0, 2]] * motion.fps


def _speed(motion: Motion | JointMotion, velocity: Tensor) -> Tensor:
    """Return the speed along the floor: of the file's own root velocity ``[T]``, else of the root's steps ``[T-1]``."""
    given = motion.tracks.get("root_velocity")
    if given is not None and given.shape == (motion.frames, 2):
        velocity = given.double()
    speed: Tensor = velocity.norm(dim=-1)
    return speed


def _travel(velocity: Tensor, facing: Tensor | None) -> Counts:
    """Tally the direction of travel relative to the front, over the steps that move."""
    if facing is None:
        return YAW_BINS.zeros()
    direction = torch.atan2(velocity[:, 0], velocity[:, 1])
    moving = velocity.norm(dim=-1) > _MOVING
    return YAW_BINS.tally(_wrapped((direction - facing[:-1])[moving]))


def _wrapped(angle: Tensor) -> Tensor:
    return torch.atan2(angle.sin(), angle.cos())


def _angles(motion: Motion | JointMotion) -> Tensor:
    """Return degrees from the rest pose ``[J, T]``; ``[0, T]`` without rotations."""
    if not isinstance(motion, Motion):
        return torch.zeros(0, motion.frames, dtype=torch.float64)
    rest = torch.eye(3, dtype=motion.rotations.dtype)
    angle: Tensor = roma.rotmat_geodesic_distance(motion.rotations, rest.expand_as(motion.rotations))
    return torch.rad2deg(angle).T


def _contacts(motion: Motion | JointMotion, positions: Tensor, roles: Roles | None) -> Contacts:
    """Count contacts, of the file's own scores where it has them."""
    given = motion.tracks.get("contacts")
    if given is not None and given.shape == (motion.frames, 2):
        scores, own = given, motion.frames
    elif roles is not None and len(positions) > 1:
        scores, own = soft_contacts(positions, motion.fps, (roles.left_foot, roles.right_foot)), 0
    else:
        return Contacts()
    left, right = (scores > _TOUCHING).unbind(-1)
    return Contacts(
        motion.frames, int(left.sum()), int(right.sum()), int((left & right).sum()), int((~left & ~right).sum()), own
    )


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
