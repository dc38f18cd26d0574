"""Reading feature files safely."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.motion._skeleton import Skeleton
from motionkit.motion.features._layout import check_width


def read_features(path: Path, skeleton: Skeleton) -> Tensor:
    """Read a ``new_joint_vecs`` file.

    Args:
        path: ``.npy`` with ``[T, D]`` numbers; pickled content is refused, never executed.
        skeleton: Body whose width the features must have.

    Returns:
        ``[T, D]`` float32; may hold NaN.

    Raises:
        MotionkitError: The file is missing, is no plain numeric array, or has another width.
    """
    try:
        array = np.load(path, allow_pickle=False)
    except FileNotFoundError as error:
        raise MotionkitError(f"there is no motion {path}.", why="a caption or a split list names it.") from error
    except (ValueError, OSError, EOFError) as error:
        raise MotionkitError(f"{path} is not a readable .npy array: {error}") from error
    if array.dtype.kind not in "fiu":
        raise MotionkitError(f"{path} holds {array.dtype} values, not numbers.")
    features = torch.from_numpy(np.ascontiguousarray(array, dtype=np.float32))
    check_width(features, skeleton, str(path))
    if features.ndim != 2:
        raise MotionkitError(f"{path} has shape {list(features.shape)}; expected [frames, {skeleton.width}].")
    return features
