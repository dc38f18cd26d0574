"""What is kept of one clip by name: its skeleton and its figures."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from motionkit.clips.checks import Finding
from motionkit.motion._motion import END, JointMotion, Motion
from motionkit.motion._skeleton import HUMANML, KIT

_KNOWN = {HUMANML.joint_names: "HumanML3D", KIT.joint_names: "KIT"}


@dataclass(frozen=True)
class Rig:
    """A skeleton of the data set.

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
        """Return what people call it: the format whose body it is, else its root, and its number of joints."""
        joints = self.name.partition(" #")[0]
        known = _KNOWN.get(self.names)
        return f"{known}, {joints}" if known else f"{joints} from {self.names[0]}"


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
        jerk: Jerk in m/s³.
        captions: How many.
        findings: What `check_motion` found.
        splits: All splits that list the clip, where that is more than one.
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
    splits: tuple[str, ...] = ()

    @property
    def listed(self) -> tuple[str, ...]:
        """Return every split that lists the clip; none for a clip without one."""
        return self.splits or ((self.split,) if self.split else ())
