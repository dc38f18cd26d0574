"""Measure one clip for a profile: its figures, and its part of the sums over all clips.

First sums that add up over clips (moments, directions, histograms), then the movement of a clip (direction, path,
speed, foot contacts) and its skeleton with the ranges of its joints, and last `measure`, which uses them all.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from motionkit.clips.check import check_motion
from motionkit.clips.faults import Finding, floor_height, longest_clean_run
from motionkit.geometry import angle_between, unwrap
from motionkit.kernels import physics_sums
from motionkit.motion.clip import Clip
from motionkit.motion.motion import END, JointMotion, Motion
from motionkit.motion.skeleton import HUMANML, KIT
from motionkit.rigs import body_yaw, find_feet, soft_contacts
from motionkit.rigs.roles import body_joints, find_roles

Counts = NDArray[np.int64]


class Counters:
    """Base of sums whose fields add."""

    def __add__(self, other: Self) -> Self:
        """Return the sum of both."""
        return type(self)(**{name: value + vars(other)[name] for name, value in vars(self).items()})


@dataclass(frozen=True)
class Moments:
    """Number, sum and sum of squares of values; two of them add."""

    count: int = 0  # Number of values
    total: float = 0.0  # Their sum
    squares: float = 0.0  # The sum of their squares
    least: float = math.inf  # The smallest
    most: float = -math.inf  # The largest

    @classmethod
    def of(cls, values: Tensor) -> Moments:
        """Return the moments of a tensor of any shape."""
        if not values.numel():
            return cls()
        wide = values.double()
        return cls(wide.numel(), float(wide.sum()), float(wide.square().sum()), float(wide.amin()), float(wide.amax()))

    def __add__(self, other: Moments) -> Moments:
        """Return the moments of both sets of values together."""
        return Moments(
            self.count + other.count,
            self.total + other.total,
            self.squares + other.squares,
            min(self.least, other.least),
            max(self.most, other.most),
        )

    @property
    def mean(self) -> float | None:
        """The mean, None without values."""
        return self.total / self.count if self.count else None

    @property
    def std(self) -> float | None:
        """The standard deviation (over the number of values), None without values."""
        if not self.count:
            return None
        return math.sqrt(max(self.squares / self.count - (self.total / self.count) ** 2, 0.0))


@dataclass(frozen=True)
class Circle(Counters):
    """Directions, as the sum of their unit vectors; two of them add."""

    count: int = 0  # Number of directions
    cosines: float = 0.0  # Sum of their cosines
    sines: float = 0.0  # Sum of their sines

    @classmethod
    def of(cls, angles: Tensor) -> Circle:
        """Return the circle of angles in radians."""
        return cls(angles.numel(), float(angles.double().cos().sum()), float(angles.double().sin().sum()))

    @property
    def length(self) -> float | None:
        """Length of the mean vector: 1 if all directions agree, 0 if they cancel."""
        return math.hypot(self.cosines, self.sines) / self.count if self.count else None

    @property
    def mean_deg(self) -> float | None:
        """Circular mean in degrees, None without a direction."""
        return math.degrees(math.atan2(self.sines, self.cosines)) if self.length else None

    @property
    def std_deg(self) -> float | None:
        """Circular standard deviation sqrt(-2 ln R) in degrees (Mardia), None without a direction."""
        return math.degrees(math.sqrt(-2.0 * math.log(min(self.length, 1.0)))) if self.length else None


@dataclass(frozen=True)
class Bins:
    """Equal bins; values beyond the ends count in the first or last one."""

    start: float  # Lower end of the first bin
    width: float  # Width of each
    count: int  # Number of bins

    def tally(self, values: Tensor) -> Counts:
        """Return the numbers of ``[..., N]`` values in each bin, ``[..., count]`` int64."""
        place = ((values - self.start) / self.width).floor().long().clamp(0, self.count - 1)
        counts = torch.zeros(*values.shape[:-1], self.count, dtype=torch.int64)
        # Plain arrays: tensors would be sent between processes by shared memory, one open file each.
        return counts.scatter_add_(-1, place, torch.ones_like(place)).numpy()

    def zeros(self) -> Counts:
        """Return counts of 0."""
        return np.zeros(self.count, dtype=np.int64)

    def quantile(self, counts: Counts, part: float) -> list[float]:
        """Return the `part` quantile of each row of ``[J, count]``, linear within a bin."""
        running = counts.cumsum(-1, dtype=np.float64)
        goal = part * running[:, -1:]
        place = np.minimum((running < goal).sum(-1, keepdims=True), self.count - 1)
        inside = np.maximum(np.take_along_axis(counts, place, -1), 1e-12)
        before = np.take_along_axis(running, place, -1) - inside
        share = np.clip((goal - before) / inside, 0.0, 1.0)
        values: list[float] = (self.start + self.width * (place + share))[:, 0].tolist()
        return values


FootJoints = tuple[tuple[int, int], tuple[int, int]]
"""Left ankle and toe, right ankle and toe; a foot without a toe has its ankle twice."""

SPEED_BINS = Bins(0.0, 0.05, 200)
"""Speed of the root along the floor in m/s."""

YAW_BINS = Bins(-math.pi - math.pi / 24, math.pi / 12, 25)
"""Radians; the first and the last bin are halves of the same direction, straight back."""

MOVING = 0.2
"""Least speed in m/s at which a step has a direction."""

_TOUCHING = 0.5
"""Soft contact above which a foot stands."""


def yaw_of(motion: Motion | JointMotion, facing: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
    """Return the yaw of a clip, and its yaw relative to the first frame.

    Args:
        motion: The clip; its track ``root_yaw`` is used if it has one.
        facing: ``[T]`` radians, unwrapped, from its joints; None if its front is unknown.

    Returns:
        ``[T]`` radians each, None without either.
    """
    stored = motion.tracks.get("root_yaw")
    if stored is not None and stored.numel() == motion.frames and motion.frames:
        yaw = unwrap(stored.double().flatten())
        return yaw, yaw - yaw[0]
    if facing is None:
        return None, None
    since = facing - facing[0]
    return since, since


def velocity_of(motion: Motion | JointMotion, positions: Tensor) -> Tensor:
    """Return the velocity of the body's root along the floor ``[T-1, 2]`` (x, z) in m/s."""
    root = body_joints(motion.names, motion.parents)[0]
    return (positions[1:, root] - positions[:-1, root])[:, [0, 2]] * motion.fps


def speed_of(motion: Motion | JointMotion, velocity: Tensor) -> Tensor:
    """Return the speed along the floor: of the file's root velocity ``[T]``, else of the root's steps ``[T-1]``."""
    stored = motion.tracks.get("root_velocity")
    if stored is not None and stored.shape == (motion.frames, 2):
        velocity = stored.double()
    speed: Tensor = velocity.norm(dim=-1)
    return speed


def tally_facing(since: Tensor | None) -> Counts:
    """Tally a body's direction relative to its first frame, ``[T]`` radians."""
    return YAW_BINS.zeros() if since is None else YAW_BINS.tally(_wrapped(since))


def tally_travel(velocity: Tensor, facing: Tensor | None) -> Counts:
    """Tally the direction of travel relative to the front, over the steps that move.

    Args:
        velocity: ``[T-1, 2]`` m/s.
        facing: ``[T]`` radians, or None.
    """
    if facing is None:
        return YAW_BINS.zeros()
    direction = torch.atan2(velocity[:, 0], velocity[:, 1])
    moving = velocity.norm(dim=-1) > MOVING
    return YAW_BINS.tally(_wrapped((direction - facing[:-1])[moving]))


def _wrapped(angle: Tensor) -> Tensor:
    return torch.atan2(angle.sin(), angle.cos())


def named_feet(names: tuple[str, ...], parents: Sequence[int]) -> FootJoints | None:
    """Return the feet of a body, found by joint names; None if feet, hips or shoulders are not found."""
    feet, roles = find_feet(names, parents), find_roles(names, parents)
    sides = ("left hip", "right hip", "left shoulder", "right shoulder")
    if feet is None or not all(name in roles for name in sides):
        return None
    left, right = feet
    return (left[0], left[-1]), (right[0], right[-1])


@dataclass(frozen=True)
class Contacts(Counters):
    """Frames by the feet that touch the floor; two counts add."""

    frames: int = 0  # Frames counted
    left: int = 0  # Frames with the left foot in contact
    right: int = 0  # Frames with the right foot in contact
    both: int = 0  # Frames with both
    neither: int = 0  # Frames with none
    from_file: int = 0  # Frames with contacts from the file; others are estimated

    @property
    def ratio(self) -> float | None:
        """Part of all feet's frames that are contacts."""
        return (self.left + self.right) / (2 * self.frames) if self.frames else None


def count_contacts(motion: Motion | JointMotion, positions: Tensor, feet: FootJoints | None) -> Contacts:
    """Count a clip's contacts, from the scores of the file if it has them.

    Args:
        motion: The clip, for its frame rate and a track ``contacts [T, 2]``.
        positions: Its joints [T, J, 3], m.
        feet: Its feet, see `named_feet`.
    """
    stored = motion.tracks.get("contacts")
    if stored is not None and stored.shape == (motion.frames, 2):
        scores, from_file = stored, motion.frames
    elif feet is not None and len(positions) > 1:
        scores, from_file = soft_contacts(positions, motion.fps, feet), 0
    else:
        return Contacts()
    left, right = (scores > _TOUCHING).unbind(-1)
    return Contacts(
        motion.frames,
        int(left.sum()),
        int(right.sum()),
        int((left & right).sum()),
        int((~left & ~right).sum()),
        from_file,
    )


_KNOWN = {HUMANML.joint_names: "HumanML3D", KIT.joint_names: "KIT"}

ANGLE_BINS = Bins(0.0, 2.0, 90)
"""Degrees of a joint's rotation from the rest pose."""

HEIGHT_BINS = Bins(-0.5, 0.02, 160)
"""Metres of a joint above the floor."""

REACH_BINS = Bins(0.0, 0.02, 100)
"""Metres of a joint from the root along the floor."""

_QUANTILES = (0.05, 0.5, 0.95)


@dataclass(frozen=True)
class Rig:
    """A skeleton of the dataset."""

    name: str  # Number of joints and a short hash of names and parents
    names: tuple[str, ...]  # Joint names
    rotations: bool  # Whether clips have rotations, not joints alone

    @classmethod
    def of(cls, motion: Motion | JointMotion) -> Rig:
        """Return the rig of a motion; equal names and parents are one rig."""
        text = "\n".join([*motion.names, *map(str, motion.parents)])
        mark = hashlib.sha256(text.encode()).hexdigest()[:6]
        joints = sum(not name.endswith(END) for name in motion.names)
        return cls(f"{joints} joints #{mark}", motion.names, isinstance(motion, Motion))

    @property
    def label(self) -> str:
        """A readable name: its format, else its root, and its number of joints."""
        joints = self.name.partition(" #")[0]
        format_name = _KNOWN.get(self.names)
        return f"{format_name}, {joints}" if format_name else f"{joints} from {self.names[0]}"


@dataclass(frozen=True)
class JointRange:
    """Range of a joint of one rig."""

    joint: str  # Its name
    # 5 %, 50 % and 95 % quantile of its rotation from the rest pose; empty without rotations.
    angle_deg: tuple[float, ...]
    height_m: tuple[float, ...]  # The same of its height above the floor
    reach_m: tuple[float, ...]  # The same of its distance from the root along the floor

    def document(self) -> dict[str, object]:
        """Return it for JSON, degrees to one digit and metres to two."""
        return {
            "joint": self.joint,
            "angle_deg": [round(value, 1) for value in self.angle_deg],
            "height_m": [round(value, 2) for value in self.height_m],
            "reach_m": [round(value, 2) for value in self.reach_m],
        }


@dataclass
class RigSums:
    """Sums over the clips of one skeleton."""

    rig: Rig  # The skeleton
    example: str  # Id of its first clip
    clips: int  # Number of clips
    frames: int  # Their frames
    angles: Counts  # ``[J, 90]`` frames by angle; ``[0, 90]`` while no clip had rotations
    heights: Counts  # ``[J, 160]`` frames by height
    reaches: Counts  # ``[J, 100]`` frames by distance from the root

    def add(self, other: RigSums) -> None:
        """Add more clips of the same skeleton."""
        self.clips += other.clips
        self.frames += other.frames
        # Clips with and without rotations may share names and parents; only the former have angles.
        if other.rig.rotations:
            self.angles = self.angles + other.angles if self.rig.rotations else other.angles
            self.rig = other.rig
        self.heights, self.reaches = self.heights + other.heights, self.reaches + other.reaches

    def ranges(self) -> tuple[JointRange, ...]:
        """Return the ranges of all joints but end sites."""
        tables = []
        for bins, counts in ((ANGLE_BINS, self.angles), (HEIGHT_BINS, self.heights), (REACH_BINS, self.reaches)):
            columns = [bins.quantile(counts, part) for part in _QUANTILES] if len(counts) else []
            tables.append(list(zip(*columns, strict=True)) if columns else [()] * len(self.rig.names))
        return tuple(
            JointRange(name, *(table[place] for table in tables))
            for place, name in enumerate(self.rig.names)
            if not name.endswith(END)
        )

    def document(self) -> dict[str, object]:
        """Return it for JSON."""
        ranges = self.ranges()
        return {
            "name": self.rig.name,
            "label": self.rig.label,
            "example": self.example,
            "joints": len(ranges),
            "clips": self.clips,
            "frames": self.frames,
            "rotations": self.rig.rotations,
            "ranges": [joint.document() for joint in ranges],
        }


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
    turned_deg: float | None  # Total degrees turned, left and right; None if its front is unknown
    contact_ratio: float | None  # Part of the frames of both feet that are contacts; None without known feet
    skate: float | None  # Foot skate in m/s, None without known feet
    jerk: float | None  # Jerk in m/s³
    captions: int  # Number of captions
    findings: tuple[Finding, ...]  # Findings of `check_motion`
    splits: tuple[str, ...] = ()  # All splits that list the clip, if several

    @property
    def listed(self) -> tuple[str, ...]:
        """All splits that list the clip."""
        return self.splits or ((self.split,) if self.split else ())


@dataclass
class Sums:
    """Figures that add up over clips."""

    yaw: Moments = field(default_factory=Moments)  # |yaw| in degrees, unwrapped, over all frames
    facing: Circle = field(default_factory=Circle)  # Directions of bodies, relative to their first frame
    yaw_bins: Counts = field(default_factory=YAW_BINS.zeros)  # ``[25]`` frames by that direction
    # ``[25]`` moving steps by the direction of travel relative to the front.
    travel_bins: Counts = field(default_factory=YAW_BINS.zeros)
    # Speed in m/s: of the file's root velocity, else of the root's steps.
    speed: Moments = field(default_factory=Moments)
    speed_bins: Counts = field(default_factory=SPEED_BINS.zeros)  # Steps by speed
    bone_angle: Moments = field(default_factory=Moments)  # Degrees of local rotations, root and end sites left out
    contacts: Contacts = field(default_factory=Contacts)  # Frames by the feet that touch the floor

    def add_sums(self, other: Sums) -> None:
        """Add the figures of more clips."""
        for entry in fields(Sums):
            setattr(self, entry.name, getattr(self, entry.name) + getattr(other, entry.name))


@dataclass(kw_only=True)
class Measure(Sums):
    """One clip's contribution to a profile."""

    row: ClipRow  # Its figures
    texts: tuple[str, ...]  # Its captions
    joints: RigSums  # Its skeleton with the ranges of joints


def measure(clip: Clip, key: str, origin: str) -> Measure:
    """Measure one clip; frames that are not finite count only in the findings."""
    motion = clip.motion
    positions = motion.positions().double()
    findings = check_motion(motion, positions=positions)
    broken = [finding for finding in findings if finding.kind == "nan"]
    start, stop = longest_clean_run(motion.frames, broken)
    motion, positions = motion.cut(start, stop), positions[start:stop]
    feet = named_feet(motion.names, motion.parents)
    facing = body_yaw(motion, positions) if len(positions) else None
    yaw, since = yaw_of(motion, facing)
    velocity = velocity_of(motion, positions)
    speed = speed_of(motion, velocity)
    contacts = count_contacts(motion, positions, feet)
    # Features have their floor at 0; otherwise it is estimated from standing feet.
    floor = 0.0 if clip.features is not None or not len(positions) else floor_height(positions, motion.fps)
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
        clip.motion.fps,
        clip.motion.frames,
        clip.motion.frames / clip.motion.fps,
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
            Rig.of(clip.motion),
            key,
            1,
            clip.motion.frames,
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
    if not isinstance(motion, Motion):
        return torch.zeros(0, motion.frames, dtype=torch.float64)
    rest = torch.eye(3, dtype=motion.rotations.dtype)
    angle = angle_between(motion.rotations, rest.expand_as(motion.rotations))
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
    joint_feet = tuple(dict.fromkeys((*feet[0], *feet[1]))) if feet is not None else (0,)  # an ankle counts once
    skate, jerk = physics_sums(joints[None], torch.tensor([len(joints)]), fps=FIGURES_FPS, feet=joint_feet)
    return (float(skate) if feet is not None else None), float(jerk)
