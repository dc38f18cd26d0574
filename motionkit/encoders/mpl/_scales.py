"""Scales of what the encoder reads and gives, of the clips that it is trained on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from motionkit.encoders.mpl._inputs import FEET
from motionkit.geometry._rotations import matrix_to_6d

_FLOOR = 0.3
"""Smallest deviation of a feature, as a share of the median one of its kind: joints at rest have noise only."""


@dataclass(frozen=True)
class Scales:
    """Statistics of training frames.

    Attributes:
        mean: ``[2 + 9 J]`` of `frame_features`.
        std: ``[2 + 9 J]`` deviation, with a floor.
        turn_std: ``[6 J]`` root mean square of the turns to the pose ahead, in 6D, minus the identity.
    """

    mean: Tensor
    std: Tensor
    turn_std: Tensor

    @classmethod
    def neutral(cls, joints: int) -> Self:
        """Return scales that change nothing, for an encoder whose own are loaded after it was made."""
        width = FEET + 9 * joints
        return cls(torch.zeros(width), torch.ones(width), torch.ones(6 * joints))

    @classmethod
    def of(cls, features: Sequence[Tensor], rotations: Sequence[Tensor], ahead: int) -> Self:
        """Measure clips.

        Args:
            features: ``[T, 2 + 9 J]`` of each clip.
            rotations: ``[T, J, 3, 3]`` of each clip.
            ahead: Frames to the pose ahead.
        """
        rows = torch.cat(list(features)).double()
        joints = (rows.shape[1] - FEET) // 9
        parts = rows.std(0, correction=0).split([FEET, 3 * joints, 6 * joints])
        std = torch.cat([_floored(part) for part in parts])
        turns = torch.cat([clip[ahead:] @ clip[: len(clip) - ahead].mT for clip in rotations]).double()
        if not len(turns):  # no clip is longer
            turns = torch.eye(3, dtype=torch.float64).expand(1, joints, 3, 3)
        size = turn_residual(turns).flatten(-2).square().mean(0).sqrt()
        return cls(rows.mean(0).float(), std.float(), _floored(size).float())


def turn_residual(turns: Tensor) -> Tensor:
    """Return turns ``[..., 3, 3]`` in 6D minus the identity, ``[..., 6]``."""
    return matrix_to_6d(turns) - matrix_to_6d(torch.eye(3).to(turns))


def _floored(std: Tensor) -> Tensor:
    return std.clamp_min(max(_FLOOR * float(std.median()), 1e-3))
