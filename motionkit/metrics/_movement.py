"""How much motions move, and how far the samples of one prompt differ."""

from __future__ import annotations

import torch
from torch import Tensor


def joint_speed(joints: Tensor, lengths: Tensor, fps: float) -> Tensor:
    """Return the mean speed of the joints.

    Args:
        joints: ``[N, T, J, 3]`` metres.
        lengths: ``[N]`` int64 frames.
        fps: Frames per second.

    Returns:
        ``[N]`` metres per second; 0 for a motion of one frame.

    Example:
        >>> still, moving = torch.zeros(4, 1, 3), torch.arange(4.0)[:, None, None].expand(4, 1, 3)
        >>> joint_speed(torch.stack([still, moving]), torch.tensor([4, 4]), fps=1.0)
        tensor([0.0000, 1.7321])
    """
    steps, mask = _steps(joints, lengths)
    return fps * steps.mean(-1).masked_fill(~mask, 0.0).sum(1) / mask.sum(1).clamp(min=1)


def joint_jerk(joints: Tensor, fps: float) -> Tensor:
    """Return the jerk of each frame, the mean length of the joints' third differences.

    Args:
        joints: ``[N, T, J, 3]`` metres.
        fps: Frames per second.

    Returns:
        ``[N, T - 3]`` m/s^3, of the frames from the fourth on.

    Example:
        >>> cubic = torch.arange(5.0)[None, :, None, None] ** 3
        >>> joint_jerk(torch.cat([cubic, 0 * cubic, 0 * cubic], dim=-1), fps=1.0)
        tensor([[6., 6.]])
    """
    lengths: Tensor = joints.diff(n=3, dim=1).norm(dim=-1)
    return lengths.mean(-1) * fps**3


def root_path(joints: Tensor, lengths: Tensor) -> Tensor:
    """Return how far the root travels over the ground, ``[N]`` metres; arguments as `joint_speed`, Y up."""
    steps, mask = _steps(joints[..., :1, :] * joints.new_tensor([1.0, 0.0, 1.0]), lengths)
    return steps[..., 0].masked_fill(~mask, 0.0).sum(1)


def sample_spread(motions: Tensor, mask: Tensor) -> Tensor:
    """Return how far the samples of one prompt differ: their standard deviation, averaged over all values.

    Args:
        motions: ``[P, S, T, D]``, S samples of each of P prompts, such as normalised features.
        mask: ``[P, T]`` bool, True = valid; samples of one prompt are equally long.

    Returns:
        ``[P]``; NaN with fewer than two samples.

    Example:
        >>> sample_spread(torch.tensor([[[[0.0]], [[2.0]]]]), torch.ones(1, 1, dtype=torch.bool))
        tensor([1.4142])
    """
    if motions.shape[1] < 2:
        return motions.new_full((len(motions),), torch.nan)
    spread = motions.std(dim=1).mean(-1)  # [P, T]
    return spread.masked_fill(~mask, 0.0).sum(1) / mask.sum(1).clamp(min=1)


def _steps(joints: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """Return the way of each joint between neighbouring frames, ``[N, T - 1, J]``, and which of them count."""
    steps = (joints[:, 1:] - joints[:, :-1]).norm(dim=-1)
    mask = torch.arange(1, joints.shape[1], device=joints.device) < lengths[:, None]
    return steps, mask
