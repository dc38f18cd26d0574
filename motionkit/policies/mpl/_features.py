"""States as vectors, and what a network reads of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from motionkit.geometry._rotations import matrix_to_6d
from motionkit.motion.prediction._state import MotionState

ROOT = 4
"""Features of the root's motion: its step per second (x, z, turn) and its height."""

FEET = 2
_OTHERS = 0.5
"""Weight of root and contacts among what is read, in m/s, rad/s, m and shares, beside 6D rotations."""

_SPEED, _FADE, _FIRST = 8.0, 0.75, 1 / 30
"""A difference over t seconds is weighed by 8 (t / (1 / 30 s)) ** -0.75 beside the pose."""

_FLOOR = 0.3
"""Smallest scale of a joint's turns, as a share of the median one: joints that hardly move."""

_LARGEST_TURN = 0.5
"""Turns per frame are cut at this for their scale, in 6D: glitches of recorded motion."""


def width_of(joints: int) -> int:
    """Return D, the features of a frame."""
    return 6 * joints + ROOT + FEET


def pack(state: MotionState, fps: float) -> Tensor:
    """Return ``[..., T, D]``: 6D rotations, steps per second, height, contacts."""
    six = matrix_to_6d(state.rotations).flatten(-2)
    return torch.cat([six, state.steps * fps, state.heights[..., None], state.contacts], dim=-1)


def reading(now: Tensor, earlier: Tensor, mean: Tensor, lags: Sequence[int], fps: float) -> Tensor:
    """Return what a network reads: the pose, its differences to earlier ones, root and contacts now and before.

    All rotations have one scale, and so have all their differences over one time: what moves little says little. A
    scale of its own for each joint would blow up the noise of joints at rest; it cost a tenth of the accuracy on CMU.

    Args:
        now: ``[..., D]`` frames as `pack` makes them.
        earlier: ``[..., L, D]`` the frames at `lags` before each.
        mean: ``[D]`` of the training frames.
        lags: L frames.
        fps: Frames per second.

    Returns:
        ``[..., reading_width]``.
    """
    six = now.shape[-1] - ROOT - FEET
    weights = [_SPEED * (lag / fps / _FIRST) ** -_FADE for lag in lags]
    late = (now[..., None, :six] - earlier[..., :six]) * now.new_tensor(weights)[:, None]
    centred = now - mean
    before = earlier[..., len(lags) // 2, six:] - mean[six:]
    return torch.cat([centred[..., :six], late.flatten(-2), _OTHERS * centred[..., six:], _OTHERS * before], dim=-1)


def reading_width(joints: int, lags: int) -> int:
    """Return the features of a `reading`."""
    return 6 * joints * (1 + lags) + 2 * (ROOT + FEET)


@dataclass(frozen=True)
class Statistics:
    """Scales of what a network reads and gives, of the training frames.

    Attributes:
        mean: ``[D]`` of frames.
        scale: ``[]`` mean deviation of a reading.
        turn_std: ``[6 J]`` root mean square of the turns per frame minus the identity.
        root_std: ``[4]`` root mean square of the change of the root's features per frame.
        pose_std: ``[D]`` deviation of frames.
    """

    mean: Tensor
    scale: Tensor
    turn_std: Tensor
    root_std: Tensor
    pose_std: Tensor

    @classmethod
    def neutral(cls, joints: int) -> Statistics:
        """Return statistics that change nothing, for a network whose own are loaded after it was made."""
        width = width_of(joints)
        return cls(
            torch.zeros(width), torch.ones(()), torch.ones(6 * joints), torch.ones(ROOT), torch.ones(width)
        )  # fmt: skip

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
        mean, far = frames.mean(0), max(lags)
        # A clip shorter than the longest difference stands still before its first frame.
        held = [torch.cat([clip[:1].expand(far, -1), clip]) for clip in packed]
        read = [reading(clip[far:], _earlier(clip, far, lags), mean, lags, fps) for clip in held]
        turned = _rms(residual)
        return cls(
            mean.float(),
            torch.cat(read).std(0, correction=0).mean().clamp_min(1e-4).float(),
            turned.clamp_min(max(float(turned.median()) * _FLOOR, 1e-4)).float(),
            _rms(changes).clamp_min(1e-4).float(),
            frames.std(0, correction=0).clamp_min(1e-3).float(),
        )


def _earlier(clip: Tensor, far: int, lags: Sequence[int]) -> Tensor:
    return torch.stack([clip[far - lag : len(clip) - lag] for lag in lags], dim=1)


def _rms(values: Tensor) -> Tensor:
    return values.square().mean(0).sqrt()
