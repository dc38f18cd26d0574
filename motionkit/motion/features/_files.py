"""Reading feature files safely."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from motionkit import weights
from motionkit.errors import MotionkitError
from motionkit.motion._skeleton import Skeleton
from motionkit.motion.features._layout import check_width
from motionkit.weights import read_numbers


def read_features(path: Path, skeleton: Skeleton) -> Tensor:
    """Read a ``new_joint_vecs`` file.

    Args:
        path: ``.npy`` with ``[T, D]`` numbers; nothing in it is executed.
        skeleton: Body whose width the features must have.

    Returns:
        ``[T, D]`` float32; may hold NaN.

    Raises:
        MotionkitError: The file is missing, is no plain numeric array, or has another width.
    """
    if not path.exists():
        raise MotionkitError(f"there is no motion {path}.", why="a caption or a split list names it.")
    features = torch.from_numpy(weights.cast(read_numbers(path), np.float32))
    check_width(features, skeleton, str(path))
    if features.ndim != 2:
        raise MotionkitError(f"{path} has shape {list(features.shape)}; expected [frames, {skeleton.width}].")
    return features
