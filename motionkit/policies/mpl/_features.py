"""States as vectors that a network reads, and their statistics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from motionkit.geometry import matrix_to_6d
from motionkit.motion.prediction import MotionState

ROOT = 4
"""Features of the root's motion: its step per second (x, z, turn) and its height."""

FEET = 2
_FLOOR = 0.5
"""Smallest deviation of a rotation's feature, as a share of the median one: joints that hardly move."""

_LARGEST_TURN = 0.5
"""Turns per frame are cut at this for their scale, in 6D: glitches of recorded motion."""


def width_of(joints: int) -> int:
    """Return D, the features of a frame."""
    return 6 * joints + ROOT + FEET


def pack(state: MotionState, fps: float) -> Tensor:
    """Return ``[..., T, D]``: 6D rotations, steps per second, height, contacts."""
    six = matrix_to_6d(state.rotations).flatten(-2)
    return torch.cat([six, state.steps * fps, state.heights[..., None], state.contacts], dim=-1)


@dataclass(frozen=True)
class Statistics:
    """Scales of what a network reads and gives, of the training frames.

    Attributes:
        mean: ``[D]`` of frames.
        std: ``[D]`` of frames.
        lag_std: ``[L, D]`` root mean square of the difference to each earlier frame that is read.
        turn_std: ``[6 J]`` root mean square of the turns per frame minus the identity.
        root_std: ``[4]`` root mean square of the change of the root's features per frame.
    """

    mean: Tensor
    std: Tensor
    lag_std: Tensor
    turn_std: Tensor
    root_std: Tensor

    @classmethod
    def neutral(cls, joints: int, lags: int) -> Statistics:
        """Return statistics that change nothing, for a network whose own are loaded after it was made."""
        width = width_of(joints)
        return cls(
            torch.zeros(width), torch.ones(width), torch.ones(lags, width), torch.ones(6 * joints), torch.ones(ROOT)
        )

    @classmethod
    def of(cls, clips: Sequence[MotionState], fps: float, lags: Sequence[int]) -> Statistics:
        """Measure clips, each ``[T, ...]``; no difference crosses the border between two of them."""
        packed = [pack(clip, fps).double() for clip in clips]
        frames = torch.cat(packed)
        joints = clips[0].rotations.shape[-3]
        turns = torch.cat([clip.rotations[1:] @ clip.rotations[:-1].mT for clip in clips]).double()
        rest = matrix_to_6d(torch.eye(3, dtype=turns.dtype))
        residual = (matrix_to_6d(turns) - rest).flatten(-2).clamp(-_LARGEST_TURN, _LARGEST_TURN)
        changes = torch.cat([clip.diff(dim=0) for clip in packed])[:, 6 * joints : 6 * joints + ROOT]
        late = [torch.cat([clip[lag:] - clip[:-lag] for clip in packed if len(clip) > lag] or [frames]) for lag in lags]
        return cls(
            frames.mean(0).float(),
            _floored(frames.std(0, correction=0), joints),
            torch.stack([_floored(_rms(one), joints) for one in late]),
            _floored(_rms(residual), joints),
            _rms(changes).clamp_min(1e-4).float(),
        )


def _rms(values: Tensor) -> Tensor:
    return values.square().mean(0).sqrt()


def _floored(deviation: Tensor, joints: int) -> Tensor:
    """Lift the small deviations of rotations, and keep those of the others from zero."""
    turned, others = deviation[: 6 * joints], deviation[6 * joints :]
    floor = max(float(turned.median()) * _FLOOR, 1e-4)
    return torch.cat([turned.clamp_min(floor), others.clamp_min(1e-3)]).float()
