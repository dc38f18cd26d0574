"""From moving joints to a moving skeleton: constant bones, rotations that do not flip."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.geometry import accumulate_rotations, positions_from_bones, rotation_between
from motionkit.motion.clip import BODY
from motionkit.motion.motion import JointMotion, Motion
from motionkit.motion.skeleton import HUMANML
from motionkit.rigs._contacts import find_feet
from motionkit.rigs._solve_bones import SHORT, closest_pose, fit_rig
from motionkit.rigs._solve_rotations import joint_frames, to_local
from motionkit.rigs.bodymap import find_roles, joint_path, leg_length, to_body
from motionkit.rigs.rest import RestRig, rig_names

# Flips: a limb that spins about itself although none of its neighbours do.


FLIP = math.radians(120.0)
"""A spin above this within `WITHIN` that no neighbour shows is a flip (half a turn). In 228 captured clips the largest
is 80 degrees as 22 or 21 bare joints and 101 as joints of their own rigs; hands and arms followed by markers, on these
rigs, exceed 108 in one clip of 20."""

WITHIN = 0.25
"""Seconds of the window, so that a flip that is spread over some frames is found as well."""

_SEEN = math.sin(math.radians(20.0))
"""Sine of the angle between two bones above which the second shows how the first turns about itself."""


def count_flips(motion: Motion) -> int:
    """Count how often a joint spins unseen about its bone by more than 120 degrees in a quarter of a second.

    The spin is a joint's turn in the world without its bone's movement (parallel transport). It may be shown by
    sibling bones that turn round it, by the bones of the next joint if that is bent by 20 degrees, or by the joint
    above. A window's spin between 0 and what one of these shows is explained; the rest is unseen. Windows that overlap
    are one flip.
    """
    if motion.frames < 2:
        return 0
    world = accumulate_rotations(motion.rotations, motion.parents)
    index = [max(parent, 0) for parent in motion.parents]
    bones = (world[:, index] @ motion.translations[..., None])[..., 0]
    children = [
        [
            child
            for child, parent in enumerate(motion.parents)
            if parent == joint and float(motion.offsets[child].norm()) > SHORT
        ]
        for joint in range(len(motion.names))
    ]
    width = max(1, int(WITHIN * motion.fps + 0.5))
    return sum(
        _events(_unseen(motion, world, bones, children, joint, width), width)
        for joint in range(len(motion.names))
        if children[joint]
    )


def _unseen(
    motion: Motion, world: Tensor, bones: Tensor, children: Sequence[Sequence[int]], joint: int, width: int
) -> Tensor:
    """Return the size in radians of a joint's unseen spin within each window of frames."""
    main = max(children[joint], key=lambda child: float(motion.offsets[child].norm()))
    axis = torch.nn.functional.normalize(bones[:, main], dim=-1)
    # Turn from frame to frame without the bone's movement: its angle about the bone is the spin, [T - 1].
    carried = rotation_between(axis[:-1], axis[1:])
    spin = _windows(_turn_about(carried.mT @ world[1:, joint] @ world[:-1, joint].mT, axis[:-1]), width)
    low, high = torch.zeros_like(spin), torch.zeros_like(spin)
    shown = [_shown(bones[:, bone], axis, carried) for bone in (*children[joint], *children[main]) if bone != main]
    if (parent := motion.parents[joint]) >= 0:
        shown.append(_turn_about(carried.mT @ world[1:, parent] @ world[:-1, parent].mT, axis[:-1]))
    for turn in shown:
        total = _windows(turn, width)
        low, high = torch.minimum(low, total), torch.maximum(high, total)
    # Spins between the least and the greatest shown turn (including 0) are explained.
    return torch.maximum(spin - high, low - spin).clamp_min(0.0)


def _turn_about(rotations: Tensor, axis: Tensor) -> Tensor:
    """Return the part of rotations ``[T, 3, 3]`` that is about an axis ``[T, 3]``, in (-pi, pi]."""
    import roma

    quaternion = roma.rotmat_to_unitquat(rotations)
    angle = 2.0 * torch.atan2((quaternion[:, :3] * axis).sum(dim=-1), quaternion[:, 3])
    return torch.remainder(angle + math.pi, 2.0 * math.pi) - math.pi


def _shown(bone: Tensor, axis: Tensor, carried: Tensor) -> Tensor:
    """Return by how much a bone ``[T, 3]`` turns round an axis from frame to frame, 0 if it lies along it."""
    unit = torch.nn.functional.normalize(bone, dim=-1)
    across = unit - (unit * axis).sum(dim=-1, keepdim=True) * axis
    seen = across.norm(dim=-1) > _SEEN
    before, after = across[:-1], (carried.mT @ across[1:, :, None])[..., 0]
    angle = torch.atan2(
        (torch.linalg.cross(before, after, dim=-1) * axis[:-1]).sum(dim=-1), (before * after).sum(dim=-1)
    )
    return torch.where(seen[:-1] & seen[1:], angle, torch.zeros_like(angle))


def _windows(steps: Tensor, width: int) -> Tensor:
    """Return moving sums over `width` steps, over all of them if there are fewer."""
    total = torch.cat([steps.new_zeros(1), steps.cumsum(dim=0)])
    width = min(width, len(steps))
    return total[width:] - total[:-width]


def _events(unseen: Tensor, width: int) -> int:
    """Count flips: windows beyond `FLIP` that lie apart."""
    count, free = 0, 0
    for start in (unseen > FLIP).nonzero().flatten().tolist():
        count += start >= free
        free = start + width
    return count


@dataclass(frozen=True)
class Solved:
    """Rotations found for moving joints."""

    motion: Motion  # The skeleton with constant bones; its joints are those of the rig, in its order
    # Mean distance in metres, over frames and joints, between given and solved joints. It is zero (1e-6) for joints of
    # a skeleton with constant bones; otherwise it is the least-squares minimum for this rig's bones. Generated motions,
    # whose bones stretch, and trunks of capture rigs mapped to other joints have millimetres to centimetres.
    residual_mean: float
    residual_max: float  # The largest such distance
    flips: int  # Number of unseen spins, see `count_flips`


def solve(motion: JointMotion) -> Solved:
    """Find the skeleton and the rotations behind moving joints.

    Bones are fitted (`fit_rig`); every frame becomes the closest pose that these bones allow; rotations follow from it,
    continuous in time (`joint_frames`). Rotations stored in HumanML3D features are not used: they come from an inverse
    kinematics that restarts at every chain and flips. KIT's joints, which are named after the other side, get the names
    of their side (`rig_names`).

    Args:
        motion: Finite joints in metres, Y up; any tree. The 22 joints of HumanML3D and the 21 of KIT get a T-pose as
            rest pose and end sites; the rest pose of any other skeleton is its first frame.

    Example:
        >>> from motionkit.motion import HUMANML
        >>> from motionkit.starter import generate
        >>> walk = generate("walk", frames=40)
        >>> motion = JointMotion(HUMANML.joint_names, HUMANML.parents, torch.from_numpy(walk.joints), walk.fps)
        >>> solved = solve(motion)
        >>> solved.residual_max < 1e-3, solved.flips
        (True, 0)
    """
    rig = fit_rig(motion)
    joints = motion.joints.detach().double().cpu()
    count = len(motion.names)
    # The rig has the motion's joints in their order, then end sites, which have a rest pose and no rotation.
    body = RestRig(rig.names[:count], rig.parents[:count], rig.offsets[:count])
    pose = closest_pose(joints, body)
    rotations = torch.eye(3, dtype=torch.float64).repeat(motion.frames, rig.joints, 1, 1)
    rotations[:, :count] = to_local(joint_frames(pose, body, motion.fps), body.parents)
    translations = rig.offsets.repeat(motion.frames, 1, 1)
    translations[:, 0] = pose[:, 0]
    names = rig_names(rig.names)
    solved = Motion(names, rig.parents, rig.offsets, rotations, translations, motion.fps, dict(motion.tracks))
    miss = (solved.positions()[:, :count] - joints).norm(dim=-1)
    return Solved(solved, float(miss.mean()), float(miss.max()), count_flips(solved))


# Motions of other rigs on one skeleton, so that clips of several can be trained on together.


_TRUNK = ("pelvis", "spine1", "spine2", "spine3", "neck")
"""Joints of the 22-joint body that a trunk's rotations follow, from the hips to the head."""

_LOWEST = 0.05
"""Quantile, over the frames of a clip, of the height of its lowest foot: where it stands."""

_FRAMES, _FEWEST = 4000, 60
"""Number of frames taken from the skeleton's own clips, and the fewest of each clip, from its middle."""


@dataclass(frozen=True)
class Retarget:
    """A skeleton that motions of other rigs are retargeted to.

    A motion becomes the 22-joint body, whose rotations are solved from its joints (`solve`), so that rest poses and
    twists of its rig do not matter. Each joint of the skeleton has the rotation of a joint of that body, times a
    constant turn, which is the mean over the skeleton's own clips. Joints below wrists, ankles and head keep their mean
    pose. Root and feet are scaled by the length of the legs, and stand as high as in the skeleton's own clips.
    """

    names: tuple[str, ...]  # Joint names
    parents: tuple[int, ...]  # Parent of each joint, -1 for the root
    offsets: Tensor  # ``[J, 3]`` metres from the parent: the body of the first clip
    # For each joint the joint of the 22-joint body that it follows; -1 if it keeps its mean pose.
    source: tuple[int, ...]
    # ``[J, 3, 3]`` from the followed joint's world rotation to this one's; the mean pose relative to the parent if it
    # follows none.
    turns: Tensor
    floor: float  # Metres at which its lowest foot stands

    @classmethod
    def of(cls, clips: Sequence[Motion]) -> Self:
        """Learn a skeleton from its own clips.

        Args:
            clips: Motions of one skeleton, the first with a frame; those with other joint names are skipped.

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
        source = body_sources(first)
        follows = torch.tensor(source).clamp_min(0)
        kept = (torch.tensor(source) < 0)[:, None, None]
        # Consecutive frames, as rotations are solved continuously in time.
        length = max(_FEWEST, _FRAMES // len(clips))
        turns, floors = [], []
        for clip in clips:
            start = max(0, (clip.frames - length) // 2)
            part = clip.cut(start, start + length)
            if not part.frames or set(part.names) != set(first.names):
                continue
            # Files of one skeleton may differ in the order of their end sites.
            order = [part.names.index(name) for name in first.names]
            body, _ = body_frames(part)
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
        """
        body, joints = body_frames(motion)
        frames = len(body)
        followed = body[:, torch.tensor(self.source).clamp_min(0)] @ self.turns
        world: list[Tensor] = []
        for joint, parent in enumerate(self.parents):
            keeps = self.source[joint] < 0
            above = world[parent] if parent >= 0 else torch.eye(3, dtype=followed.dtype).expand(frames, 3, 3)
            world.append(above @ self.turns[joint] if keeps else followed[:, joint])
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
        source_hips = joints[:, [HUMANML.index("left_hip"), HUMANML.index("right_hip")]].mean(1)
        scale = leg_length(roles, positions_from_bones(self.offsets, self.parents)) / _leg(joints)
        translations[:, 0] = scale * source_hips - hips
        places = places + translations[:, :1]
        translations[:, 0, 1] += self.floor - _floor(places, made)
        return replace(made, translations=translations)


def body_frames(motion: Motion | JointMotion) -> tuple[Tensor, Tensor]:
    """Return rotations in the world ``[T, 22, 3, 3]`` and joints ``[T, 22, 3]`` of the 22-joint body."""
    joints = to_body(motion, HUMANML, motion.fps)
    solved = solve(JointMotion(HUMANML.joint_names, HUMANML.parents, joints, motion.fps)).motion
    return accumulate_rotations(solved.rotations, solved.parents)[:, : HUMANML.joints], joints


def body_sources(motion: Motion) -> tuple[int, ...]:
    """Return which joint of the 22-joint body each joint follows."""
    roles = find_roles(motion.names, motion.parents)
    to_body(motion.cut(0, 1), HUMANML, motion.fps)  # refuses a rig without a body
    source = [-1] * len(motion.names)
    trunk = joint_path(motion.parents, roles["head"])
    places = positions_from_bones(motion.offsets, motion.parents)
    hips = places[[roles["left hip"], roles["right hip"]]].mean(0)
    height = max(float((places[roles["head"]] - hips).norm()), 1e-6)
    parts = {joint: min(1.0, float((places[joint] - hips).norm()) / height) for joint in trunk}
    for joint in trunk[:-1]:
        source[joint] = HUMANML.index(_TRUNK[min(round(parts[joint] * len(_TRUNK)), len(_TRUNK) - 1)])
    source[0] = HUMANML.index("pelvis")
    for side in ("left", "right"):
        for top, base in (("hip", "pelvis"), ("shoulder", f"{side}_collar")):
            for joint in joint_path(motion.parents, roles[f"{side} {top}"])[:-1]:
                if source[joint] < 0:
                    source[joint] = HUMANML.index(base)
        # Joints on the way, such as those that spread a twist, follow the last joint with a role above them.
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
