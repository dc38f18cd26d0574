"""Foot skate and jerk of joint trajectories: the plain-torch definition every faster version is checked against.

Definition (motionkit's own; the gate is soft so that it has a gradient), per frame, that is with fps = 1:

- gate of a foot at frame t: ``g_t = sigmoid((h - y_t) / 0.02)`` with contact height h in metres;
- contact of the pair (t, t+1): ``c_t = g_t g_{t+1}``, both frames inside the sample's length;
- ``skate = sum c_t v_t / (sum c_t + 1e-6)`` over feet and pairs, v the horizontal displacement in metres;
- ``jerk = mean |x_{t+3} - 3 x_{t+2} + 3 x_{t+1} - x_t|`` over joints and t < L - 3, in metres.

A motion with a value inside its length that is not finite has NaN for every term and no gradient.

Norms are ``sqrt(q + 1e-14)``, so that a motionless pose has a finite gradient. Times fps and fps^3 these are m/s and
m/s^3.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

_SOFTNESS = 0.02
_CONTACT_EPS = 1e-6
_NORM_EPS = 1e-14


def physics_definition(
    joints: Tensor, lengths: Tensor, feet: Sequence[int], heights: Sequence[float]
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return skate, jerk, contact sum and valid length, each ``[N]``, of joints ``[N, T, J, 3]`` (float32 or 64)."""
    frames = torch.arange(joints.shape[1], device=joints.device)
    valid = frames < lengths[:, None]
    # A multiplication by zero would keep NaN in value and gradient; `where` removes it from both.
    joints = torch.where(valid[:, :, None, None], joints, torch.zeros_like(joints))
    # A motion with a non-finite value is zeroed as a whole: its terms become NaN below and its gradient is 0.
    bad = ~torch.isfinite(joints).flatten(1).all(1)
    joints = torch.where(bad[:, None, None, None], torch.zeros_like(joints), joints)
    skate, contact = _skate(joints, valid, feet, heights)
    terms = [term.masked_fill(bad, torch.nan) for term in (skate, _jerk(joints, valid), contact)]
    return terms[0], terms[1], terms[2], valid.sum(1).to(joints.dtype)


def _skate(joints: Tensor, valid: Tensor, feet: Sequence[int], heights: Sequence[float]) -> tuple[Tensor, Tensor]:
    # One slice per foot: indexing with a list would copy that list to the device on every call.
    foot = torch.stack([joints[:, :, index] for index in feet], dim=2) if feet else joints[:, :, :0]
    height = [joints.new_full((), value) for value in heights]
    limits = torch.stack(height) if height else joints.new_zeros(0)
    # [N, T, F]: how much each of F feet is on the floor in each frame.
    gate = torch.sigmoid((limits - foot[..., 1]) / _SOFTNESS)
    # [N, T - 1, F]: on the floor in both frames of a pair.
    contact = gate[:, 1:] * gate[:, :-1] * (valid[:, 1:] & valid[:, :-1])[..., None]
    # Horizontal displacement (x and z) between the frames of a pair.
    step = foot[:, 1:, :, ::2] - foot[:, :-1, :, ::2]
    moved = torch.sqrt(step.square().sum(-1) + _NORM_EPS)
    total = contact.sum((1, 2))
    return (contact * moved).sum((1, 2)) / (total + _CONTACT_EPS), total


def _jerk(joints: Tensor, valid: Tensor) -> Tensor:
    # [N, T - 3, J, 3] third differences, then their length averaged over joints.
    third = joints.diff(n=3, dim=1) if joints.shape[1] > 3 else joints[:, :0]
    size = torch.sqrt(third.square().sum(-1) + _NORM_EPS).mean(-1)
    inside = valid[:, 3:] if joints.shape[1] > 3 else valid[:, :0]
    # The third difference reaches three frames past its first, so its validity is that of its last frame.
    total = torch.where(inside, size, torch.zeros_like(size)).sum(1)
    return total / inside.sum(1).clamp(min=1)
