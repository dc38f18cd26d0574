"""What each reverse step of a sampler looks like, worked out once in float64."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.rl._schedule import Schedule


class Coefficients(NamedTuple):
    """Reverse steps ``x <- c_x0 * x0_hat + c_xt * x + sigma * eps``, one per element, float64.

    Attributes:
        c_x0: Weight of the prediction.
        c_xt: Weight of the current state.
        sigma: Standard deviation of the noise that is added.
    """

    c_x0: Tensor
    c_xt: Tensor
    sigma: Tensor


class Sampler(Protocol):
    """How one reverse step from alpha-bar `now` to alpha-bar `then` is taken."""

    def step(self, now: Tensor, then: Tensor) -> Coefficients:
        """Return the coefficients of steps, elementwise.

        Args:
            now: ``[K]`` float64 alpha-bar before each step, in 0..1.
            then: ``[K]`` float64 alpha-bar after it, larger than `now`, at most 1.
        """
        ...


@dataclass(frozen=True)
class DDIM:
    """Song et al. 2020 (arXiv 2010.02502), eq. 12 and 16; `eta` 0 is the ODE, 1 the ancestral sampler.

    Args:
        eta: Share of the ancestral noise, 0..1.
    """

    eta: float = 1.0

    def __post_init__(self) -> None:
        if not 0.0 <= self.eta <= 1.0:
            raise MotionkitError(f"eta must be between 0 (ODE) and 1 (ancestral), got {self.eta}.")

    def step(self, now: Tensor, then: Tensor) -> Coefficients:
        """Add the noise ``sigma = eta sqrt((1 - then) / (1 - now) * (1 - now / then))``."""
        sigma = self.eta * ((1 - then) / (1 - now) * (1 - now / then)).sqrt()
        # Eq. 12 in x0 form: x' = sqrt(then) x0 + sqrt(1 - then - sigma^2) eps_hat + sigma eps
        # with eps_hat = (x - sqrt(now) x0) / sqrt(1 - now), sorted by x0 and x.
        c_xt = ((1 - then - sigma**2).clamp(min=0) / (1 - now)).sqrt()
        return Coefficients(then.sqrt() - c_xt * now.sqrt(), c_xt, sigma)


@dataclass(frozen=True)
class DDPM:
    """Ho et al. 2020 ancestral sampling with the small (posterior) variance, on the alphas of the visited steps.

    In exact arithmetic this is ``DDIM(eta=1)``; the posterior's own coefficients have fewer cancellations.
    """

    def step(self, now: Tensor, then: Tensor) -> Coefficients:
        """Return mean and variance of the posterior (Ho et al. 2020, eq. 7), with ``beta = 1 - now / then``."""
        beta = 1 - now / then
        return Coefficients(
            beta * then.sqrt() / (1 - now),
            (1 - then) * (now / then).sqrt() / (1 - now),
            (beta * (1 - then) / (1 - now)).sqrt(),
        )


@dataclass(frozen=True, eq=False)
class StepPlan:
    """K reverse steps from noise to motion: ``x <- c_x0 * x0_hat + c_xt * x + sigma * eps``.

    All tensors have length K, position 0 first (noisiest), float64 on the CPU.

    Attributes:
        timesteps: int64 trained index the network is asked at.
        c_x0: Weight of the prediction.
        c_xt: Weight of the current state.
        sigma: Noise added; 0 outside the window and always 0 at the last position, which leaves no noise.
        sensitivity: ``s = c_x0 / sigma``, what a unit of prediction means to the log-probability; 0 where sigma is 0.
            For ancestral sampling on all steps ``s^2 = SNR_{t-1} - SNR_t``.
        trainable: Positions with sigma > 0, in order: the steps that have a log-probability.
    """

    timesteps: Tensor
    c_x0: Tensor
    c_xt: Tensor
    sigma: Tensor
    sensitivity: Tensor
    trainable: tuple[int, ...]

    @classmethod
    def build(
        cls,
        schedule: Schedule,
        sampler: Sampler | None = None,
        *,
        steps: int | Sequence[int] | None = None,
        window: Iterable[int] | None = None,
    ) -> StepPlan:
        """Work out every step.

        Args:
            schedule: The trained schedule.
            sampler: `DDPM`, `DDIM` or another `Sampler`; `DDPM` when None.
            steps: How many evenly spaced timesteps to visit, or which ones; all of them when None.
            window: Positions (0 = noisiest) where noise is added; every other step is the deterministic ODE step.
                None means every position; the last one never adds noise.

        Raises:
            MotionkitError: Steps that were not trained, or a window position outside the plan.

        Example:
            >>> plan = StepPlan.build(Schedule.cosine(50), DDIM(eta=1.0), steps=5, window=[0, 1])
            >>> plan.timesteps.tolist(), plan.trainable
            ([49, 37, 24, 12, 0], (0, 1))
        """
        visited = (
            schedule.spaced(steps)
            if isinstance(steps, int)
            else schedule.checked(range(len(schedule)) if steps is None else steps)
        )
        count = len(visited)
        inside = set(range(count)) if window is None else {int(position) for position in window}
        if any(not 0 <= position < count for position in inside):
            raise MotionkitError(
                f"window positions {sorted(inside)} do not fit a plan of {count} steps.",
                fix=f"use positions 0 (noisiest) to {count - 2}; the last step adds no noise.",
            )
        index = torch.tensor(visited)
        # alpha-bar before and after each step, [K]; after the last step no noise is left (alpha-bar 1).
        now = schedule.alphas_cumprod[index]
        then = torch.cat([now[1:], torch.ones(1, dtype=torch.float64)])
        noisy = torch.tensor([position in inside and position < count - 1 for position in range(count)])
        drawn = (DDPM() if sampler is None else sampler).step(now, then)
        plain = DDIM(0.0).step(now, then)
        sigma = torch.where(noisy, drawn.sigma, 0.0)
        # Without noise every step is the ODE's.
        silent = sigma == 0
        c_x0, c_xt = torch.where(silent, plain.c_x0, drawn.c_x0), torch.where(silent, plain.c_xt, drawn.c_xt)
        # The last step returns the prediction itself, exactly.
        c_x0[-1], c_xt[-1] = 1.0, 0.0
        scored = sigma > 0
        # s = c_x0 / sigma, without a division by zero at deterministic steps.
        sensitivity = torch.where(
            scored, c_x0 / torch.where(scored, sigma, torch.ones_like(sigma)), torch.zeros_like(sigma)
        )
        trainable = tuple(int(position) for position in scored.nonzero().flatten())
        return cls(index, c_x0, c_xt, sigma, sensitivity, trainable)

    def __len__(self) -> int:
        return len(self.timesteps)

    def require_trainable(self) -> None:
        """Refuse a plan that has nothing to train.

        Raises:
            MotionkitError: No position adds noise, so no step has a log-probability.
        """
        if not self.trainable:
            raise MotionkitError(
                "the sampler adds no noise at any step, so there is nothing to train.",
                why="a deterministic step has no log-probability; eta is 0 or the window is empty.",
                fix="use eta > 0 and a window of at least one step before the last.",
            )
