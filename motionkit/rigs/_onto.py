"""Motions of any rig on another one, with its names, rest pose and proportions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.geometry import accumulate_rotations, bones_from_positions, positions_from_bones
from motionkit.motion.clip import BODY, joint_map_text
from motionkit.motion.motion import END, JointMotion, Motion
from motionkit.motion.skeleton import HUMANML
from motionkit.rigs._contacts import find_feet, soft_contacts
from motionkit.rigs._fix_feet import find_legs, shifted_leg
from motionkit.rigs._solve_rotations import to_local
from motionkit.rigs.bodymap import find_roles, is_below, joint_path, leg_length, to_body
from motionkit.rigs.detect import rest_up
from motionkit.rigs.named import Rig
from motionkit.rigs.rest import rest_rig
from motionkit.rigs.solver import Retarget, body_frames

_STANDS = 0.5
"""Soft contact above which a foot stands, as in `motionkit.metrics.CONTACT`."""

_ENDS = {"head": "neck", "left wrist": "left_elbow", "right wrist": "right_elbow"}
"""Joints that follow rotations instead of positions, to the joint of the 22 that they turn against."""

_REACH = ("left wrist", "right wrist", "left ankle", "right ankle", "head")


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
    calm = _calm(motion)
    made = _upright(Retarget.of([part]), part, calm).motion(motion)
    made = _with_ends(made, part, motion, calm)
    _, joints = body_frames(motion)
    roles = find_roles(made.names, made.parents)
    scale = leg_length(roles, positions_from_bones(made.offsets, made.parents)) / leg_length(_BODY_JOINTS, joints[0])
    made = _standing(made, joints * scale)
    misses, contacts = _fit(made, joints * scale, motion, part, calm)
    return OnRig(_whole(rig, kept, carrier, made, pose), misses, contacts, scale)


_BODY_JOINTS = {role: HUMANML.index(joint) for role, joint in BODY.items()}
_TRUNK = [HUMANML.index(name) for name in ("pelvis", "spine1", "spine2", "spine3", "neck")]
_ANKLES = [_BODY_JOINTS["left ankle"], _BODY_JOINTS["right ankle"]]


def _carrier(rig: Rig) -> int:
    """Return the joint above the whole body; refuse a rig without a body, with a table to fill in."""
    roles = find_roles(rig.roles, rig.parents)
    missing = [role for role in BODY if role not in roles and not role.endswith("toe")]
    if missing:
        table = [line for line in joint_map_text(rig.names, roles, rig.label).splitlines() if not line.startswith("#")]
        raise MotionkitError(
            f"the rig {rig.label} has no joint that looks like: {', '.join(missing)}.",
            why=f"its joints are {', '.join(name for name in rig.names if not name.endswith(END))}.",
            fix="write which is which into a file and give it with --rig-map FILE: " + "; ".join(filter(None, table)),
        )
    ways = [joint_path(rig.parents, roles[role]) for role in ("left hip", "right hip", "head")]
    shared = [joint for joint in ways[0] if all(joint in way for way in ways)]
    if not shared:
        raise MotionkitError(f"the rig {rig.label} is in pieces.", why="its legs and its head have no joint in common.")
    pelvis = roles["pelvis"]
    return pelvis if pelvis in shared else shared[-1]


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
    ours = soft_contacts(positions, made.fps, feet) > _STANDS
    theirs = soft_contacts(source.positions(), source.fps, before) > _STANDS
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
