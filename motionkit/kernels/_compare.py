"""Runs both kernels, forward and backward, on seeded inputs, and compares two results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from motionkit.kernels._functions import features_to_joints, physics_terms

FORWARD, GRADIENT = 1e-6, 5e-6
"""Largest relative errors (ratio of norms) against float64."""

FEET = (7, 10, 8, 11)
HEIGHTS = (0.05, 0.08, 0.03, 0.06)


class CheckResult(NamedTuple):
    """The result of one check: a line of the report."""

    name: str
    passed: bool
    text: str


def inputs(batch: int, frames: int, joints: int, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Return smooth joints ``[B, T, J, 3]``, feature rows ``[B, T, 12 J - 1]`` and lengths ``[B]``, on the CPU."""
    draw = torch.Generator().manual_seed(seed)
    time = torch.arange(frames)[:, None, None] / 20
    body = torch.rand(batch, 1, joints, 3, generator=draw) * torch.tensor([0.6, 0.16, 0.6])
    swing = 0.1 * torch.sin(6 * time + 6 * torch.rand(batch, 1, joints, 3, generator=draw))
    noise = 0.004 * torch.randn(batch, frames, joints, 3, generator=draw)
    features = torch.randn(batch, frames, 12 * joints - 1, generator=draw) * 0.2
    features[..., :3] *= 0.05
    lengths = torch.randint(0, frames + 1, (batch,), generator=draw)
    lengths[0] = frames
    return body + swing + noise, features, lengths


def run_both(given: Sequence[Tensor], backend: str = "cuda") -> list[Tensor]:
    """Return all terms, the recovered joints, and the gradients of both functions, of joints, features and lengths."""
    joints, features = (tensor.detach().requires_grad_() for tensor in given[:2])
    lengths = given[2]
    terms = physics_terms(joints, lengths, feet=FEET, heights=HEIGHTS, backend=backend)
    (terms.skate.sum() + 2.0 * terms.jerk.sum() + 0.01 * terms.contact.sum()).backward()
    made = features_to_joints(features, joints=joints.shape[2], unit=0.75, lengths=lengths, backend=backend)
    made.square().sum().backward()
    assert joints.grad is not None
    assert features.grad is not None
    return [*(term.detach() for term in terms), made.detach(), joints.grad, features.grad]


def distance(value: Tensor, truth: Tensor) -> float:
    """Return the ratio of norms; infinite where one is NaN and the other is not."""
    value, truth = value.double().cpu(), truth.double().cpu()
    if not torch.equal(value.isnan(), truth.isnan()):
        return float("inf")
    value, truth = value.nan_to_num(), truth.nan_to_num()
    return float((value - truth).norm() / truth.norm().clamp(min=1e-30))


def same(first: list[Tensor], second: list[Tensor]) -> bool:
    """Return whether all bits agree."""
    return all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
