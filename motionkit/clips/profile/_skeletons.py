"""The skeletons of a dataset, and where their joints go over all clips."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from motionkit.clips.profile._moments import Bins, Counts
from motionkit.motion._motion import END, JointMotion, Motion
from motionkit.motion._skeleton import HUMANML, KIT

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
    """A skeleton of the dataset.

    Attributes:
        name: Number of joints and a short hash of names and parents; tells skeletons apart.
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

    @property
    def label(self) -> str:
        """Return a readable name: the format whose body it is, else its root, and its number of joints."""
        joints = self.name.partition(" #")[0]
        known = _KNOWN.get(self.names)
        return f"{known}, {joints}" if known else f"{joints} from {self.names[0]}"


@dataclass(frozen=True)
class JointRange:
    """Where a joint of one rig goes.

    Attributes:
        joint: Its name.
        angle_deg: 5 %, 50 % and 95 % quantile of its rotation from the rest pose; empty without rotations.
        height_m: The same of its height above the floor.
        reach_m: The same of its distance from the root along the floor.
    """

    joint: str
    angle_deg: tuple[float, ...]
    height_m: tuple[float, ...]
    reach_m: tuple[float, ...]

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
    """Sums over the clips of one skeleton.

    Attributes:
        rig: The skeleton.
        example: Id of its first clip, shown beside its name.
        clips: Number of clips.
        frames: Their frames.
        angles: ``[J, 90]`` frames by angle; ``[0, 90]`` while no clip had rotations.
        heights: ``[J, 160]`` frames by height.
        reaches: ``[J, 100]`` frames by distance from the root.
    """

    rig: Rig
    example: str
    clips: int
    frames: int
    angles: Counts
    heights: Counts
    reaches: Counts

    def add(self, other: RigSums) -> None:
        """Take in more clips of the same skeleton."""
        self.clips += other.clips
        self.frames += other.frames
        # Joints alone and rotations may share names and parents; angles are of the latter only.
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
