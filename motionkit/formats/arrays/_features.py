"""HumanML3D and KIT features: single files."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from motionkit import weights
from motionkit.errors import MotionkitError
from motionkit.formats.arrays._joints import LIMIT
from motionkit.motion._clip import Clip, ReadOptions
from motionkit.motion._motion import JointMotion, check_size
from motionkit.motion._skeleton import HUMANML, KIT, Skeleton
from motionkit.motion.features._layout import feature_layout
from motionkit.motion.features._recover import features_to_joints
from motionkit.motion.frames import finite_frames, finite_warning, nearest_finite
from motionkit.weights import read_array

_PLAIN = ReadOptions()


def read_features_file(path: Path, options: ReadOptions = _PLAIN) -> Sequence[Clip]:
    """Read features of one motion, ``[T, 263]`` (HumanML3D) or ``[T, 251]`` (KIT), as ``new_joint_vecs`` holds them.

    Args:
        path: ``.npy``; nothing in it is executed.
        options: ``fps`` when it is not the format's own 20 or 12.5; features are in metres (KIT: its own unit) with
            Y up by definition, so unit and axis do not count.

    Returns:
        One clip with its features and the joints recovered from their positions.

    Raises:
        MotionkitError: No readable array, another width, no row that is finite, or features that are normalised with
            Mean and Std.

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
        raise MotionkitError(f"{path} holds no plain numbers.")
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

    Rows with a value that is not finite have NaN for joints. Joints are summed up from the velocities of all rows
    before them; such a row counts there like the one before it. What comes after is sound on its own: only how it lies
    to what came before is a guess, and no run of clean frames goes across.

    Raises:
        MotionkitError: No row is finite, or the features look normalised.
    """
    finite = finite_frames(features)
    if not bool(finite.any()):
        raise MotionkitError(f"{origin} has no frame whose values are all finite.")
    if looks_normalised(features, skeleton):
        raise MotionkitError(
            f"{origin} does not look like {skeleton.name} features: its rotations are none.",
            why="features that were normalised for a network look so.",
            fix="undo it with the Mean.npy and Std.npy they were normalised with: features * Std + Mean.",
        )
    joints = features_to_joints(features[nearest_finite(finite)].double(), skeleton)
    joints[~finite] = math.nan
    rate = fps or skeleton.fps
    motion = JointMotion(skeleton.joint_names, skeleton.parents, joints, rate)
    notes = {"format": f"{skeleton.name} features", "unit": "m", "fps": f"{rate:g}", "frames": str(len(features))}
    return Clip(motion, features=features.float(), notes=notes, warnings=tuple(finite_warning(finite)))


def looks_normalised(features: Tensor, skeleton: Skeleton) -> bool:
    """Return True when the stored rotation columns are far from unit length, which no motion's are."""
    rotations = features[:, feature_layout(skeleton).rotations]
    lengths = rotations.reshape(len(features), -1, 3).norm(dim=-1)
    lengths = lengths[torch.isfinite(lengths)]
    return len(lengths) > 0 and float((lengths - 1.0).abs().median()) > 0.3
