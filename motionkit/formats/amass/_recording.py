"""The arrays of an SMPL motion file, checked."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from motionkit import weights
from motionkit.errors import MotionkitError
from motionkit.motion._motion import check_size, is_fps
from motionkit.motion._skeleton import HUMANML
from motionkit.weights import read_array

LIMIT = 2 << 30
"""Bytes that are read of a file; an hour of SMPL-X at 120 frames per second has a third of it."""

_KINDS = {66: "the body alone", 72: "SMPL", 156: "SMPL-H", 165: "SMPL-X"}
_ASK = "pass it: --source-fps 120."
_BODY = 3 * HUMANML.joints
_FPS = ("mocap_framerate", "mocap_frame_rate", "mocap_fps", "framerate", "frame_rate", "fps")
_WANTED = frozenset((
    "poses", "root_orient", "global_orient", "pose_body", "body_pose", "trans", "transl", "betas", "gender",
    "surface_model_type", *_FPS,
))  # fmt: skip


@dataclass(frozen=True)
class Recording:
    """What an SMPL motion file holds.

    Attributes:
        rotations: ``[T, 22, 3]`` float64 axis-angle, each relative to its parent; the pelvis' to the file's world.
        places: ``[T, 3]`` float64 metres, ``trans``.
        finite: ``[T]`` which frames hold finite values only.
        fps: Frames per second.
        betas: Shape coefficients; empty when the file has none.
        gender: ``male``, ``female``, ``neutral``, or empty.
        kind: The body model.
    """

    rotations: Tensor
    places: Tensor
    finite: Tensor
    fps: float
    betas: Tensor
    gender: str
    kind: str


def read_recording(path: Path, fps: float) -> Recording:
    """Read and check a file's arrays.

    Args:
        path: The ``.npz``.
        fps: Frame rate for a file without one; 0 for none.

    Raises:
        MotionkitError: Damaged, too large, something is missing or has a wrong shape, or no frame is finite.
    """
    data = read_array(path, limit=LIMIT, wanted=lambda name: name in _WANTED)
    if not isinstance(data, Mapping):
        raise MotionkitError(f"{path} is no .npz of several arrays, as AMASS' are.")
    poses, kind = _poses(data, path)
    places = _numbers(data, ("trans", "transl"), path)
    if places is None:
        raise MotionkitError(f"{path} has no trans: where the body goes is not known.", why=_listed(data))
    if places.shape != (len(poses), 3):
        raise MotionkitError(f"{path}: trans has shape {list(places.shape)}; the poses need [{len(poses)}, 3].")
    check_size(len(poses), HUMANML.joints)
    rotations, roots = _doubles(poses).reshape(len(poses), HUMANML.joints, 3), _doubles(places)
    angles = rotations.square().sum(dim=-1)  # 1e300 rad has no matrix
    finite = torch.isfinite(angles).all(dim=-1) & torch.isfinite(roots).all(dim=-1)
    if not bool(finite.any()):
        raise MotionkitError(f"{path} has no frame whose values are all finite.")
    betas = _betas(data, path)
    stated = _word(data.get("surface_model_type")).lower()
    kind = {"smpl": "SMPL", "smplh": "SMPL-H", "smplx": "SMPL-X"}.get(stated, kind)
    return Recording(rotations, roots, finite, _fps(data, path, fps), betas, _word(data.get("gender")).lower(), kind)


def _poses(data: Mapping[str, Any], path: Path) -> tuple[NDArray[Any], str]:
    """Return ``[T, 66]`` axis-angle of the body as stored, the pelvis first, and which model they are for."""
    poses = _numbers(data, ("poses",), path)
    if poses is None:
        root = _numbers(data, ("root_orient", "global_orient"), path)
        body = _numbers(data, ("pose_body", "body_pose"), path)
        if root is None or body is None:
            raise MotionkitError(f"{path} has no poses, nor root_orient and pose_body.", why=_listed(data))
        if len(root) != len(body):
            raise MotionkitError(f"{path}: root_orient has {len(root)} frames, pose_body {len(body)}.")
        if len(root):
            poses = np.concatenate([part.reshape(len(part), -1) for part in (root, body)], axis=1)
        else:
            poses = root
    if poses.ndim == 3 and poses.shape[-1] == 3:
        poses = poses.reshape(len(poses), 3 * poses.shape[1])
    if poses.ndim != 2 or len(poses) == 0 or poses.shape[1] not in _KINDS:
        raise MotionkitError(
            f"{path}: poses have shape {list(poses.shape)}.",
            why="[frames, width] with width 156 (SMPL-H), 165 (SMPL-X), 72 (SMPL) or 66 (the body) is read.",
        )
    return poses[:, :_BODY], _KINDS[poses.shape[1]]


def _betas(data: Mapping[str, Any], path: Path) -> Tensor:
    """Return the shape, empty without one; where it is repeated in every frame, that of the first."""
    stored = _numbers(data, ("betas",), path)
    if stored is None or not stored.size:
        return torch.zeros(0, dtype=torch.float64)
    betas = _doubles(stored.reshape(-1, stored.shape[-1])[0])
    if not bool(torch.isfinite(betas).all()):
        raise MotionkitError(f"{path}: betas are not finite.")
    return betas


def _numbers(data: Mapping[str, Any], names: Sequence[str], path: Path) -> NDArray[Any] | None:
    """Return the first of `names` that is there, as stored."""
    for name in names:
        if name in data:
            value = data[name]
            if not isinstance(value, np.ndarray) or value.dtype.kind not in "fiu" or value.ndim == 0:
                raise MotionkitError(f"{path}: {name} is no array of numbers.")
            return value
    return None


def _doubles(array: NDArray[Any]) -> Tensor:
    return torch.from_numpy(weights.cast(array, np.float64))


def _fps(data: Mapping[str, Any], path: Path, given: float) -> float:
    """Return the file's frame rate, or the one the user gave where it has none."""
    for name in _FPS:
        if name in data:
            value = np.asarray(data[name]).reshape(-1)
            fps = float(value[0]) if value.size == 1 and value.dtype.kind in "fiu" else math.nan
            if is_fps(fps):
                return fps
            if not given:
                raise MotionkitError(f"{path}: {name} is {value[:3].tolist()}, no frame rate.", fix=_ASK)
    if not given:
        raise MotionkitError(f"{path} does not say its frame rate.", why=_listed(data), fix=_ASK)
    return given


def _word(value: Any) -> str:
    """Return a text stored as an array of no dimension, as bytes or as text; empty when there is none."""
    if isinstance(value, np.ndarray):
        value = value.reshape(-1)[0] if value.size == 1 else ""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    text = str(value) if isinstance(value, str) else ""
    return text[2:-1] if text.startswith(("b'", 'b"')) else text


def _listed(data: Mapping[str, Any]) -> str:
    return f"of what is looked for it has {', '.join(sorted(data)) or 'nothing'}."
