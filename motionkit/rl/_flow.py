"""Samplers of flow models for a diffusion model: the same process in other coordinates.

A flow model mixes data and noise as ``x_f = (1 - t) x0 + t eps`` and predicts the velocity ``v = eps - x0``. The state
of a diffusion model, ``x = sqrt(ab) x0 + sqrt(1 - ab) eps``, is that state times a number (`flow_scale`), at a time
that follows from alpha-bar (`flow_time`)::

    c = sqrt(ab) + sqrt(1 - ab)        x_f = x / c        t = sqrt(1 - ab) / c        v = (x_f - x0_hat) / t

The map is exact, so a model that predicts x0 is a flow model too, as long as it is asked at its own timesteps. A step
of any of these samplers is affine in (x0_hat, x), hence three numbers per step, like a step of `DDIM`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.rl._plan import Coefficients


def flow_scale(alpha_bar: Tensor) -> Tensor:
    """Return ``c = sqrt(ab) + sqrt(1 - ab)``: a diffusion state is c times the flow state."""
    return alpha_bar.sqrt() + (1 - alpha_bar).sqrt()


def flow_time(alpha_bar: Tensor) -> Tensor:
    """Return the flow's time ``t = sqrt(1 - ab) / c``, 0 (data) to 1 (noise).

    Example:
        >>> from motionkit.rl import Schedule
        >>> flow_time(Schedule.cosine(50).alphas_cumprod)[[0, 10, 25, 49]].numpy().round(3).tolist()
        [0.04, 0.271, 0.519, 0.999]
    """
    return (1 - alpha_bar).sqrt() / flow_scale(alpha_bar)


@dataclass(frozen=True)
class FlowSDE:
    """Flow-GRPO's sampler (Liu et al. 2025, arXiv:2505.05470, eq. 9), with ``s = a sqrt(t / (1 - t))``.

    A step longer than twice ``1 - t`` takes the ``1 - t`` that it ends at: at t = 1 the formula has no value, and near
    it such a step would go past the data. Of evenly spaced steps from t = 1 on that is the first one alone, as in the
    paper's code.

    Args:
        noise_scale: a, at least 0; 0 is the ODE.
    """

    noise_scale: float = 0.7

    def __post_init__(self) -> None:
        _require(self.noise_scale)

    def step(self, now: Tensor, then: Tensor) -> Coefficients:
        """Return the coefficients of steps; see `Sampler`."""
        t, t_next = flow_time(now), flow_time(then)
        room = torch.where(t - t_next > 2 * (1 - t), 1 - t_next, 1 - t)
        return _sde(now, then, self.noise_scale * (t / room).sqrt())


@dataclass(frozen=True)
class DanceSDE:
    """DanceGRPO's sampler (Xue et al. 2025, arXiv:2505.07818): the same SDE with a constant ``s``.

    Args:
        noise_scale: s, at least 0; 0 is the ODE.
    """

    noise_scale: float = 0.3

    def __post_init__(self) -> None:
        _require(self.noise_scale)

    def step(self, now: Tensor, then: Tensor) -> Coefficients:
        """Return the coefficients of steps; see `Sampler`."""
        return _sde(now, then, torch.full_like(now, self.noise_scale))


@dataclass(frozen=True)
class CPS:
    """Coefficients-preserving sampling (Wang and Yu 2025, arXiv:2509.05952): part of the predicted noise is drawn anew.

    With ``sigma = t' sin(a pi / 2)`` and ``eps_hat = x_f + (1 - t) v``, a step goes to
    ``(1 - t') x0_hat + sqrt(t'^2 - sigma^2) eps_hat + sigma eps``. No step adds noise beyond that of its own time.

    The authors' code leaves sigma out of the log-probability, so that it is no density, and takes a clip range of
    1e-5. Here the log-probability is that of the Gaussian which is drawn from, as for every other sampler.

    Args:
        noise_scale: a, 0 (the ODE) to 1 (all noise is drawn anew).
    """

    noise_scale: float = 0.7

    def __post_init__(self) -> None:
        _require(self.noise_scale, most=1.0)

    def step(self, now: Tensor, then: Tensor) -> Coefficients:
        """Return the coefficients of steps; see `Sampler`."""
        t, t_next = flow_time(now), flow_time(then)
        kept = t_next * math.cos(self.noise_scale * math.pi / 2)  # sqrt(t'^2 - sigma^2)
        # eps_hat = (x_f - (1 - t) x0_hat) / t
        return _in_diffusion(
            now, then, 1 - t_next - kept * (1 - t) / t, kept / t, t_next * math.sin(self.noise_scale * math.pi / 2)
        )


def _sde(now: Tensor, then: Tensor, s: Tensor) -> Coefficients:
    """Return Euler-Maruyama steps of ``dx = (v + s^2 / (2 t) (x + (1 - t) v)) dt + s dw`` from noise to data.

    The mean is ``x_f (1 - s^2 dt / (2 t)) - v (1 + s^2 (1 - t) / (2 t)) dt`` with ``v = (x_f - x0_hat) / t``.
    """
    t, dt = flow_time(now), flow_time(now) - flow_time(then)
    half = s**2 / (2 * t)
    along = (1 + half * (1 - t)) * dt / t  # weight of x0_hat
    return _in_diffusion(now, then, along, 1 - half * dt - along, s * dt.sqrt())


def _in_diffusion(now: Tensor, then: Tensor, x0: Tensor, x_f: Tensor, sigma: Tensor) -> Coefficients:
    """Bring a step between flow states to diffusion states: what goes in is divided by c, what comes out times c'."""
    out = flow_scale(then)
    return Coefficients(out * x0, out / flow_scale(now) * x_f, out * sigma)


def _require(noise_scale: float, most: float = math.inf) -> None:
    if not 0.0 <= noise_scale <= most:
        limit = "at least 0" if most == math.inf else f"between 0 and {most:g}"
        raise MotionkitError(f"the noise scale must be {limit}, got {noise_scale:g}.", fix="--noise-scale sets it.")
