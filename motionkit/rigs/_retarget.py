"""Motions of other rigs on one skeleton: learned from clips (`Retarget`), or a rig in its rest pose (`onto_rig`)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import torch
from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.geometry import accumulate_rotations, bones_from_positions, nearest_rotation, positions_from_bones
from motionkit.metrics import CONTACT
from motionkit.motion.clip import BODY, joint_map_text
from motionkit.motion.motion import END, JointMotion, Motion
from motionkit.motion.skeleton import HUMANML
from motionkit.rigs._contacts import find_feet, soft_contacts
from motionkit.rigs._fix_feet import find_legs, shifted_leg
from motionkit.rigs._solve_rotations import to_local
from motionkit.rigs.bodymap import front_of, to_body
from motionkit.rigs.detect import rest_up
from motionkit.rigs.named import Rig
from motionkit.rigs.rest import rest_rig
from motionkit.rigs.roles import find_roles, hip_to_ankle, in_brief, is_below, joint_path
from motionkit.rigs.solver import solve

_ENDS = {"head": "neck", "left wrist": "left_elbow", "right wrist": "right_elbow"}
"""Joints that follow rotations instead of positions, to the joint of the 22 that they turn against."""

_REACH = ("left wrist", "right wrist", "left ankle", "right ankle", "head")

_LOWEST = 0.05
"""Quantile, over the frames of a clip, of the height of its lowest foot: where it stands."""

_FRAMES, _FEWEST = 4000, 60
"""Number of frames taken from the skeleton's own clips, and the fewest of each clip, from its middle."""

_BODY_JOINTS = {role: HUMANML.index(joint) for role, joint in BODY.items()}
_TRUNK = [HUMANML.index(name) for name in ("pelvis", "spine1", "spine2", "spine3", "neck")]
"""Joints of the 22-joint body that a trunk's rotations follow, from the hips to the head."""

_ANKLES = [_BODY_JOINTS["left ankle"], _BODY_JOINTS["right ankle"]]


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
        mean = nearest_rotation(torch.stack(turns).sum(0))
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
        legs = hip_to_ankle(roles, positions_from_bones(self.offsets, self.parents))
        scale = legs / hip_to_ankle(_BODY_JOINTS, joints[0])
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
        source[joint] = _TRUNK[min(round(parts[joint] * len(_TRUNK)), len(_TRUNK) - 1)]
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


def _floor(places: Tensor, motion: Motion) -> float:
    """Return the height at which the lowest joint of the feet stands."""
    feet = find_feet(motion.names, motion.parents)
    assert feet is not None, "a body has ankles"
    lowest = places[:, [*feet[0], *feet[1]], 1].amin(-1)
    return float(torch.quantile(lowest, _LOWEST))


class OnRig(NamedTuple):
    """A motion on another rig, and how well it fits."""

    motion: Motion  # With the joint names of the rig
    # Mean metres by role. Feet: from the ankles of the source body, scaled by the legs. Hands and head: from the place
    # that the source body's bones would give, if they were as long as this rig's and its trunk as straight at rest.
    misses: dict[str, float]
    contacts: float  # Share of frames and feet with the same contact as before; NaN without feet
    scale: float  # Length of its legs relative to the source's


def onto_rig(motion: Motion | JointMotion, rig: Rig) -> OnRig:
    """Bring a motion to a rig.

    Each joint follows the rotation of the 22-joint body that both have (`Retarget`): limbs point where the source
    body's do; trunk, neck and feet turn from the rig's rest pose as far as the source body's turn from its rest pose,
    since rigs disagree about where their joints lie, and soles are flat in both. Head and hands follow the rotations
    of the source rig if it has any. The path is scaled by the length of the legs. Then ankles go to the scaled places
    of the source body's ankles, as far as legs reach, so that standing feet keep standing. Other joints and those
    above the hips keep their rest pose.

    Args:
        motion: In metres, Y up; its body is found by names.
        rig: The other rig.
    """
    carrier = _carrier(rig)
    names = rig.roles
    kept = [joint for joint in range(len(names)) if is_below(joint, carrier, rig.parents)]
    place = {joint: index for index, joint in enumerate(kept)}
    pose = rig.pose()
    world = accumulate_rotations(pose.rotations, pose.parents)
    places = pose.positions()
    part = replace(
        pose,
        names=tuple(names[joint] for joint in kept),
        parents=tuple(place.get(rig.parents[joint], -1) for joint in kept),
        offsets=pose.offsets[kept],
        rotations=torch.cat([world[:, carrier : carrier + 1], pose.rotations[:, kept[1:]]], dim=1),
        translations=torch.cat([places[:, carrier : carrier + 1], pose.translations[:, kept[1:]]], dim=1),
    )
    part = _facing_as(motion, part)
    calm = _calm(motion)
    made = _upright(Retarget.of([part]), part, calm).motion(motion)
    made = _with_ends(made, part, motion, calm)
    _, joints = body_frames(motion)
    roles = find_roles(made.names, made.parents)
    legs = hip_to_ankle(roles, positions_from_bones(made.offsets, made.parents))
    scale = legs / hip_to_ankle(_BODY_JOINTS, joints[0])
    made = _standing(made, joints * scale)
    misses, contacts = _fit(made, joints * scale, motion, part, calm)
    return OnRig(_whole(rig, kept, carrier, made, pose), misses, contacts, scale)


def _carrier(rig: Rig) -> int:
    """Return the joint above the whole body; refuse a rig without a body, with a table to fill in."""
    roles = find_roles(rig.roles, rig.parents)
    missing = [role for role in BODY if role not in roles and not role.endswith("toe")]
    if missing:
        table = [line for line in joint_map_text(rig.names, roles, rig.label).splitlines() if not line.startswith("#")]
        raise MotionkitError(
            f"the rig {rig.label} has no joint that looks like: {', '.join(missing)}.",
            why=f"its joints are {in_brief(name for name in rig.names if not name.endswith(END))}.",
            fix="write which is which into a file and give it with --rig-map FILE: " + "; ".join(filter(None, table)),
        )
    ways = [joint_path(rig.parents, roles[role]) for role in ("left hip", "right hip", "head")]
    shared = [joint for joint in ways[0] if all(joint in way for way in ways)]
    if not shared:
        raise MotionkitError(f"the rig {rig.label} is in pieces.", why="its legs and its head have no joint in common.")
    pelvis = roles["pelvis"]
    return pelvis if pelvis in shared else shared[-1]


def _facing_as(source: Motion | JointMotion, rest: Motion) -> Motion:
    """Turn a rest pose by whole quarters to face as the source's does: models of VRM 0.x face back."""
    still = rest_motion(source.names, source.parents, source.offsets) if isinstance(source, Motion) else None
    if still is not None and rest_up(still) != "y":
        return rest
    fronts = [front_of(pose.positions(), find_roles(pose.names, pose.parents)) for pose in (rest, still) if pose]
    yaws = [float(front[0][0]) for front in fronts if front is not None and bool(front[1][0])]
    if len(yaws) < len(fronts):
        return rest
    quarters = round((sum(yaws[1:]) - yaws[0]) / (math.pi / 2)) % 4
    if not quarters:
        return rest
    cos, sin = ((1.0, 0.0), (0.0, 1.0), (-1.0, 0.0), (0.0, -1.0))[quarters]
    turn = torch.tensor([[cos, 0.0, sin], [0.0, 1.0, 0.0], [-sin, 0.0, cos]], dtype=torch.float64)
    rotations, translations = rest.rotations.clone(), rest.translations.clone()
    rotations[:, 0], translations[:, 0] = turn @ rotations[:, 0], translations[:, 0] @ turn.mT
    return replace(rest, rotations=rotations, translations=translations)


def _calm(source: Motion | JointMotion) -> Tensor | None:
    """Return the rotations ``[22, 3, 3]`` of the body in a rig's rest pose; None if that is not a standing body."""
    if not isinstance(source, Motion):
        rig = rest_rig(HUMANML)
        return body_frames(rest_motion(rig.names, rig.parents, rig.offsets))[0][0]
    still = rest_motion(source.names, source.parents, source.offsets)
    if rest_up(still) != "y":
        return None
    try:
        return body_frames(still)[0][0]
    except MotionkitError:
        return None


def rest_motion(names: Sequence[str], parents: Sequence[int], offsets: Tensor) -> Motion:
    """Return a rest pose as a motion of one frame."""
    eye = torch.eye(3, dtype=torch.float64).expand(1, len(names), 3, 3)
    return Motion(tuple(names), tuple(parents), offsets, eye, offsets[None], 30.0)


def _upright(rig: Retarget, rest: Motion, calm: Tensor | None) -> Retarget:
    """Replace the turns of trunk and feet by those between the two rest poses, in which soles are flat."""
    if calm is None:
        return rig
    world = accumulate_rotations(rest.rotations, rest.parents)[0]
    turns = rig.turns.clone()
    for joint, source in enumerate(rig.source):
        if source in _TRUNK or source in _ANKLES:
            turns[joint] = calm[source].mT @ world[joint]
    return replace(rig, turns=turns)


def _with_ends(made: Motion, rest: Motion, source: Motion | JointMotion, calm: Tensor | None) -> Motion:
    """Turn the head as the source's turns from its rest pose, and hands as they turn against their forearms."""
    if not isinstance(source, Motion) or calm is None:
        return made
    standing = body_frames(rest)[0]
    turns, world = (accumulate_rotations(rig.rotations, rig.parents) for rig in (source, made))
    rest_world = accumulate_rotations(rest.rotations, rest.parents)
    theirs, ours = find_roles(source.names, source.parents), find_roles(made.names, made.parents)
    for role, base in _ENDS.items():
        if role not in theirs or role not in ours:
            continue
        joint = HUMANML.index(base)
        # A forearm may lie differently in the two rest poses; heads are upright in both.
        between = calm[joint] @ standing[:, joint].mT if role != "head" else torch.eye(3, dtype=torch.float64)
        target = turns[:, theirs[role]] @ between @ rest_world[:, ours[role]]
        below = [k for k in range(len(made.names)) if is_below(k, ours[role], made.parents)]
        change = target @ world[:, ours[role]].mT
        world[:, below] = change[:, None] @ world[:, below]
    return replace(made, rotations=to_local(world, made.parents))


def _standing(made: Motion, joints: Tensor) -> Motion:
    """Bring ankles to those of the body ``[T, 22, 3]``, at the standing height of this rig's ankles."""
    legs = find_legs(made)
    positions = made.positions()
    world = accumulate_rotations(made.rotations, made.parents)
    across = positions[:, legs[0].hip] - positions[:, legs[1].hip]
    targets = torch.stack([joints[:, HUMANML.index(f"{side}_ankle")] for side in ("left", "right")], dim=1)
    ankles = torch.stack([positions[:, leg.ankle] for leg in legs], dim=1)
    # Ankles have different heights above the ground in the two bodies; they stand where they are lowest.
    low = [torch.quantile(points[..., 1].flatten(), 0.1) for points in (ankles, targets)]
    targets[..., 1] += low[0] - low[1]
    rotations = made.rotations.clone()
    for side, leg in enumerate(legs):
        turned, _ = shifted_leg(made, world, positions, leg, targets[:, side] - ankles[:, side], across)
        for joint, local in turned.items():
            rotations[:, joint] = local
    return replace(made, rotations=rotations)


def _fit(
    made: Motion, joints: Tensor, source: Motion | JointMotion, rest: Motion, calm: Tensor | None
) -> tuple[dict[str, float], float]:
    """Return the misses by role, and the share of contacts that stay."""
    positions = made.positions()
    now = to_body(made, HUMANML, made.fps)
    lengths = bones_from_positions(now, HUMANML.parents).norm(dim=-1, keepdim=True).mean(0)
    ways = torch.nn.functional.normalize(bones_from_positions(joints, HUMANML.parents), dim=-1)
    if calm is not None:
        moving = body_frames(source)[0]
        still = torch.nn.functional.normalize(
            bones_from_positions(to_body(rest, HUMANML, 30.0), HUMANML.parents), dim=-1
        )
        for joint in (*_TRUNK[1:], HUMANML.index("head")):
            above = HUMANML.parents[joint]
            ways[:, joint] = moving[:, above] @ calm[above].mT @ still[0, joint]
    bones = ways * lengths
    alike = positions_from_bones(torch.cat([torch.zeros_like(bones[:, :1]), bones[:, 1:]], dim=1), HUMANML.parents)
    seen = now - now[:, :1]
    lift = torch.quantile(now[:, _ANKLES, 1].flatten(), 0.1) - torch.quantile(joints[:, _ANKLES, 1].flatten(), 0.1)
    targets = joints + torch.stack([0 * lift, lift, 0 * lift])
    misses = {}
    for role in _REACH:
        joint = _BODY_JOINTS[role]
        apart = now[:, joint] - targets[:, joint] if "ankle" in role else seen[:, joint] - alike[:, joint]
        misses[role] = float(apart.norm(dim=-1).mean())
    feet, before = find_feet(made.names, made.parents), find_feet(source.names, source.parents)
    if feet is None or before is None:
        return misses, math.nan
    ours = soft_contacts(positions, made.fps, feet) > CONTACT
    theirs = soft_contacts(source.positions(), source.fps, before) > CONTACT
    return misses, float((ours == theirs).double().mean())


def _whole(rig: Rig, kept: Sequence[int], carrier: int, made: Motion, pose: Motion) -> Motion:
    """Return the motion with the rig's other joints, which keep their rest pose."""
    frames = made.frames
    rotations = pose.rotations.expand(frames, -1, -1, -1).clone()
    translations = pose.translations.expand(frames, -1, -1).clone()
    rotations[:, kept[1:]] = made.rotations[:, 1:]
    rotations[:, carrier], translations[:, carrier] = made.rotations[:, 0], made.translations[:, 0]
    if (parent := rig.parents[carrier]) >= 0:
        turn = accumulate_rotations(pose.rotations, pose.parents)[0, parent]
        place = pose.positions()[0, parent]
        rotations[:, carrier] = turn.mT @ made.rotations[:, 0]
        translations[:, carrier] = (made.translations[:, 0] - place) @ turn
    return Motion(rig.names, rig.parents, pose.offsets, rotations, translations, made.fps, dict(made.tracks))
