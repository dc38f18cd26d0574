"""Small policies that the tests of this folder train."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.distributions import Normal

from motionkit.rl import Schedule, Transitions, kl_frames, log_ratio_frames


def log_prob_nats(x_next: Tensor, mean: Tensor, sigma: Tensor, mask: Tensor) -> Tensor:
    """Return log N(x_next; mean, sigma^2) of each sample, as torch has it."""
    x_next, mean = (torch.where(mask[..., None], x, 0) for x in (x_next, mean))
    each: Tensor = Normal(mean, sigma[:, None, None]).log_prob(x_next)
    return (each * mask[..., None]).sum((1, 2))


def log_ratio_nats(*arguments: Tensor) -> Tensor:
    """Sum over a sample's frames."""
    return log_ratio_frames(*arguments).sum(-1)


def kl_nats(*arguments: Tensor) -> Tensor:
    """Sum over a sample's frames."""
    return kl_frames(*arguments).sum(-1)


def transitions(
    x_t: Tensor, eps: Tensor, x0_old: Tensor, *, sensitivity: Tensor | None = None, c_x0: Tensor | None = None
) -> Transitions:
    """Build scored steps by hand; by default unit steps: mean = x0, sigma = 1."""
    rows = len(x_t)
    s = torch.ones(rows, dtype=x_t.dtype) if sensitivity is None else sensitivity
    c = torch.ones(rows, dtype=x_t.dtype) if c_x0 is None else c_x0
    return Transitions(
        x_t=x_t,
        eps=eps,
        x0_old=x0_old,
        timestep=torch.arange(rows),
        c_x0=c,
        c_xt=torch.zeros(rows, dtype=x_t.dtype),
        sigma=c / s,
        sensitivity=s,
        sample=torch.arange(rows),
    )


class EightModes(nn.Module):
    """The exact x0-denoiser of eight narrow modes on a circle, plus a small correction that starts at zero."""

    def __init__(self, schedule: Schedule, *, radius: float = 1.08, spread: float = 0.05, seed: int = 0) -> None:
        super().__init__()
        angle = torch.arange(8) * (2 * math.pi / 8)
        self.modes = radius * torch.stack([angle.cos(), angle.sin()], -1)
        self.spread = spread
        self.alphas = schedule.alphas_cumprod.float()
        generator = torch.Generator().manual_seed(seed)
        self.hidden = nn.Linear(2 + 8, 64)
        self.out = nn.Linear(64, 2)
        with torch.no_grad():
            self.hidden.weight.normal_(0, 0.4, generator=generator)
            self.hidden.bias.normal_(0, 0.4, generator=generator)
            self.out.weight.zero_()
            self.out.bias.zero_()

    def forward(self, x: Tensor, timestep: Tensor) -> Tensor:
        """Predict x0 ``[M, 1, 2]``."""
        alpha = self.alphas[timestep].view(-1, 1, 1)
        modes, variance = self.modes, self.spread**2
        noise = alpha * variance + 1 - alpha
        towards = x - alpha.sqrt() * modes  # [M, 8, 2]
        weight = torch.softmax(-towards.square().sum(-1, keepdim=True) / (2 * noise), dim=1)
        exact = (weight * (modes + alpha.sqrt() * variance / noise * towards)).sum(1, keepdim=True)
        phase = timestep.view(-1, 1, 1) / 50 * torch.arange(1, 5) * math.pi
        features = torch.cat([x, phase.cos(), phase.sin()], -1)
        return exact + self.out(torch.tanh(self.hidden(features)))

    def reward(self, x0: Tensor) -> Tensor:
        """Minus the distance to the first mode, ``[N]``."""
        return -(x0[:, 0] - self.modes[0]).norm(dim=-1)
