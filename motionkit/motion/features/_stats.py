"""Mean and Std of features, and normalising with them."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.motion._skeleton import Skeleton
from motionkit.motion.features._layout import check_width, feature_layout


class Normalizer:
    """Z-normalisation of features; the dataset's own statistics, never the evaluator's.

    Args:
        mean: ``[D]``.
        std: ``[D]``, finite and positive.

    Raises:
        MotionkitError: Shapes differ, or a value is not finite, or a std is not positive.

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

    Raises:
        MotionkitError: No frames, or a wrong width.

    Example:
        >>> from motionkit.motion import HUMANML
        >>> mean, std = feature_stats([torch.randn(60, 263), torch.randn(40, 263)], HUMANML)
        >>> mean.shape, len(std.unique()) <= 7
        (torch.Size([263]), True)
    """
    count, total, square = 0, torch.zeros(skeleton.width).double(), torch.zeros(skeleton.width).double()
    shift: Tensor | None = None
    for clip in clips:
        check_width(clip, skeleton, "clip")
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
