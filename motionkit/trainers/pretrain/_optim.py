"""How both pretrainings turn a loss into a step."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from motionkit.config import OptimSettings
from motionkit.errors import MotionkitError


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


def descend(loss: Tensor, module: nn.Module, optimizer: torch.optim.Optimizer, grad_clip: float) -> float:
    """Do one optimiser step on a scalar loss and return the gradient's norm before clipping.

    Raises:
        MotionkitError: The gradient is not finite (exit code 1); the weights are as they were.
    """
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    norm = nn.utils.clip_grad_norm_(module.parameters(), grad_clip or math.inf)
    if not bool(torch.isfinite(norm)):
        raise MotionkitError(
            "the loss is no longer finite.",
            why=f"gradient norm {float(norm)} at learning rate {optimizer.param_groups[0]['lr']:.2g}.",
            fix="lower --learning-rate, then --resume from the last checkpoint.",
            code=1,
        )
    optimizer.step()
    return float(norm)
