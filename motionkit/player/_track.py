"""What the player and the video writer show: moving joints with titles, segments and foot contacts."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.motion import feature_layout
from motionkit.motion._motion import JointMotion, Motion
from motionkit.motion._skeleton import HUMANML, KIT
from motionkit.motion.frames import nearest_finite
from motionkit.rigs import find_feet, soft_contacts
from motionkit.rigs._kit import rig_names


def shown_contacts(motion: Motion | JointMotion, features: Tensor | None = None) -> tuple[Tensor | None, bool]:
    """Return contacts ``[T, 2]`` left, right in [0, 1], and whether they are made here.

    A track ``contacts`` of the motion comes first, then the contacts of its features, unless no foot ever stands in
    them (in public KIT clips it nearly never does). Else they are made from height and speed (`soft_contacts`) where
    feet are known by the joints' names; other bodies have none.

    Args:
        motion: What moves; frames that are not finite have no contacts of their own.
        features: ``[T, 263]`` or ``[T, 251]`` of the same frames, not normalised.
    """
    own = motion.tracks.get("contacts")
    if own is not None and tuple(own.shape) == (motion.frames, 2):  # more feet than two have no lanes
        return own if bool(own.isfinite().all()) else own.nan_to_num(0.0, 0.0, 0.0), False
    if features is not None and len(features) == motion.frames:
        read = _of_features(features)
        if read is not None:
            return read, False
    feet = find_feet(rig_names(motion.names), motion.parents)
    positions = motion.positions().detach().double().cpu()
    finite = positions.isfinite().flatten(1).all(dim=1)
    if feet is None or not bool(finite.any()):
        return None, False
    return soft_contacts(positions[nearest_finite(finite)], motion.fps, feet), True


def _of_features(features: Tensor) -> Tensor | None:
    """Return the better of heel and toe for each foot, ``[T, 2]``, or None when no foot ever stands."""
    skeleton = {body.width: body for body in (HUMANML, KIT)}.get(features.shape[-1])
    if skeleton is None:
        return None
    values = features[:, feature_layout(skeleton).contacts].detach().double().cpu()
    contacts = values.nan_to_num(0.0).clamp(0.0, 1.0).unflatten(-1, (2, 2)).amax(dim=-1)
    return contacts if bool((contacts > 0.5).any()) else None


FARTHEST = 10_000.0
"""Metres from the origin up to which positions are taken; beyond, a unit is wrong."""

FASTEST = 1000.0
"""Frames per second up to which tracks are taken."""


@dataclass(frozen=True)
class PlayerTrack:
    """One moving figure.

    Attributes:
        title: What it is called; any text.
        positions: ``[T, J, 3]`` metres, Y up, floor at y = 0. Frames with NaN or infinity are shown as gaps.
        parents: Parent of each joint, -1 for a root.
        fps: Frames per second.
        segments: ``(text, start, end)`` in seconds, such as the actions of a prompt.
        scores: One number per segment, or none.
        contacts: ``[T, 2]`` soft foot contacts left, right in [0, 1], or None.
        contacts_made: They are motionkit's, from heights and speeds; the page shows a note.
        path: ``[T, 2]`` metres x and z that the root was asked to be at, drawn as a dashed line; or None.
        colour: ``#rrggbb`` of its swatch, and of the figure where several are overlaid; empty picks one.
        names: Joint names, from which left, right and the head are known; without them the bodies of HumanML3D and
            KIT are recognised by their parents, and any other is drawn in one colour. KIT's become those of the side
            that they are on (`rig_names`).

    Raises:
        MotionkitError: Shapes do not fit each other, or a number is out of range; the message names the track.
    """

    title: str
    positions: Tensor
    parents: tuple[int, ...]
    fps: float
    segments: Sequence[tuple[str, float, float]] = ()
    scores: Sequence[float] = ()
    contacts: Tensor | None = None
    colour: str = ""
    names: tuple[str, ...] = ()
    contacts_made: bool = False
    path: Tensor | None = None

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
        """Seconds: every frame, the last too, is shown for 1 / fps."""
        return self.frames / self.fps

    def shown(self) -> Tensor:
        """Return which frames can be shown, ``[T]`` bool: all their numbers are finite."""
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
    features: Tensor | None = None,
) -> PlayerTrack:
    """Return the track of a motion with foot contacts: its own, else those of its features, else ours.

    Args:
        motion: What moves.
        title: What it is called.
        segments: ``(text, start, end)`` in seconds.
        scores: One number per segment, or none.
        colour: ``#rrggbb``, or empty.
        features: HumanML3D or KIT features of the same frames, ``[T, D]``, for their contacts; see `shown_contacts`.

    Raises:
        MotionkitError: As `PlayerTrack`.

    Example:
        >>> from motionkit.starter import generate
        >>> walk = generate("walk", frames=40)
        >>> motion = JointMotion(HUMANML.joint_names, HUMANML.parents, torch.from_numpy(walk.joints), walk.fps)
        >>> track = track_of(motion, "walk", segments=[("walk", 0.0, 2.0)])
        >>> track.duration, track.contacts_made
        (2.0, True)
    """
    contacts, made = shown_contacts(motion, features)
    path = motion.tracks.get("path")
    if path is not None and (tuple(path.shape) != (motion.frames, 2) or not float(path.abs().max()) <= FARTHEST):
        path = None  # a file's track of that name is something else
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
        contacts_made=made,
        path=path,
    )
