"""From arrays of joints in any unit and axes to clips in metres with Y up."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.motion._clip import Clip, ReadOptions
from motionkit.motion._motion import JointMotion
from motionkit.motion._skeleton import HUMANML, KIT, Skeleton
from motionkit.motion.frames import finite_frames, finite_warning
from motionkit.rigs._smpl import SMPL_COUNTS, smpl_joints
from motionkit.rigs._units import PERSON_LEG, UNITS, LengthUnit, nearest_unit


def body_of(joints: int) -> tuple[Skeleton, tuple[str, ...], tuple[int, ...]] | None:
    """Return the body with so many joints: skeleton, names, parents; None when there is none."""
    if joints == KIT.joints:
        return KIT, KIT.joint_names, KIT.parents
    if joints in SMPL_COUNTS:
        return HUMANML, *smpl_joints(joints)
    return None


def joints_clip(joints: Tensor, options: ReadOptions, kind: str, part: str = "") -> Clip:
    """Return the clip of joints in any unit and axes.

    Args:
        joints: ``[T, J, 3]``; J is 22 (24, 52 and 55 are SMPL's bodies with hands) or KIT's 21.
        options: Unit, vertical axis and frame rate; what is ``auto`` is guessed from legs and trunk.
        kind: The format, for the notes.
        part: `Clip.part`.

    Raises:
        MotionkitError: No body has J joints, there are no frames, no value is finite, or the legs have no length.
    """
    body = body_of(joints.shape[1])
    if body is None:
        raise MotionkitError(
            f"no body has {joints.shape[1]} joints.", why="known are 22 (HumanML3D), 21 (KIT), 24, 52 and 55 (SMPL)."
        )
    skeleton, names, parents = body
    joints = joints.double()
    finite = finite_frames(joints)
    if not bool(finite.any()):
        raise MotionkitError("there is no frame whose values are all finite.")
    warnings = finite_warning(finite)
    unit_name, unit = _unit(joints[finite], skeleton, options)
    joints = joints * unit
    leg = _leg_length(joints[finite], skeleton)
    if not 0.4 < leg < 1.3:
        warnings.append(f"in {unit_name} the legs are {leg:.2f} m long: if that is wrong, pass --units.")
    up = options.up
    if up == "auto":
        up = "z" if _trunk_along_z(joints[finite], skeleton) else "y"
        if up == "z":
            warnings.append("the trunk points along Z, so Z was taken for the vertical: if that is wrong, pass --up y.")
    if up == "z":
        joints = joints[..., [0, 2, 1]] * joints.new_tensor([1.0, 1.0, -1.0])
    fps = options.fps or skeleton.fps
    notes = {"format": kind, "body": f"{len(names)} joints", "unit": unit_name, "up": up, "fps": f"{fps:g}"}
    notes["frames"] = str(len(joints))
    return Clip(JointMotion(names, parents, joints, fps), part=part, notes=notes, warnings=tuple(warnings))


def _legs(skeleton: Skeleton) -> tuple[tuple[int, int, int], ...]:
    """Return hip, knee and ankle of both legs."""
    hips = skeleton.face_joints[:2]
    if skeleton is KIT:
        return tuple((hip, hip + 1, hip + 2) for hip in hips)
    return tuple((hip, hip + 3, hip + 6) for hip in hips)


def _leg_length(joints: Tensor, skeleton: Skeleton) -> float:
    """Return the median length of a leg over the frames, the mean of both legs."""
    lengths = [
        (joints[:, hip] - joints[:, knee]).norm(dim=-1) + (joints[:, knee] - joints[:, ankle]).norm(dim=-1)
        for hip, knee, ankle in _legs(skeleton)
    ]
    return float(torch.stack(lengths).mean(dim=0).median())


def _unit(joints: Tensor, skeleton: Skeleton, options: ReadOptions) -> tuple[str, float]:
    """Return the unit's name and its length in metres."""
    if options.unit != "auto":
        return options.unit, UNITS[options.unit].metres
    leg = _leg_length(joints, skeleton)
    if leg <= 0:
        raise MotionkitError("the legs have no length.", why="the unit is guessed from them.", fix="pass --units.")
    own = {"kit": LengthUnit("KIT units", KIT.unit)} if skeleton is KIT else {}
    name = nearest_unit(leg, PERSON_LEG, own)
    return name, (UNITS | own)[name].metres


def _trunk_along_z(joints: Tensor, skeleton: Skeleton) -> bool:
    """Return True when the trunk is mostly upright along Z: arrays of Z-up worlds."""
    hips, shoulders = skeleton.face_joints[:2], skeleton.face_joints[2:]
    trunk = joints[:, list(shoulders)].mean(dim=1) - joints[:, list(hips)].mean(dim=1)
    trunk = torch.nn.functional.normalize(trunk, dim=-1).median(dim=0).values
    return bool(trunk[2] > 0.8 and trunk[1] < 0.5)


_NO_FAULTS: Mapping[int, MotionkitError] = {}


def stacked_clips(
    stack: Sequence[Tensor],
    parts: Sequence[str],
    options: ReadOptions,
    origin: str,
    kind: str,
    faults: Mapping[int, MotionkitError] = _NO_FAULTS,
) -> list[Clip]:
    """Return a clip for each motion of an array; one that cannot be used has a `Clip.fault` and is all NaN.

    Args:
        stack: Joints ``[T, J, 3]``, J one for which there is a body.
        parts: What sets each apart from the others; empty for the only one.
        options: As in `joints_clip`.
        origin: The file, for messages.
        kind: The format, for the record.
        faults: Errors of some of them that are known already, by number.

    Raises:
        MotionkitError: None of them can be used; the error of the first.
    """
    clips = [
        _clip(joints, part, options, kind, faults.get(number))
        for number, (joints, part) in enumerate(zip(stack, parts, strict=True))
    ]
    first = clips[0].fault
    if first is not None and all(clip.fault for clip in clips):
        where = f"{origin} ({parts[0]})" if parts[0] else origin
        raise MotionkitError(f"{where}: {first.message}", why=first.why, fix=first.fix)
    return clips


def _clip(joints: Tensor, part: str, options: ReadOptions, kind: str, fault: MotionkitError | None) -> Clip:
    try:
        if fault is not None:
            raise fault
        return joints_clip(joints, options, kind, part)
    except MotionkitError as error:
        return Clip(_unreadable(joints), part=part, notes={"format": kind}, fault=error)


def _unreadable(joints: Tensor) -> JointMotion:
    """Return an all-NaN motion for a sample that could not be read."""
    body = body_of(joints.shape[1])
    assert body is not None
    skeleton, names, parents = body
    return JointMotion(names, parents, torch.full_like(joints, math.nan, dtype=torch.float64), skeleton.fps)
