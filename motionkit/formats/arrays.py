"""Plain numpy files: joint positions, MDM's results, features of HumanML3D and KIT.

Joints in any unit and axes become clips in metres with Y up (`joints_clip`).
"""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from motionkit import weights
from motionkit.errors import MotionkitError
from motionkit.motion.clip import Axis, Clip, ReadOptions
from motionkit.motion.corpus.captions import Caption
from motionkit.motion.features.layout import feature_layout
from motionkit.motion.features.recover import features_to_joints
from motionkit.motion.motion import JointMotion, check_size, finite_frames, finite_warning, nearest_finite
from motionkit.motion.skeleton import HUMANML, KIT, Skeleton
from motionkit.rigs.detect import PERSON_LEG, UNITS, LengthUnit, nearest_unit
from motionkit.rigs.rest import SMPL_COUNTS, smpl_joints
from motionkit.rigs.upright import turn_points, weigh
from motionkit.runs import write_bytes_atomic
from motionkit.weights import read_array

LIMIT = 2 << 30
"""Bytes; 22 joints at 120 frames per second for more than an hour, in double precision, are a tenth of that."""

_USUAL: tuple[Axis, ...] = ("z",)
"""Arrays of worlds with Z up are as usual as those with Y up."""

_PLAIN = ReadOptions()
_NO_FAULTS: Mapping[int, MotionkitError] = {}


def read_joints(path: Path, options: ReadOptions = _PLAIN) -> Sequence[Clip]:
    """Read a ``.npy`` of joint positions.

    Args:
        path: ``[T, J, 3]`` (``new_joints`` of HumanML3D and KIT-ML), ``[T, 3 J]``, ``[N, T, J, 3]`` or
            ``[N, J, 3, T]`` (what MDM samples); J as in `joints_clip`. Nothing in it is executed.
        options: Unit, vertical axis and frame rate, if the guesses are wrong.

    Returns:
        One clip, or N with their number as part. Frames with NaN stay, with a warning; of several motions, one that
        cannot be used has a `Clip.fault`.

    Example:
        >>> from motionkit.starter import generate
        >>> write_joints(Path("walk.npy"), torch.from_numpy(generate("walk", frames=40).joints))
        >>> (clip,) = read_joints(Path("walk.npy"))
        >>> clip.motion.frames, clip.notes["unit"], clip.notes["up"]
        (40, 'm', 'y')
    """
    array = read_array(path, limit=LIMIT)
    stack = split_clips(array, str(path))
    digits = len(str(len(stack) - 1))
    parts = [f"{number:0{digits}d}" if len(stack) > 1 else "" for number in range(len(stack))]
    return tuple(stacked_clips(stack, parts, options, str(path), "joint array"))


def write_joints(path: Path, joints: Tensor) -> None:
    """Write joints ``[T, J, 3]`` as float32 ``.npy``, whole or not at all, as HumanML3D's ``new_joints`` are."""
    buffer = io.BytesIO()
    np.save(buffer, joints.detach().cpu().to(torch.float32).contiguous().numpy(), allow_pickle=False)
    write_bytes_atomic(path, buffer.getvalue())


def split_clips(array: object, origin: str) -> list[Tensor]:
    """Return the clips ``[T, J, 3]`` of an array in any of the shapes `read_joints` takes."""
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "fiu":
        kind = f"{array.dtype} values" if isinstance(array, np.ndarray) else f"a {type(array).__name__}"
        raise MotionkitError(f"{origin} holds {kind}, not an array of numbers.")
    check_size(-(-array.size // 3), 1, rotations=False)
    joints = torch.from_numpy(weights.cast(array, np.float64))
    if 0 in joints.shape:
        raise MotionkitError(f"{origin} is empty: its shape is {list(array.shape)}.")
    if joints.ndim == 2 and joints.shape[1] % 3 == 0 and body_of(joints.shape[1] // 3):
        joints = joints.reshape(len(joints), -1, 3)
    if joints.ndim == 3 and joints.shape[2] == 3 and body_of(joints.shape[1]):
        return [joints]
    if joints.ndim == 4 and joints.shape[3] == 3 and body_of(joints.shape[2]):
        return list(joints)
    if joints.ndim == 4 and joints.shape[2] == 3 and body_of(joints.shape[1]):
        return list(joints.permute(0, 3, 1, 2))
    raise MotionkitError(
        f"{origin} has shape {list(array.shape)}.",
        why="joints are [frames, joints, 3], [frames, 3 x joints] or [clips, frames, joints, 3], with 22 joints "
        "(HumanML3D), 21 (KIT), or 24, 52 or 55 (SMPL).",
    )


def read_mdm_results(path: Path, options: ReadOptions = _PLAIN) -> Sequence[Clip]:
    """Read the results of MDM's ``generate``: a dict of ``motion [N, J, 3, T]``, ``text``, ``lengths`` and counts.

    The file is a pickle; the reader admits numpy arrays and plain containers only.

    Args:
        path: ``results.npy``.
        options: As in `read_joints`.

    Returns:
        N clips, cut to their lengths, the prompt as caption; parts are named as MDM names its films,
        ``sample00_rep00``. A clip that cannot be used has a `Clip.fault`.
    """
    data = read_array(path, limit=LIMIT)
    if not is_mdm_results(data):
        raise MotionkitError(f"{path} is not a results file of MDM.", why="it has no array called motion in a dict.")
    clips = split_clips(data["motion"], f"{path}: motion")
    stack, faults = _to_length(clips, data.get("lengths"), path)
    samples = _count(data.get("num_samples"), len(clips))
    parts = [f"sample{number % samples:02d}_rep{number // samples:02d}" for number in range(len(clips))]
    texts = _texts(data.get("text"), len(clips), samples)
    placed = stacked_clips(stack, parts, options, str(path), "MDM results", faults)
    return tuple(
        replace(clip, captions=(Caption(text),) if text else ()) for clip, text in zip(placed, texts, strict=True)
    )


def is_mdm_results(data: object) -> bool:
    """Whether the contents of a file (`read_array`) are MDM's results."""
    return isinstance(data, Mapping) and isinstance(data.get("motion"), np.ndarray) and data["motion"].ndim == 4


def _to_length(clips: list[Tensor], stored: Any, path: Path) -> tuple[list[Tensor], dict[int, MotionkitError]]:
    """Cut each clip to its stored length, if there is one; also return the errors of impossible lengths, by number."""
    if stored is None:
        return clips, {}
    lengths = np.asarray(stored).reshape(-1)
    if lengths.dtype.kind not in "iuf" or len(lengths) != len(clips):
        raise MotionkitError(f"{path}: lengths do not fit {len(clips)} motions: {lengths.tolist()[:8]}.")
    faults = {
        number: MotionkitError(f"it has {len(clip)} frames, its length is given as {length:g}.")
        for number, (clip, length) in enumerate(zip(clips, lengths, strict=True))
        if not 1 <= length <= len(clip)
    }
    return [
        clip if number in faults else clip[: int(length)]
        for number, (clip, length) in enumerate(zip(clips, lengths, strict=True))
    ], faults


def _count(stored: Any, clips: int) -> int:
    """Return the number of samples per repetition."""
    samples = int(stored) if isinstance(stored, int | np.integer) else clips
    return samples if 0 < samples <= clips else clips


def _texts(stored: Any, clips: int, samples: int) -> list[str]:
    """Return a text per clip, empty for none; a text per sample is used for all its repetitions."""
    texts = [str(text) for text in stored] if isinstance(stored, list | tuple | np.ndarray) else []
    if len(texts) == samples:
        return [texts[number % samples] for number in range(clips)]
    return texts if len(texts) == clips else [""] * clips


def read_features_file(path: Path, options: ReadOptions = _PLAIN) -> Sequence[Clip]:
    """Read features of one motion, ``[T, 263]`` (HumanML3D) or ``[T, 251]`` (KIT), as ``new_joint_vecs`` holds them.

    Args:
        path: ``.npy``; nothing in it is executed.
        options: ``fps`` if it is not the format's 20 or 12.5; features are in metres (KIT: its unit) with Y up by
            definition, so unit and axis are ignored.

    Returns:
        One clip with its features and the joints recovered from their positions.

    Example:
        >>> from motionkit.motion import joints_to_features
        >>> from motionkit.starter import generate
        >>> joints = torch.from_numpy(generate("walk", frames=41).joints)
        >>> np.save("walk.npy", joints_to_features(joints, HUMANML).float())
        >>> (clip,) = read_features_file(Path("walk.npy"))
        >>> clip.motion.frames, clip.notes["format"]
        (40, 'humanml features')
    """
    array = read_array(path, limit=LIMIT)
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "fiu":
        raise MotionkitError(f"{path} does not hold plain numbers.")
    skeleton = {body.width: body for body in (HUMANML, KIT)}.get(array.shape[-1] if array.ndim else 0)
    if skeleton is None or array.ndim != 2 or len(array) == 0:
        raise MotionkitError(
            f"{path} has shape {list(array.shape)}.",
            why="features are [frames, 263] (HumanML3D) or [frames, 251] (KIT).",
        )
    check_size(len(array), skeleton.joints, rotations=False)
    features = torch.from_numpy(weights.cast(array, np.float32))
    return (features_clip(features, skeleton, str(path), fps=options.fps),)


def features_clip(features: Tensor, skeleton: Skeleton, origin: str, *, fps: float = 0.0) -> Clip:
    """Return the clip of features ``[T, D]``.

    Rows with a value that is not finite have NaN for joints. The root's path sums velocities; there such a row takes
    the values of the last finite one, so that the place of later frames relative to earlier ones is a guess.
    """
    finite = finite_frames(features)
    if not bool(finite.any()):
        raise MotionkitError(f"{origin} has no frame whose values are all finite.")
    if looks_normalised(features, skeleton):
        raise MotionkitError(
            f"{origin} does not look like {skeleton.name} features: its rotation columns are not unit vectors.",
            why="features that were normalised for a network look like this.",
            fix="undo it with the Mean.npy and Std.npy they were normalised with: features * Std + Mean.",
        )
    joints = features_to_joints(features[nearest_finite(finite)].double(), skeleton)
    joints[~finite] = math.nan
    rate = fps or skeleton.fps
    motion = JointMotion(skeleton.joint_names, skeleton.parents, joints, rate)
    notes = {"format": f"{skeleton.name} features", "unit": "m", "fps": f"{rate:g}", "frames": str(len(features))}
    return Clip(motion, features=features.float(), notes=notes, warnings=tuple(finite_warning(finite)))


def looks_normalised(features: Tensor, skeleton: Skeleton) -> bool:
    """Whether the stored rotation columns are far from unit length, unlike those of any motion."""
    rotations = features[:, feature_layout(skeleton).rotations]
    lengths = rotations.reshape(len(features), -1, 3).norm(dim=-1)
    lengths = lengths[torch.isfinite(lengths)]
    return len(lengths) > 0 and float((lengths - 1.0).abs().median()) > 0.3


def body_of(joints: int) -> tuple[Skeleton, tuple[str, ...], tuple[int, ...]] | None:
    """Return the body with so many joints: skeleton, names, parents; None if there is none."""
    if joints == KIT.joints:
        return KIT, KIT.joint_names, KIT.parents
    if joints in SMPL_COUNTS:
        return HUMANML, *smpl_joints(joints)
    return None


def joints_clip(
    joints: Tensor,  # [T, J, 3]; J is 22 (24, 52 and 55 are SMPL's bodies with hands) or KIT's 21
    options: ReadOptions,  # unit, vertical axis and frame rate; ``auto`` is guessed from legs and trunk
    kind: str,  # the format, for the notes
    part: str = "",  # `Clip.part`
) -> Clip:
    """Return the clip of joints in any unit and axes."""
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
    fps = options.fps or skeleton.fps
    if options.up == "auto":
        up, said = weigh(joints[finite], names, parents, fps, "y", _USUAL)
        warnings += filter(None, (said,))
    else:
        up = options.up
    joints = turn_points(joints, up)
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
    kit_unit = {"kit": LengthUnit("KIT units", KIT.unit)} if skeleton is KIT else {}
    name = nearest_unit(leg, PERSON_LEG, kit_unit)
    return name, (UNITS | kit_unit)[name].metres


def stacked_clips(
    stack: Sequence[Tensor],  # joints [T, J, 3], J the number of a known body
    parts: Sequence[str],  # `Clip.part` of each; empty for the only one
    options: ReadOptions,  # as in `joints_clip`
    origin: str,  # the file, for messages
    kind: str,  # the format, for the record
    faults: Mapping[int, MotionkitError] = _NO_FAULTS,  # errors of some clips that are already known, by number
) -> list[Clip]:
    """Return a clip for each motion of an array; one that cannot be used has a `Clip.fault` and is all NaN."""
    clips = [
        _clip(joints, part, options, kind, faults.get(number))
        for number, (joints, part) in enumerate(zip(stack, parts, strict=True))
    ]
    first = clips[0].fault
    if first is not None and all(clip.fault for clip in clips):
        place = f"{origin} ({parts[0]})" if parts[0] else origin
        raise MotionkitError(f"{place}: {first.message}", why=first.why, fix=first.fix)
    return clips


def _clip(joints: Tensor, part: str, options: ReadOptions, kind: str, fault: MotionkitError | None) -> Clip:
    try:
        if fault is not None:
            raise fault
        return joints_clip(joints, options, kind, part)
    except MotionkitError as error:
        body = body_of(joints.shape[1])
        assert body is not None
        skeleton, names, parents = body
        empty = JointMotion(names, parents, torch.full_like(joints, math.nan, dtype=torch.float64), skeleton.fps)
        return Clip(empty, part=part, notes={"format": kind}, fault=error)
