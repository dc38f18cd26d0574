"""What the encoder reads of a frame: contacts, angular velocity, and the poses up to it."""

from __future__ import annotations

import torch
from torch import Tensor

from motionkit.geometry._rotations import matrix_to_6d
from motionkit.motion.prediction._state import MotionState

FEET = 2


def frame_features(state: MotionState, fps: float) -> Tensor:
    """Return ``[..., T, 2 + 9 J]``: contacts 2, angular velocity 3 J in rad/s, 6D pose 6 J.

    The velocity is the log of the turn ``R_t R_(t-1)^T`` since the frame before, times `fps`; in the first frame,
    which has none before it, it is 0. The root's rotation is relative to where the body faces, so neither place nor
    direction in the world matters.

    Args:
        state: ``[..., T, ...]``.
        fps: Frames per second.
    """
    import roma

    rotations = state.rotations
    turns: Tensor = roma.rotmat_to_rotvec(rotations[..., 1:, :, :, :] @ rotations[..., :-1, :, :, :].mT)
    velocity = torch.cat([torch.zeros_like(rotations[..., :1, :, :, 0]), turns * fps], dim=-3)
    return torch.cat([state.contacts, velocity.flatten(-2), matrix_to_6d(rotations).flatten(-2)], dim=-1)


def with_history(features: Tensor, rows: Tensor, joints: int) -> Tensor:
    """Put the poses of earlier frames beside frames.

    Args:
        features: ``[..., T, 2 + 9 J]`` of `frame_features`.
        rows: ``[F, K]`` int64: for each of F frames its own place, then those of the frames before it.
        joints: Joints J.

    Returns:
        ``[..., F, 2 + 3 J + K * 6 J]``, the newest pose first.
    """
    now = features[..., rows[:, 0], : FEET + 3 * joints]
    poses = features[..., FEET + 3 * joints :][..., rows, :]
    return torch.cat([now, poses.flatten(-2)], dim=-1)


def encoder_inputs(state: MotionState, fps: float, *, history: int = 3) -> Tensor:
    """Return what the encoder reads, ``[..., T, D]`` with D = 2 + 3 J + `history` * 6 J.

    Frame t reads frames t - K + 1 to t of `history` K, and t - 1: nothing later. Where there are no such frames the
    first one stands for them, at rest.

    Args:
        state: ``[..., T, ...]``; to read the last frame only, the last `MotionEncoder.reach` frames are enough.
        fps: Frames per second.
        history: Poses K, the current one included.

    Example:
        >>> still = MotionState(torch.eye(3).expand(5, 2, 3, 3), torch.zeros(5, 3), torch.ones(5), torch.ones(5, 2))
        >>> encoder_inputs(still, 30.0).shape
        torch.Size([5, 44])
    """
    place = torch.arange(state.frames, device=state.heights.device)
    back = torch.arange(history, device=place.device)
    rows = (place[:, None] - back).clamp_min(0)
    return with_history(frame_features(state, fps), rows, state.rotations.shape[-3])
