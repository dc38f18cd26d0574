"""HumanML3D-style feature rows: their layout, reading them, Mean and Std, and rows of a mirrored or resized body."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from motionkit import weights
from motionkit.errors import MotionkitError
from motionkit.motion.skeleton import Skeleton
from motionkit.weights import read_numbers


@dataclass(frozen=True)
class FeatureLayout:
    """Slices of one feature row (HumanML3D, Guo et al., CVPR 2022), in stored order."""

    yaw_rate: slice  # 1 value, half the yaw per frame in radians
    root_velocity: slice  # 2 values, x and z per frame in the next frame's heading
    root_height: slice  # 1 value
    positions: slice  # 3 (J-1) values, joints without the root in the frame's heading, root x and z removed
    rotations: slice  # 6 (J-1) values, the first two columns of each joint's rotation
    velocities: slice  # 3 J values, displacement to the next frame in this frame's heading
    contacts: slice  # 4 values, the order of `Skeleton.feet`

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


def read_features(path: Path, skeleton: Skeleton) -> Tensor:
    """Read a ``new_joint_vecs`` file.

    Args:
        path: ``.npy`` with ``[T, D]`` numbers; nothing in it is executed.
        skeleton: Body whose width the features must have.

    Returns:
        ``[T, D]`` float32; may hold NaN.
    """
    if not path.exists():
        raise MotionkitError(f"there is no motion {path}.", why="a caption or a split list names it.")
    features = torch.from_numpy(weights.cast(read_numbers(path), np.float32))
    skeleton.check_width(features, str(path))
    if features.ndim != 2:
        raise MotionkitError(f"{path} has shape {list(features.shape)}; expected [frames, {skeleton.width}].")
    return features


class Normalizer:
    """Z-normalisation of features; the dataset's own statistics, never the evaluator's.

    Args:
        mean: ``[D]``.
        std: ``[D]``, finite and positive.

    Example:
        >>> normalizer = Normalizer(torch.tensor([1.0, 2.0]), torch.tensor([0.5, 2.0]))
        >>> normalizer.normalize(torch.tensor([[2.0, 2.0]]))
        tensor([[2., 0.]])
    """

    def __init__(self, mean: Tensor, std: Tensor) -> None:
        if mean.ndim != 1 or mean.shape != std.shape:
            shapes = f"{list(mean.shape)} and {list(std.shape)}"
            raise MotionkitError(f"Mean and Std must be two vectors of one width, got {shapes}.")
        if not bool(torch.isfinite(mean).all() and torch.isfinite(std).all() and (std > 0).all()):
            raise MotionkitError(
                "Mean or Std holds a value that cannot be used.", why="all must be finite, and every Std above zero."
            )
        self.mean = mean
        self.std = std

    @property
    def width(self) -> int:
        """Number of features D."""
        return self.mean.shape[0]

    def normalize(self, features: Tensor) -> Tensor:
        """Return ``(features - mean) / std``."""
        return (features - self.mean) / self.std

    def denormalize(self, features: Tensor) -> Tensor:
        """Return ``features * std + mean``."""
        return features * self.std + self.mean

    def to(self, device: torch.device | str) -> Normalizer:
        """Return the same statistics on `device`."""
        return Normalizer(self.mean.to(device), self.std.to(device))


def feature_stats(clips: Iterable[Tensor], skeleton: Skeleton) -> tuple[Tensor, Tensor]:
    """Return Mean and block-averaged Std over all frames, as HumanML3D stores them.

    Every frame counts once. Std is averaged within each of the seven blocks of a feature row, so that it has seven
    distinct values; a block that never varies gets 1.

    Args:
        clips: ``[T, D]`` features each, not normalised, all finite.
        skeleton: Body of the features.

    Returns:
        Mean and Std, each ``[D]`` float32.

    Example:
        >>> from motionkit.motion import HUMANML
        >>> mean, std = feature_stats([torch.randn(60, 263), torch.randn(40, 263)], HUMANML)
        >>> mean.shape, len(std.unique()) <= 7
        (torch.Size([263]), True)
    """
    count, total, square = 0, torch.zeros(skeleton.width).double(), torch.zeros(skeleton.width).double()
    shift: Tensor | None = None
    for clip in clips:
        skeleton.check_width(clip, "clip")
        frames = clip.double()
        if shift is None:
            # Sums about a value near the mean keep the variance of large, steady features (KIT heights) exact.
            shift = frames.mean(dim=0)
        frames = frames - shift
        count += len(frames)
        total += frames.sum(dim=0)
        square += frames.square().sum(dim=0)
    if count == 0 or shift is None:
        raise MotionkitError("there are no frames to take Mean and Std of.")
    mean = total / count
    std = (square / count - mean.square()).clamp_min(0.0).sqrt()
    for block in feature_layout(skeleton).blocks:
        average = std[block].mean()
        std[block] = average if average > 1e-8 else 1.0
    return (mean + shift).float(), std.float()


def mirror(joints: Tensor, skeleton: Skeleton) -> Tensor:
    """Return joints ``[..., J, 3]`` reflected in x, with left and right joints swapped.

    Example:
        >>> import torch
        >>> from motionkit.motion import HUMANML
        >>> joints = torch.zeros(22, 3)
        >>> joints[HUMANML.index("left_wrist")] = torch.tensor([0.7, 1.4, 0.0])
        >>> mirror(joints, HUMANML)[HUMANML.index("right_wrist")]
        tensor([-0.7000,  1.4000,  0.0000])
    """
    return joints[..., list(skeleton.mirror_order), :] * joints.new_tensor([-1.0, 1.0, 1.0])


def mirror_features(features: Tensor, skeleton: Skeleton) -> Tensor:
    """Return feature rows ``[..., T, D]`` (not normalised) of the motion reflected in x, left and right swapped.

    The same as the features of mirrored joints, by a permutation of columns.

    Example:
        >>> from motionkit.motion import HUMANML
        >>> row = torch.zeros(1, HUMANML.width)
        >>> row[0, 0] = 0.1  # turns to the left
        >>> float(mirror_features(row, HUMANML)[0, 0])
        -0.10000000149011612
    """
    skeleton.check_width(features)
    order, signs = _mirrored_columns(skeleton)
    return features[..., order.to(features.device)] * signs.to(features)


@cache
def _mirrored_columns(skeleton: Skeleton) -> tuple[Tensor, Tensor]:
    """Return for every feature the column that it comes from, and its sign: ``[D]`` each."""
    layout = feature_layout(skeleton)
    order, signs = torch.arange(skeleton.width), torch.ones(skeleton.width)
    signs[layout.yaw_rate] = -1.0
    signs[layout.root_velocity.start] = -1.0
    partners = torch.tensor(skeleton.mirror_order)
    # A rotation R becomes M R M with M = diag(-1, 1, 1); stored are its first two columns.
    turned = [1.0, -1.0, -1.0, -1.0, 1.0, 1.0]
    for block, first, sign in (
        (layout.positions, 1, [-1.0, 1.0, 1.0]),
        (layout.rotations, 1, turned),
        (layout.velocities, 0, [-1.0, 1.0, 1.0]),
    ):
        width = len(sign)
        joints = partners[first:] - first
        order[block] = block.start + (joints[:, None] * width + torch.arange(width)).flatten()
        signs[block] = torch.tensor(sign).repeat(len(joints))
    feet = list(skeleton.feet)
    order[layout.contacts] = torch.tensor(
        [layout.contacts.start + feet.index(skeleton.mirror_order[foot]) for foot in feet]
    )
    return order, signs


def resize_features(features: Tensor, skeleton: Skeleton, factor: Tensor) -> Tensor:
    """Return feature rows ``[..., T, D]`` (not normalised) of a body `factor` times as large, its path with it.

    Contacts stay.
    """
    skeleton.check_width(features)
    layout, resized = feature_layout(skeleton), features.clone()
    for block in (layout.root_velocity, layout.root_height, layout.positions, layout.velocities):
        resized[..., block] *= factor
    return resized
