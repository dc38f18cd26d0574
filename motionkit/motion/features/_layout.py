"""Layout of a HumanML3D-style feature row, and reading files of such rows."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from motionkit import weights
from motionkit.errors import MotionkitError
from motionkit.motion._skeleton import Skeleton
from motionkit.weights import read_numbers


@dataclass(frozen=True)
class FeatureLayout:
    """Slices of one feature row (HumanML3D, Guo et al., CVPR 2022), in stored order.

    Attributes:
        yaw_rate: 1 value, half the yaw per frame in radians.
        root_velocity: 2 values, x and z per frame in the next frame's heading.
        root_height: 1 value.
        positions: 3 (J-1) values, joints without the root in the frame's heading, root x and z removed.
        rotations: 6 (J-1) values, the first two columns of each joint's rotation.
        velocities: 3 J values, displacement to the next frame in this frame's heading.
        contacts: 4 values, the order of `Skeleton.feet`.
    """

    yaw_rate: slice
    root_velocity: slice
    root_height: slice
    positions: slice
    rotations: slice
    velocities: slice
    contacts: slice

    @property
    def blocks(self) -> tuple[slice, ...]:
        """The seven blocks, in order."""
        return (
            self.yaw_rate, self.root_velocity, self.root_height, self.positions, self.rotations, self.velocities,
            self.contacts,
        )  # fmt: skip


def feature_layout(skeleton: Skeleton) -> FeatureLayout:
    """Return the slices of `skeleton`'s feature rows."""
    sizes = (1, 2, 1, 3 * (skeleton.joints - 1), 6 * (skeleton.joints - 1), 3 * skeleton.joints, 4)
    ends = [sum(sizes[: place + 1]) for place in range(len(sizes))]
    return FeatureLayout(*(slice(end - size, end) for end, size in zip(ends, sizes, strict=True)))


def feature_width(skeleton: Skeleton) -> int:
    """Return the number of features per frame: 263 for `HUMANML`, 251 for `KIT`."""
    return skeleton.width


def check_width(features: Tensor, skeleton: Skeleton, name: str = "features") -> None:
    """Refuse features whose last dimension is not the skeleton's width.

    Raises:
        MotionkitError: The width is another; the message says which body it would fit, if any.
    """
    if features.ndim >= 2 and features.shape[-1] == skeleton.width:
        return
    shape = list(features.shape)
    known = {263: "HumanML3D (22 joints)", 251: "KIT-ML (21 joints)"}.get(shape[-1] if shape else 0, "no known body")
    raise MotionkitError(
        f"{name} have shape {shape}; the last dimension should be {skeleton.width} for the {skeleton.name} body.",
        why=f"a width of {shape[-1] if shape else 0} belongs to {known}.",
        fix="use the dataset (humanml or kit) that the motion was made for.",
    )


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
