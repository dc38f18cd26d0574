"""Clips as states for the motion predictor, and a set of them with one skeleton."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from motionkit.clips._bodies import skeleton_mark
from motionkit.datasets.base import Split
from motionkit.errors import MotionkitError
from motionkit.geometry import rotate_yaw, yaw_matrix
from motionkit.motion import Clip, Motion
from motionkit.motion._motion import END
from motionkit.motion.corpus._ids import complete_splits
from motionkit.motion.prediction import MotionState
from motionkit.rigs import body_yaw, find_feet, soft_contacts

_UNKNOWN = 0.5


@dataclass(frozen=True)
class StateClip:
    """One clip.

    Attributes:
        key: Its id.
        state: ``[T, ...]`` float64.
        offsets: ``[J, 3]`` metres from the parent joint.
        split: ``train``, ``val`` or ``test``.
        contacts_known: Whether its foot contacts are real; they are 0.5 otherwise.
    """

    key: str
    state: MotionState
    offsets: Tensor
    split: str
    contacts_known: bool


@dataclass(frozen=True)
class ClipSet:
    """Clips of one skeleton at one rate.

    Attributes:
        name: What a person calls it.
        names: Joint names, without end sites.
        parents: Parent of each joint, -1 for the root.
        fps: Frames per second.
        clips: The clips.
        notes: What a person should know, a sentence each.
    """

    name: str
    names: tuple[str, ...]
    parents: tuple[int, ...]
    fps: float
    clips: tuple[StateClip, ...]
    notes: tuple[str, ...] = ()

    def split(self, split: Split) -> tuple[StateClip, ...]:
        """Return the clips of a split.

        Raises:
            MotionkitError: It has none.
        """
        if found := tuple(clip for clip in self.clips if clip.split == split):
            return found
        counts = Counter(clip.split for clip in self.clips)
        held = ", ".join(f"{name} {count}" for name, count in counts.items())
        raise MotionkitError(f"{self.name} has no {split} clip.", why=f"clips per split: {held}.")


def motion_state(motion: Motion) -> tuple[MotionState, bool]:
    """Return the state of a motion, ``[T, ...]``, of its joints without end sites.

    The heading is where hips and shoulders face (`motionkit.rigs.body_yaw`). The step to the first frame, which is not
    known, is that to the second. Contacts are the motion's own track, else made from height and speed of its feet.

    Returns:
        The state, and whether its contacts are known.
    """
    joints = _joints(motion)
    positions = motion.positions()
    yaw = body_yaw(motion, positions)
    assert yaw is not None, "a motion with rotations has a heading"
    rotations = motion.rotations[:, joints].clone()
    rotations[:, 0] = yaw_matrix(-yaw) @ rotations[:, 0]
    moved = rotate_yaw(positions[:, 0].diff(dim=0), -yaw[:-1])
    steps = torch.cat([moved[:, ::2], yaw.diff()[:, None]], dim=-1)
    steps = torch.cat([steps[:1] if len(steps) else steps.new_zeros(1, 3), steps])
    contacts = motion.tracks.get("contacts")
    if contacts is None and (feet := find_feet(motion.names, motion.parents)) is not None:
        contacts = soft_contacts(positions, motion.fps, feet)
    known = contacts is not None
    if contacts is None:
        contacts = steps.new_full((len(steps), 2), _UNKNOWN)
    return MotionState(rotations, steps, positions[:, 0, 1], contacts.double()), known


def clip_set(name: str, clips: Iterable[tuple[str, Clip]], fps: float, *, notes: Iterable[str] = ()) -> ClipSet:
    """Make a set of clips, at one rate.

    Args:
        name: What a person calls it.
        clips: Ids and clips; each with rotations. Clips without a split get that of their group, or one by a hash of
            it, as `convert` gives them.
        fps: Frames per second to bring them to.
        notes: What is known already.

    Raises:
        MotionkitError: There is no clip, one has no rotations or values that are not finite, or their skeletons
            differ in names or parents of joints or in the directions of bones.
    """
    found: list[StateClip] = []
    pairs = list(clips)
    groups = {key: clip.group or key for key, clip in pairs}
    given = {key: clip.split for key, clip in pairs}
    splits = complete_splits(given, groups)
    skeletons: dict[str, list[str]] = {}
    first: Motion | None = None
    for key, clip in pairs:
        motion = _with_rotations(key, clip)
        skeletons.setdefault(skeleton_mark(motion.names, motion.parents), []).append(key)
        if len(skeletons) == 1:
            first = motion if first is None else first
            motion = motion.resample(fps)
            state, known = motion_state(motion)
            found.append(StateClip(key, state, motion.offsets[_joints(motion)], splits[key], known))
    if first is None:
        raise MotionkitError(f"{name} has no clip.")
    _refuse_mixed(name, skeletons)
    said = [*notes]
    if unknown := sum(not clip.contacts_known for clip in found):
        said.append(
            f"{unknown} of {len(found)} clips have no foot contacts: they do not count for figures of the feet."
        )
    if not any(given.values()):
        said.append("no clip says its split: they were drawn by the clips' ids.")
    joints = _joints(first)
    place = {joint: index for index, joint in enumerate(joints)}
    parents = tuple(place.get(first.parents[joint], -1) for joint in joints)
    return ClipSet(name, tuple(first.names[j] for j in joints), parents, fps, tuple(found), tuple(said))


def _joints(motion: Motion) -> list[int]:
    return [joint for joint, name in enumerate(motion.names) if joint == 0 or not name.endswith(END)]


def _with_rotations(key: str, clip: Clip) -> Motion:
    motion = clip.motion
    if not isinstance(motion, Motion):
        raise MotionkitError(
            f"{key} has joint positions only.",
            why="a motion predictor predicts rotations.",
            fix="motionkit convert FILES OUT --to mpl finds rotations; give OUT.",
        )
    if not motion.frames or not bool(motion.rotations.isfinite().all() and motion.translations.isfinite().all()):
        raise MotionkitError(
            f"{key} has no frames, or values that are not finite.", fix="motionkit convert --fix repairs or drops them."
        )
    return motion


def _refuse_mixed(name: str, skeletons: dict[str, list[str]]) -> None:
    if len(skeletons) < 2:
        return
    most = sorted(skeletons.items(), key=lambda item: -len(item[1]))
    held = "; ".join(f"{mark.partition(' ')[0]} joints: {len(keys)} clips ({keys[0]}, ...)" for mark, keys in most)
    raise MotionkitError(
        f"{name} holds {len(skeletons)} skeletons, and a predictor is made for one.",
        why=f"{held}.",
        fix="motionkit convert FILES OUT --to mpl makes a folder for each; give one of them.",
    )
