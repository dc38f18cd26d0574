"""Inputs for the kernels, and how far a result is from the float64 definition."""

from __future__ import annotations

import torch

from motionkit.kernels import features_to_joints, physics_terms

FORWARD, GRADIENT = 1e-6, 5e-6
"""Largest relative errors (ratio of norms) allowed."""


def distance(value, truth) -> float:
    """Ratio of norms; NaN in one and not in the other is infinitely far."""
    value, truth = value.detach().double(), truth.detach()
    if not torch.equal(value.isnan(), truth.isnan()):
        return float("inf")
    value, truth = value.nan_to_num(), truth.nan_to_num()
    return float((value - truth).norm() / truth.norm().clamp(min=1e-30)) if value.numel() else 0.0


def walkers(batch, frames, joints, seed=0, roughness=0.004):
    """Bodies that move smoothly at half a metre per second, with a little noise; joints near and in the floor."""
    draw = torch.Generator().manual_seed(seed)
    time = torch.arange(frames)[:, None, None] / 20
    body = torch.rand(batch, 1, joints, 3, generator=draw) * torch.tensor([0.6, 0.16, 0.6])
    swing = 0.1 * torch.sin(6 * time + 6 * torch.rand(batch, 1, joints, 3, generator=draw))
    swing = swing * torch.tensor([1.0, 0.3, 1.0])
    noise = roughness * torch.randn(batch, frames, joints, 3, generator=draw)
    return body + swing + time * torch.tensor([0.4, 0.0, 0.3]) + noise


def fill_padding(values, lengths, content):
    valid = torch.arange(values.shape[1]) < lengths[:, None]
    return torch.where(valid.reshape(*valid.shape, *[1] * (values.ndim - 2)), values, content)


def rows(batch, frames, width, seed=0):
    """Feature rows that turn and walk."""
    draw = torch.Generator().manual_seed(seed)
    values = torch.randn(batch, frames, width, generator=draw) * 0.3
    values[..., 0] = 0.05 * values[..., 0] + 0.03
    values[..., 1:3] = 0.05 * values[..., 1:3] + 0.02
    return values


def physics_distance(joints, lengths, feet, heights, *, weights=(1.0, 1.0, 1.0)) -> tuple[float, float]:
    """How far values and gradient of `physics_terms` are from float64: forward (worst of four) and gradient."""
    share = torch.rand(3, len(lengths), generator=torch.Generator().manual_seed(5)) + 0.5
    results = []
    for x, backend in ((joints.double(), "torch"), (joints, "cuda")):
        leaf = x.detach()  # detach keeps strides and storage offset: views stay views
        leaf.requires_grad_()
        terms = physics_terms(leaf, lengths, feet=feet, heights=heights, backend=backend)
        parts = zip(weights, share, terms[:3], strict=True)
        loss = sum((weight * w.to(x.dtype) * term).sum() for weight, w, term in parts if weight)
        loss.backward()
        results.append((terms, leaf.grad))
    (truth, slope), (made, grad) = results
    return max(distance(a, b) for a, b in zip(made, truth, strict=True)), distance(grad, slope)


def recover_distance(features, lengths=None, *, joints, unit=1.0, mean=None, std=None) -> tuple[float, float]:
    """The same for `features_to_joints`."""
    results = []
    for x, backend in ((features.double(), "torch"), (features, "cuda")):
        leaf = x.detach()
        leaf.requires_grad_()
        stats = {} if mean is None else {"mean": mean.to(x.dtype), "std": std.to(x.dtype)}
        made = features_to_joints(leaf, joints=joints, unit=unit, lengths=lengths, backend=backend, **stats)
        push = torch.randn(made.shape, generator=torch.Generator().manual_seed(6)).to(x.dtype)
        made.backward(push)
        results.append((made, leaf.grad))
    (truth, slope), (made, grad) = results
    return distance(made, truth), distance(grad, slope)
