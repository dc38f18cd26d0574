"""Foot skate and jerk of joint trajectories: the plain-torch definition every faster version is checked against.

Definition (motionkit's own; the gate is soft so that it has a gradient):

- gate of a foot at frame t: ``g_t = sigmoid((h - y_t) / 0.02)`` with contact height h in metres;
- contact of the pair (t, t+1): ``c_t = g_t g_{t+1}``, both frames inside the sample's length;
- ``skate = sum c_t v_t / (sum c_t + 1e-6)`` over feet and pairs, v the horizontal speed in m/s;
- ``jerk = mean |x_{t+3} - 3 x_{t+2} + 3 x_{t+1} - x_t| fps^3`` over joints and t < L - 3, in m/s^3.

Norms are ``sqrt(q + 1e-14)``, so that a motionless pose has a finite gradient.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from motionkit.errors import MotionkitError

CONTACT_HEIGHT = 0.05
"""Height in metres below which a foot counts as being on the floor."""

_SOFTNESS = 0.02
_CONTACT_EPS = 1e-6
_NORM_EPS = 1e-14


def physics_sums(
    joints: Tensor,
    lengths: Tensor,
    *,
    fps: float,
    feet: Sequence[int],
    heights: float | Sequence[float] = CONTACT_HEIGHT,
) -> tuple[Tensor, Tensor]:
    """Measure foot skate and jerk of N motions. Differentiable in `joints`.

    Args:
        joints: ``[N, T, J, 3]`` metres, Y up, floor at y = 0; frames past a length may hold anything, NaN included.
        lengths: ``[N]`` int64 on the device of `joints`.
        fps: Frames per second.
        feet: Indices of the foot joints.
        heights: Contact height in metres, one for all feet or one per foot.

    Returns:
        ``(skate [N] in m/s, jerk [N] in m/s^3)``, in the dtype of `joints`. A motion shorter than two frames has
        skate 0, one shorter than four frames has jerk 0; a non-finite value inside the length makes both NaN or
        infinite for that motion only.

    Raises:
        MotionkitError: `joints` has another shape, or `heights` has another length than `feet`.
    """
    if joints.ndim != 4 or joints.shape[-1] != 3:
        raise MotionkitError(f"joints must be [N, T, J, 3], got {list(joints.shape)}.")
    frames = torch.arange(joints.shape[1], device=joints.device)
    valid = frames < lengths[:, None]
    # A multiplication by zero would keep NaN in value and gradient; `where` removes it from both.
    joints = torch.where(valid[:, :, None, None], joints, torch.zeros_like(joints))
    return _skate(joints, valid, fps, feet, heights), _jerk(joints, valid, fps)


def _skate(joints: Tensor, valid: Tensor, fps: float, feet: Sequence[int], heights: float | Sequence[float]) -> Tensor:
    limits = [float(heights)] * len(feet) if isinstance(heights, (int, float)) else [float(value) for value in heights]
    if len(limits) != len(feet):
        raise MotionkitError(f"{len(feet)} feet need one contact height or {len(feet)}, got {len(limits)}.")
    foot = joints[:, :, list(feet)]
    gate = torch.sigmoid((joints.new_tensor(limits) - foot[..., 1]) / _SOFTNESS)
    contact = gate[:, 1:] * gate[:, :-1] * (valid[:, 1:] & valid[:, :-1])[..., None]
    step = foot[:, 1:, :, ::2] - foot[:, :-1, :, ::2]
    speed = torch.sqrt(step.square().sum(-1) + _NORM_EPS) * fps
    return (contact * speed).sum((1, 2)) / (contact.sum((1, 2)) + _CONTACT_EPS)


def _jerk(joints: Tensor, valid: Tensor, fps: float) -> Tensor:
    third = joints.diff(n=3, dim=1) if joints.shape[1] > 3 else joints[:, :0]
    size = torch.sqrt(third.square().sum(-1) + _NORM_EPS).mean(-1)
    inside = valid[:, 3:] if joints.shape[1] > 3 else valid[:, :0]
    # The third difference reaches three frames past its first, so its validity is that of its last frame.
    total = torch.where(inside, size, torch.zeros_like(size)).sum(1)
    return total / inside.sum(1).clamp(min=1) * fps**3
