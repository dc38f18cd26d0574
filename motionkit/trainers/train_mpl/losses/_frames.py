"""What losses compare, and means over the frames that count."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from motionkit.motion.prediction._state import MotionState
from motionkit.policies.mpl._predicted import Predicted


@dataclass(frozen=True)
class Skeleton:
    """What losses need to know of a skeleton and of the data.

    Attributes:
        parents: Parent of each joint, -1 for joint 0.
        limbs: Joints of the limbs by name.
        feet: Joint of the left and of the right foot; None where they are not found.
        fps: Frames per second.
        root_std: ``[4]`` deviations of the root's steps per second and of its height.
    """

    parents: tuple[int, ...]
    limbs: Mapping[str, int]
    feet: tuple[int, int] | None
    fps: float
    root_std: Tensor


@dataclass(frozen=True)
class Frames:
    """Predicted frames and the true ones.

    Attributes:
        predicted: ``[N, F, ...]``.
        truth: ``[N, F, ...]``.
        last: ``[N, 1, ...]`` the known frame before the first.
        weights: ``[N, F]`` of each frame; 0 where the truth is filled up. They sum to 1.
        offsets: ``[N, J, 3]`` metres.
        contacts_known: ``[N]`` bool.
        told: ``[N]`` bool: windows that are told their path.
    """

    predicted: Predicted
    truth: MotionState
    last: MotionState
    weights: Tensor
    offsets: Tensor
    contacts_known: Tensor
    told: Tensor

    @property
    def true_turn(self) -> Tensor:
        """``[N, F, J, 3, 3]``: the true turn of each joint since the frame before."""
        rotations = self.truth.rotations
        return rotations @ torch.cat([self.last.rotations, rotations[:, :-1]], dim=1).mT

    def mean(self, values: Tensor) -> Tensor:
        """Return the weighted mean of ``[N, F]`` values; frames of weight 0 count nothing, NaN in them included."""
        return torch.where(self.weights > 0, values, 0.0).mul(self.weights).sum()


def frame_weights(mask: Tensor, fade: float) -> Tensor:
    """Return weights ``[N, F]`` that sum to 1: frame t of the valid ones weighs ``t ** -fade``.

    Args:
        mask: ``[N, F]`` bool, True for real frames.
        fade: 0 weighs all frames alike.
    """
    frames = torch.arange(1, mask.shape[1] + 1, device=mask.device, dtype=torch.float32)
    weights = mask * frames**-fade
    return weights / weights.sum().clamp_min(1e-12)
