"""AMASS and other SMPL motions: rotations of a body model without the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from motionkit.formats.amass._recording import Recording, read_recording
from motionkit.geometry._kinematics import positions_from_bones
from motionkit.motion._clip import Clip, ReadOptions
from motionkit.motion._motion import Motion
from motionkit.motion._skeleton import HUMANML
from motionkit.motion.frames import finite_warning
from motionkit.rigs._smpl import default_rest
from motionkit.rigs._smpl_model import find_smpl_model, read_smpl_model

_PLAIN = ReadOptions()

_PIECE = 4096
"""Frames that are worked on at once."""

_TO_HOUSE = ((-1.0, 0.0, 0.0), (0.0, 0.0, 1.0), (0.0, 1.0, 0.0))
"""From AMASS' world (Z up) to ours. HumanML3D takes (x, y, z) to (x, z, y) and then turns the sign of x: together
the proper rotation (-x, z, y), so joints are where HumanML3D has them before it moves a clip to the origin."""


def read_amass(path: Path, options: ReadOptions = _PLAIN) -> Sequence[Clip]:
    """Read an AMASS ``.npz`` or another one with SMPL, SMPL-H or SMPL-X rotations.

    Rotations are the file's own, so no body-model file is needed: only where the joints lie at rest is not in it.
    Without `ReadOptions.smpl_model` that is a body of HumanML3D's bone lengths in SMPL's rest pose, and the file's
    shape (betas) does not count; with it, the joints are those of the file's shape and gender, by
    ``J_regressor (v_template + shapedirs betas)``.

    Args:
        path: ``poses [T, 66 | 72 | 156 | 165]`` axis-angle (or ``root_orient`` and ``pose_body``), ``trans [T, 3]``
            in metres, ``mocap_framerate`` or another name for it, ``betas``, ``gender``.
        options: ``fps`` for files without; ``up`` is Z as in AMASS unless the trunk points along Y; ``smpl_model``,
            a file or a folder with one per gender.

    Returns:
        One clip: a `Motion` on the 22 body joints, in house space. Fingers, jaw and eyes are not read; a note
        names them. Frames with NaN stay, with a warning.

    Raises:
        MotionkitError: Damaged, too large, something is missing or has a wrong shape, or no value is finite.

    Example:
        >>> import numpy as np
        >>> np.savez("stand.npz", poses=np.zeros((30, 156)), trans=np.zeros((30, 3)), mocap_framerate=120.0)
        >>> (clip,) = read_amass(Path("stand.npz"))
        >>> clip.motion.names[:3], clip.notes["body"]
        (('pelvis', 'left_hip', 'right_hip'), "default (the file's betas do not count)")
    """
    recording = read_recording(path, options.fps)
    if options.smpl_model is None:
        rest, body = default_rest(), "default (the file's betas do not count)"
    else:
        model = find_smpl_model(options.smpl_model, recording.gender)
        rest, body = read_smpl_model(model).rest(recording.betas), model.name
    motion, up, warnings = _build(recording, rest, options)
    notes = {
        "format": f"SMPL rotations ({recording.kind})",
        "unit": "m",
        "up": up,
        "fps": f"{recording.fps:g}",
        "frames": str(motion.frames),
        "gender": recording.gender or "not said",
        "body": body,
    }
    if recording.kind in ("SMPL", "SMPL-H", "SMPL-X"):
        notes["not read"] = "hands" if recording.kind != "SMPL-X" else "fingers, jaw and eyes"
    return (Clip(motion, notes=notes, warnings=tuple(warnings)),)


def _build(recording: Recording, rest: Tensor, options: ReadOptions) -> tuple[Motion, str, list[str]]:
    """Return the motion in house space, the file's vertical axis, and what should be looked at."""
    finite = recording.finite
    warnings = finite_warning(finite)
    rotations = _matrices(recording.rotations)
    translations = rest.expand(len(rotations), -1, -1).clone()
    translations[:, 0] += recording.places
    offsets = rest.clone()
    heights = positions_from_bones(rest, HUMANML.parents)[:, 1]
    offsets[0] = rest.new_tensor([0.0, float(rest[0, 1] - heights.min()), 0.0])
    motion = Motion(HUMANML.joint_names, HUMANML.parents, offsets, rotations, translations, recording.fps)
    up = options.up
    if up == "auto":
        up = "y" if _trunk(motion, finite)[1] > 0.8 else "z"
        if up == "y":
            warnings.append("the trunk points along Y, so Y was taken for the vertical: if that is wrong, pass --up z.")
    if up == "z":
        turn = rest.new_tensor(_TO_HOUSE)
        rotations[:, 0] = turn @ rotations[:, 0]
        translations[:, 0] = translations[:, 0] @ turn.T
        motion = replace(motion, rotations=rotations, translations=translations)
    return motion, up, warnings


def _matrices(vectors: Tensor) -> Tensor:
    """Return matrices ``[T, J, 3, 3]`` of axis-angle ``[T, J, 3]``, piece by piece: the steps take much memory."""
    import roma

    matrices = vectors.new_empty(*vectors.shape, 3)
    for start in range(0, len(vectors), _PIECE):
        part = slice(start, start + _PIECE)
        matrices[part] = roma.rotvec_to_rotmat(vectors[part])
    return matrices


def _trunk(motion: Motion, finite: Tensor) -> Tensor:
    """Return the median direction from pelvis to neck in the file's world; in an AMASS world it is along Z.

    A long motion is looked at in frames from all over it.
    """
    frames = finite.nonzero()[:, 0]
    frames = frames[:: max(1, len(frames) // _PIECE)]
    seen = replace(motion, rotations=motion.rotations[frames], translations=motion.translations[frames])
    positions = seen.positions()
    trunk = positions[:, HUMANML.index("neck")] - positions[:, 0]
    return torch.nn.functional.normalize(trunk, dim=-1).median(dim=0).values
