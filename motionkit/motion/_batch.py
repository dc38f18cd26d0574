"""A padded batch of motions in feature space, with joints recovered once on demand."""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor

from motionkit.motion.features.recover import features_to_joints, root_trajectory
from motionkit.motion.skeleton import Skeleton


class MotionBatch:
    """N motions of one skeleton, unnormalised.

    Args:
        features: ``[N, T, D]`` HumanML3D- or KIT-style features, not normalised; padding may hold anything.
        lengths: ``[N]`` int64, on the device of `features`.
        skeleton: Body that the features describe (fixes D and J).
        fps: Frames per second.

    Example:
        >>> from motionkit.motion import HUMANML
        >>> batch = MotionBatch(torch.zeros(2, 40, 263), torch.tensor([40, 25]), skeleton=HUMANML, fps=20.0)
        >>> batch.joints.shape, batch.mask.sum(dim=1).tolist()
        (torch.Size([2, 40, 22, 3]), [40, 25])
    """

    def __init__(self, features: Tensor, lengths: Tensor, *, skeleton: Skeleton, fps: float) -> None:
        self.features = features
        self.lengths = lengths
        self.skeleton = skeleton
        self.fps = fps

    def __len__(self) -> int:
        return self.features.shape[0]

    @property
    def device(self) -> torch.device:
        """Device of the features."""
        return self.features.device

    @cached_property
    def mask(self) -> Tensor:
        """``[N, T]`` bool, True = valid."""
        return torch.arange(self.features.shape[1], device=self.features.device) < self.lengths[:, None]

    @cached_property
    def joints(self) -> Tensor:
        """``[N, T, J, 3]`` joint positions in metres, Y up, recovered from the features; padding is finite."""
        return features_to_joints(self.features, self.skeleton, self.lengths)

    @cached_property
    def headings(self) -> Tensor:
        """``[N, T]`` radians about +Y, 0 for +Z, as the features have them; padding is finite."""
        return root_trajectory(self.features, self.skeleton, self.lengths)[0]

    def detach(self) -> MotionBatch:
        """Return the same motions without a graph; the batch itself where there is none."""
        if not self.features.requires_grad:
            return self
        plain = MotionBatch(self.features.detach(), self.lengths, skeleton=self.skeleton, fps=self.fps)
        if "joints" in self.__dict__:  # recovered before: need not be recovered again
            plain.joints = self.joints.detach()
        return plain
