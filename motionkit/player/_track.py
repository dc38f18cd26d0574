"""The input of the player and of videos: moving joints with a title, segments, scores, foot contacts and a path."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.motion.motion import JointMotion, Motion
from motionkit.motion.skeleton import HUMANML, KIT
from motionkit.rigs.roles import rig_names

FARTHEST = 10_000.0
"""Farthest position from the origin in metres; beyond it, a unit is wrong."""

FASTEST = 1000.0
"""Highest frame rate of tracks."""


@dataclass(frozen=True)
class PlayerTrack:
    """One moving figure."""

    title: str  # Any text
    positions: Tensor  # ``[T, J, 3]`` metres, Y up, floor at y = 0. Frames with NaN or infinity are shown as gaps.
    parents: tuple[int, ...]  # Parent of each joint, -1 for a root
    fps: float  # Frames per second
    # ``(text, start, end)`` in seconds, such as the actions of a prompt.
    segments: Sequence[tuple[str, float, float]] = ()
    scores: Sequence[float] = ()  # One number per segment, or none
    # ``[T, 2]`` soft foot contacts left, right in [0, 1], or None. They are shown if the feet are not known by joint
    # names; otherwise contacts are measured.
    contacts: Tensor | None = None
    colour: str = ""  # ``#rrggbb`` of its swatch, and of the figure if several are overlaid; empty picks one
    # Joint names, which give left, right and the head; without them the bodies of HumanML3D and KIT are recognised by
    # their parents, and any other is drawn in one colour. KIT's names are corrected for their side (`rig_names`).
    names: tuple[str, ...] = ()
    # ``[T, 2]`` metres x and z that the root should follow, drawn as a dashed line; or None.
    path: Tensor | None = None
    notes: tuple[str, ...] = ()  # Sentences that the page shows above the picture
    radii: tuple[float, ...] = ()  # Metres at each joint, by which bones are drawn; empty: by their lengths

    def __post_init__(self) -> None:
        for problem in (self._shape_problem(), self._value_problem(), self._text_problem()):
            if problem:
                raise MotionkitError(f"track {self.title[:60]!r} cannot be shown: {problem}.")
        if not self.names:
            for skeleton in (HUMANML, KIT):
                if tuple(self.parents) == skeleton.parents:
                    object.__setattr__(self, "names", skeleton.joint_names)
        object.__setattr__(self, "names", rig_names(self.names))

    @property
    def frames(self) -> int:
        """Number of frames T."""
        return len(self.positions)

    @property
    def duration(self) -> float:
        """Seconds; every frame, including the last, is shown for 1 / fps."""
        return self.frames / self.fps

    def shown(self) -> Tensor:
        """Return which frames can be shown, ``[T]`` bool: those with finite positions."""
        return self.positions.isfinite().flatten(1).all(dim=1)

    def _shape_problem(self) -> str:
        shape, joints = tuple(self.positions.shape), len(self.parents)
        if len(shape) != 3 or shape[2] != 3 or 0 in shape:
            return f"positions are {list(shape)}, not [frames, joints, 3]"
        if shape[1] != joints:
            return f"positions have {shape[1]} joints, parents {joints}"
        if any(not -1 <= parent < joints or parent == joint for joint, parent in enumerate(self.parents)):
            return "parents name a joint that is not there"
        if self.names and len(self.names) != joints:
            return f"{len(self.names)} names for {joints} joints"
        if self.radii and len(self.radii) != joints:
            return f"{len(self.radii)} radii for {joints} joints"
        if self.contacts is not None and tuple(self.contacts.shape) != (shape[0], 2):
            return f"contacts are {list(self.contacts.shape)}, not [{shape[0]}, 2]"
        if self.path is not None and tuple(self.path.shape) != (shape[0], 2):
            return f"its path is {list(self.path.shape)}, not [{shape[0]}, 2]"
        return ""

    def _value_problem(self) -> str:
        if not 0 < self.fps <= FASTEST:
            return f"{self.fps} frames per second"
        good = self.shown()
        if not bool(good.any()):
            return "no frame is free of NaN"
        if float(self.positions[good].abs().max()) > FARTHEST:
            return f"joints are farther than {FARTHEST:.0f} m from the origin; is the unit right"
        if not all(0 < radius < math.inf for radius in self.radii):
            return "a radius is not above 0"
        if self.contacts is not None and not bool(self.contacts.isfinite().all()):
            return "contacts are not finite"
        if self.path is not None and not float(self.path.abs().max()) <= FARTHEST:
            return f"its path is not finite, or leads farther than {FARTHEST:.0f} m"
        return ""

    def _text_problem(self) -> str:
        if self.scores and len(self.scores) != len(self.segments):
            return f"{len(self.scores)} scores for {len(self.segments)} segments"
        if not all(math.isfinite(score) for score in self.scores):
            return "scores are not finite"
        if any(not (math.isfinite(end) and 0 <= start <= end) for _, start, end in self.segments):
            return "a segment's seconds are not 0 <= start <= end"
        if self.colour and not re.fullmatch(r"#[0-9a-fA-F]{6}", self.colour):
            return f"colour {self.colour[:20]!r} is not #rrggbb"
        return ""


def track_of(
    motion: Motion | JointMotion,
    title: str,
    *,
    segments: Sequence[tuple[str, float, float]] = (),
    scores: Sequence[float] = (),
    colour: str = "",
    notes: Sequence[str] = (),
) -> PlayerTrack:
    """Return the track of a motion.

    Args:
        motion: The motion.
        title: Any text.
        segments: ``(text, start, end)`` in seconds.
        scores: One number per segment, or none.
        colour: ``#rrggbb``, or empty.
        notes: Sentences that the page shows above the picture.

    Example:
        >>> from motionkit.starter import generate
        >>> walk = generate("walk", frames=40)
        >>> motion = JointMotion(HUMANML.joint_names, HUMANML.parents, torch.from_numpy(walk.joints), walk.fps)
        >>> track = track_of(motion, "walk", segments=[("walk", 0.0, 2.0)])
        >>> track.duration, track.frames
        (2.0, 40)
    """
    contacts = motion.tracks.get("contacts")
    if contacts is not None:
        # The player has lanes for two feet only.
        two = tuple(contacts.shape) == (motion.frames, 2)
        contacts = contacts.nan_to_num(0.0, 0.0, 0.0) if two else None
    path = motion.tracks.get("path")
    if path is not None and (tuple(path.shape) != (motion.frames, 2) or not float(path.abs().max()) <= FARTHEST):
        path = None  # a file may use that name for something else
    return PlayerTrack(
        title=title,
        positions=motion.positions().detach().to(torch.float64),
        parents=tuple(motion.parents),
        fps=motion.fps,
        segments=tuple(segments),
        scores=tuple(scores),
        contacts=contacts,
        colour=colour,
        names=tuple(motion.names),
        path=path,
        notes=tuple(notes),
        radii=tuple(motion.radii),
    )
