"""Motions of other rigs on one skeleton, so that clips of several can be trained on together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.geometry import accumulate_rotations, positions_from_bones
from motionkit.motion.clip import BODY
from motionkit.motion.motion import JointMotion, Motion
from motionkit.motion.skeleton import HUMANML
from motionkit.rigs._contacts import find_feet
from motionkit.rigs._solve_rotations import to_local
from motionkit.rigs.bodymap import find_roles, joint_path, leg_length, to_body
from motionkit.rigs.solver import solve

_TRUNK = ("pelvis", "spine1", "spine2", "spine3", "neck")
"""Joints of the 22-joint body whose rotations those of a trunk follow, from the hips to the head."""

_LOWEST = 0.05
"""Quantile over the frames of a clip of the height of its lowest foot, at which it stands."""

_FRAMES, _FEWEST = 4000, 60
"""Frames of the skeleton's own clips that are looked at, and the fewest of each: those in its middle."""


@dataclass(frozen=True)
class Retarget:
    """A skeleton that motions of other rigs are brought to.

    A motion becomes the 22-joint body, whose rotations are found from its joints (`solve`): rest poses and twists of
    its rig do not matter. Each joint of the skeleton has the rotation of a joint of that body, times a constant turn:
    the mean one over the skeleton's own clips. Joints below wrists, ankles and head keep their mean pose. Root and
    feet are scaled by the length of the legs, and stand as high as in the skeleton's own clips.
    """

    names: tuple[str, ...]  # Joint names
    parents: tuple[int, ...]  # Parent of each joint, -1 for the root
    offsets: Tensor  # ``[J, 3]`` metres from the parent: the body of the first clip
    # For each joint the joint of the 22-joint body that it follows; -1 where it keeps its mean pose.
    source: tuple[int, ...]
    # ``[J, 3, 3]`` from that joint's rotation in the world to its own; relative to its parent where it keeps its mean
    # pose.
    turns: Tensor
    floor: float  # Metres at which its lowest foot stands

    @classmethod
    def of(cls, clips: Sequence[Motion]) -> Self:
        """Learn a skeleton from its own clips.

        Args:
            clips: Motions of one skeleton, the first with a frame; those with other end sites are not looked at.

        Raises:
            MotionkitError: A joint of the body is not found by its name.

        Example:
            >>> from motionkit.starter import OFFSETS, PARENTS, generate
            >>> made = generate("walk", frames=60)
            >>> offsets = torch.from_numpy(OFFSETS.copy())
            >>> places = offsets.repeat(60, 1, 1)
            >>> places[:, 0] = torch.from_numpy(made.root)
            >>> turns = torch.from_numpy(made.rotations)
            >>> walk = Motion(HUMANML.joint_names, PARENTS, offsets, turns, places, made.fps)
            >>> again = Retarget.of([walk]).motion(walk)
            >>> float((again.positions() - walk.positions()).norm(dim=-1).mean()) < 0.01
            True
        """
        import roma

        first = clips[0]
        source = _sources(first)
        follows = torch.tensor(source).clamp_min(0)
        kept = (torch.tensor(source) < 0)[:, None, None]
        # Frames in a row, as the rotations that are found follow each other.
        length = max(_FEWEST, _FRAMES // len(clips))
        turns, floors = [], []
        for clip in clips:
            start = max(0, (clip.frames - length) // 2)
            part = clip.cut(start, start + length)
            if not part.frames or set(part.names) != set(first.names):
                continue
            # Files of one skeleton differ in where their end sites are.
            order = [part.names.index(name) for name in first.names]
            body, _ = _body_frames(part)
            world = accumulate_rotations(part.rotations, part.parents)
            turned = body[:, follows].mT @ world[:, order]
            turns.append(torch.where(kept, part.rotations[:, order], turned).sum(0))
            floors.append(_floor(clip.positions(), clip))
        mean = roma.special_procrustes(torch.stack(turns).sum(0))
        return cls(first.names, first.parents, first.offsets, source, mean, float(torch.tensor(floors).median()))

    def motion(self, motion: Motion | JointMotion) -> Motion:
        """Return a motion of any rig on this skeleton.

        Contacts and other tracks stay as they are.

        Args:
            motion: In metres, Y up; its body is found by names.

        Raises:
            MotionkitError: A joint of the body is not found by its name, or values are not finite.
        """
        body, joints = _body_frames(motion)
        frames = len(body)
        told = body[:, torch.tensor(self.source).clamp_min(0)] @ self.turns
        world: list[Tensor] = []
        for joint, parent in enumerate(self.parents):
            keeps = self.source[joint] < 0
            above = world[parent] if parent >= 0 else torch.eye(3, dtype=told.dtype).expand(frames, 3, 3)
            world.append(above @ self.turns[joint] if keeps else told[:, joint])
        turned = torch.stack(world, dim=1)
        translations = self.offsets.repeat(frames, 1, 1)
        translations[:, 0] = 0.0
        made = Motion(
            self.names, self.parents, self.offsets, to_local(turned, self.parents), translations, motion.fps,
            dict(motion.tracks),
        )  # fmt: skip
        places = made.positions()
        roles = find_roles(self.names, self.parents)
        hips = places[:, [roles["left hip"], roles["right hip"]]].mean(1)
        own = joints[:, [HUMANML.index("left_hip"), HUMANML.index("right_hip")]].mean(1)
        scale = leg_length(roles, positions_from_bones(self.offsets, self.parents)) / _leg(joints)
        translations[:, 0] = scale * own - hips
        places = places + translations[:, :1]
        translations[:, 0, 1] += self.floor - _floor(places, made)
        return replace(made, translations=translations)


def _body_frames(motion: Motion | JointMotion) -> tuple[Tensor, Tensor]:
    """Return rotations in the world ``[T, 22, 3, 3]`` and joints ``[T, 22, 3]`` of the 22-joint body."""
    joints = to_body(motion, HUMANML, motion.fps)
    solved = solve(JointMotion(HUMANML.joint_names, HUMANML.parents, joints, motion.fps)).motion
    return accumulate_rotations(solved.rotations, solved.parents)[:, : HUMANML.joints], joints


def _sources(motion: Motion) -> tuple[int, ...]:
    """Return which joint of the 22-joint body each joint follows."""
    roles = find_roles(motion.names, motion.parents)
    to_body(motion.cut(0, 1), HUMANML, motion.fps)  # refuses a rig without a body
    source = [-1] * len(motion.names)
    trunk = joint_path(motion.parents, roles["head"])
    places = positions_from_bones(motion.offsets, motion.parents)
    hips = places[[roles["left hip"], roles["right hip"]]].mean(0)
    whole = max(float((places[roles["head"]] - hips).norm()), 1e-6)
    parts = {joint: min(1.0, float((places[joint] - hips).norm()) / whole) for joint in trunk}
    for joint in trunk[:-1]:
        source[joint] = HUMANML.index(_TRUNK[min(round(parts[joint] * len(_TRUNK)), len(_TRUNK) - 1)])
    source[0] = HUMANML.index("pelvis")
    for side in ("left", "right"):
        for top, base in (("hip", "pelvis"), ("shoulder", f"{side}_collar")):
            for joint in joint_path(motion.parents, roles[f"{side} {top}"])[:-1]:
                if source[joint] < 0:
                    source[joint] = HUMANML.index(base)
        # What has a role is turned by its own bone; joints on the way, such as those that spread a twist, by the last.
        for upper, lower in (("hip", "knee"), ("knee", "ankle"), ("shoulder", "elbow"), ("elbow", "wrist")):
            way = joint_path(motion.parents, roles[f"{side} {lower}"])
            if roles[f"{side} {upper}"] not in way:
                raise MotionkitError(f"the {side} {lower} does not hang on the {side} {upper}.")
            for joint in way[way.index(roles[f"{side} {upper}"]) : -1]:
                source[joint] = HUMANML.index(BODY[f"{side} {upper}"])
        source[roles[f"{side} ankle"]] = HUMANML.index(BODY[f"{side} ankle"])
    return tuple(source)


def _leg(joints: Tensor) -> float:
    """Return the length of the legs of the 22-joint body ``[T, 22, 3]``."""
    roles = {role: HUMANML.index(joint) for role, joint in BODY.items()}
    return leg_length(roles, joints[0])


def _floor(places: Tensor, motion: Motion) -> float:
    """Return the height at which the lowest joint of the feet stands."""
    feet = find_feet(motion.names, motion.parents)
    assert feet is not None, "a body has ankles"
    lowest = places[:, [*feet[0], *feet[1]], 1].amin(-1)
    return float(torch.quantile(lowest, _LOWEST))
