"""How both pretrainings turn a loss into a step."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from motionkit.config import OptimSettings
from motionkit.trainers._gradients import FiniteGradients


def make_adamw(module: nn.Module, optim: OptimSettings) -> torch.optim.AdamW:
    """Return AdamW over all parameters of `module`."""
    return torch.optim.AdamW(
        module.parameters(), lr=optim.learning_rate, betas=optim.betas, weight_decay=optim.weight_decay
    )


def set_rate(optimizer: torch.optim.Optimizer, step: int, total: int, optim: OptimSettings, final_rate: float) -> float:
    """Set and return the learning rate of step number `step` (1-based): linear warm-up, then half a cosine.

    Args:
        optimizer: All its groups get the rate.
        step: Step about to be done.
        total: Steps of the run.
        optim: Peak rate and warm-up.
        final_rate: Rate at the end, as a share of the peak.
    """
    if step <= optim.warmup_steps:
        rate = optim.learning_rate * step / optim.warmup_steps
    else:
        progress = (step - optim.warmup_steps) / max(1, total - optim.warmup_steps)
        rate = optim.learning_rate * (final_rate + (1 - final_rate) * 0.5 * (1 + math.cos(math.pi * progress)))
    for group in optimizer.param_groups:
        group["lr"] = rate
    return rate


def descend(
    loss: Tensor, module: nn.Module, optimizer: torch.optim.Optimizer, grad_clip: float, gradients: FiniteGradients
) -> dict[str, float]:
    """Do one optimiser step on a scalar loss, unless the gradient is not finite.

    Returns:
        ``grad/norm``, the gradient's norm before clipping, and ``grad/left_out``.

    Raises:
        MotionkitError: The gradient is not finite, several times in a row (exit code 1); see `FiniteGradients`.
    """
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    norm = float(nn.utils.clip_grad_norm_(module.parameters(), grad_clip or math.inf))
    if gradients.admit(norm):
        optimizer.step()
    return {"grad/norm": norm, "grad/left_out": gradients.count()}
