"""Noise schedules, samplers, and the plan of reverse steps that they give, computed once in float64.

A `Schedule` holds tables over the trained timesteps. A `Sampler` gives the coefficients of a reverse step: `DDPM`,
`DDIM`, and those of flow models, `FlowSDE`, `DanceSDE` and `CPS`. A `StepPlan` holds the steps of a rollout;
`excess_noise` measures how much noise they leave in samples.

A flow model mixes data and noise as ``x_f = (1 - t) x0 + t eps`` and predicts the velocity ``v = eps - x0``. A
diffusion model's state, ``x = sqrt(ab) x0 + sqrt(1 - ab) eps``, is that state times a factor (`flow_scale`), at a
time that follows from alpha-bar (`flow_time`)::

    c = sqrt(ab) + sqrt(1 - ab)        x_f = x / c        t = sqrt(1 - ab) / c        v = (x_f - x0_hat) / t

The map is exact, so a model that predicts x0 is a flow model too, as long as it is evaluated at trained timesteps.
A step of any sampler is affine in (x0_hat, x): three numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from motionkit.errors import MotionkitError


class Schedule:
    """A variance-preserving diffusion schedule over T trained integer timesteps.

    Every table is a float64 CPU tensor of length T; `gather` brings values to float32 at use.
    Index t runs from 0 (almost clean) to T - 1 (almost noise), as in Ho et al. 2020 (arXiv 2006.11239).

    Args:
        betas: ``[T]`` variances in (0, 1].

    Example:
        >>> schedule = Schedule.cosine(50)
        >>> schedule.spaced(5), schedule.early(5)
        ([49, 37, 24, 12, 0], [49, 47, 41, 31, 18])
        >>> x_t = schedule.noised(torch.zeros(1, 8, 3), torch.tensor([49]), torch.ones(1, 8, 3))
    """

    def __init__(self, betas: Tensor) -> None:
        betas = betas.detach().to("cpu", torch.float64)
        if betas.ndim != 1 or not len(betas) or not bool(((betas > 0) & (betas <= 1)).all()):
            raise MotionkitError(
                f"a noise schedule needs betas in (0, 1], got {betas.min():.3g}..{betas.max():.3g}."
                if betas.numel()
                else "a noise schedule needs at least one step.",
                fix="use more diffusion steps, or the cosine schedule.",
            )
        self.betas = betas
        self._on_device: dict[tuple[str, torch.device], Tensor] = {}

    @classmethod
    def cosine(cls, steps: int) -> Schedule:
        """Build the squared-cosine schedule (Nichol and Dhariwal 2021, eq. 17; MDM's default).

        ``alpha_bar(u) = cos^2((u + 0.008) / 1.008 * pi / 2)``,
        ``beta_i = min(1 - alpha_bar((i + 1) / T) / alpha_bar(i / T), 0.999)``.
        """

        def alpha_bar(u: float) -> float:
            return math.cos((u + 0.008) / 1.008 * math.pi / 2) ** 2

        betas = [min(1 - alpha_bar((i + 1) / steps) / alpha_bar(i / steps), 0.999) for i in range(steps)]
        return cls(torch.tensor(betas, dtype=torch.float64))

    @classmethod
    def linear(cls, steps: int) -> Schedule:
        """Build Ho et al.'s linear schedule, scaled to `steps` as guided diffusion scales it (T > 20)."""
        scale = 1000 / steps
        return cls(torch.linspace(scale * 1e-4, scale * 0.02, steps, dtype=torch.float64))

    @classmethod
    def named(cls, name: str, steps: int) -> Schedule:
        """Build ``cosine`` or ``linear`` by name."""
        makers = {"cosine": cls.cosine, "linear": cls.linear}
        if name not in makers:
            raise MotionkitError(f"unknown noise schedule {name!r}.", fix="use one of: cosine, linear.")
        return makers[name](steps)

    def shifted(self, shift: float) -> Schedule:
        """Return the schedule with its signal-to-noise ratio divided by ``shift ** 2``; `shift` is above 0.

        Hoogeboom et al. 2023 (arXiv 2301.11093, section 3.1): correlated values are still seen together when each of
        them is mostly noise, so a schedule that suits small images fixes large ones in too few steps.
        """
        if shift == 1.0:
            return self
        snr = self.snr / shift**2
        signal = snr / (1.0 + snr)
        before = torch.cat([signal.new_ones(1), signal[:-1]])
        return Schedule(1.0 - signal / before)

    def __len__(self) -> int:
        return len(self.betas)

    @cached_property
    def alphas_cumprod(self) -> Tensor:
        """``[T]`` product of ``1 - beta`` up to and including t (alpha-bar)."""
        return torch.cumprod(1.0 - self.betas, 0)

    @cached_property
    def sqrt_alphas_cumprod(self) -> Tensor:
        """``[T]`` signal scale."""
        return self.alphas_cumprod.sqrt()

    @cached_property
    def sqrt_one_minus_alphas_cumprod(self) -> Tensor:
        """``[T]`` noise scale."""
        return (1.0 - self.alphas_cumprod).sqrt()

    @cached_property
    def snr(self) -> Tensor:
        """``[T]`` signal-to-noise ratio ``alpha-bar / (1 - alpha-bar)``."""
        return self.alphas_cumprod / (1.0 - self.alphas_cumprod)

    def checked(self, timesteps: Sequence[int]) -> list[int]:
        """Return `timesteps` from noisy to clean after checking that each was trained, once."""
        steps = [int(t) for t in timesteps]
        if not steps or len(set(steps)) != len(steps) or min(steps) < 0 or max(steps) >= len(self):
            raise MotionkitError(
                f"timesteps must be different integers in 0..{len(self) - 1}, got {steps}.",
                why="the network knows only the timesteps it was trained on.",
            )
        return sorted(steps, reverse=True)

    def spaced(self, count: int) -> list[int]:
        """Return `count` evenly spaced trained timesteps from T - 1 down to 0, rounded to integers."""
        if not 1 <= count <= len(self):
            raise MotionkitError(
                f"{count} sampling steps asked of a model trained with {len(self)}.", fix=f"use 1..{len(self)} steps."
            )
        if count == 1:
            return [len(self) - 1]
        last = len(self) - 1
        return [round(last * (count - 1 - i) / (count - 1)) for i in range(count)]

    def early(self, count: int) -> list[int]:
        """Return `count` trained timesteps that are densest at the noisy end: ``(T - 1) (1 - (i / count)^2)``, rounded.

        A motion has tens of thousands of correlated values, so a cosine schedule fixes its content within the first
        fifth of its steps; of evenly spaced steps two or three are in that part. The last step goes from about
        ``2 T / count`` to the finished motion, which by then hardly changes.

        If rounding puts two on one timestep, they move apart; without room for that, the steps are evenly spaced.
        """
        self.spaced(count)
        last = len(self) - 1
        steps = [round(last * (1 - (i / count) ** 2)) for i in range(count)]
        for i in range(1, count):
            steps[i] = min(steps[i], steps[i - 1] - 1)
        return steps if steps[-1] >= 0 else self.spaced(count)

    def visited(self, spacing: Literal["early", "even"], count: int) -> list[int]:
        """Return the `count` timesteps that a sampler of this spacing visits: `early`, or `spaced` for ``even``."""
        return self.early(count) if spacing == "early" else self.spaced(count)

    @staticmethod
    def drawn_around(steps: Sequence[int], draw: np.random.Generator) -> list[int]:
        """Return random timesteps near `steps`: each uniform between the middles to its two neighbours.

        The first stays; the last reaches half-way down to 0. They keep their order and differ from each other.
        """
        # middles[k] lies between step k and step k + 1: step k is drawn from middles[k] + 1 .. middles[k - 1].
        middles = [(step + after) // 2 for step, after in zip(steps, [*steps[1:], 0], strict=True)]
        later = [
            int(draw.integers(min(low + 1, step), high, endpoint=True))
            for step, low, high in zip(steps[1:], middles[1:], middles[:-1], strict=True)
        ]
        return [*steps[:1], *later]

    def gather(self, table: str, timestep: Tensor, ndim: int) -> Tensor:
        """Read a table at `timestep` ``[N]``, float32 on its device, shaped to broadcast over `ndim` dimensions."""
        key = (table, timestep.device)
        if key not in self._on_device:
            self._on_device[key] = getattr(self, table).to(torch.float32).to(timestep.device)
        return self._on_device[key][timestep].reshape(-1, *[1] * (ndim - 1))

    def noised(self, x0: Tensor, timestep: Tensor, noise: Tensor) -> Tensor:
        """Sample q(x_t | x_0): ``sqrt(alpha-bar) x0 + sqrt(1 - alpha-bar) noise`` with `timestep` ``[N]``."""
        signal = self.gather("sqrt_alphas_cumprod", timestep, x0.ndim)
        return signal * x0 + self.gather("sqrt_one_minus_alphas_cumprod", timestep, x0.ndim) * noise


def draw_timesteps(
    steps: int, count: int, generator: torch.Generator, early: float = 0.0, *, power: float = 2.0
) -> Tensor:
    """Draw timesteps ``[count]`` int64 in 0 .. steps - 1 to train at.

    Args:
        steps: Number of diffusion steps.
        count: Timesteps to draw.
        generator: Random numbers; without `early` one call.
        early: Share of timesteps drawn as ``(steps - 1) (1 - u^power)``, densest at the noisy end; others are uniform.
        power: At least 1; higher is denser.
    """
    uniform = torch.randint(steps, (count,), generator=generator)
    if not early:
        return uniform
    # u near 0 gives the noisiest steps, where the density of t is highest.
    noisy = ((steps - 1) * (1 - torch.rand(count, generator=generator).pow(power))).round().long()
    return torch.where(torch.rand(count, generator=generator) < early, noisy, uniform)


class Coefficients(NamedTuple):
    """Reverse steps ``x <- c_x0 * x0_hat + c_xt * x + sigma * eps``, one per element, float64."""

    c_x0: Tensor  # Weight of the prediction
    c_xt: Tensor  # Weight of the current state
    sigma: Tensor  # Standard deviation of the noise that is added


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


def flow_scale(alpha_bar: Tensor) -> Tensor:
    """Return ``c = sqrt(ab) + sqrt(1 - ab)``: a diffusion state is c times the flow state."""
    return alpha_bar.sqrt() + (1 - alpha_bar).sqrt()


def flow_time(alpha_bar: Tensor) -> Tensor:
    """Return the flow's time ``t = sqrt(1 - ab) / c``, 0 (data) to 1 (noise).

    Example:
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

    The authors' code leaves sigma out of the log-probability, so that it is not a density, and takes a clip range of
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
        scale = t_next * math.cos(self.noise_scale * math.pi / 2)  # sqrt(t'^2 - sigma^2)
        # eps_hat = (x_f - (1 - t) x0_hat) / t
        return _in_diffusion(
            now,
            then,
            1 - t_next - scale * (1 - t) / t,
            scale / t,
            t_next * math.sin(self.noise_scale * math.pi / 2),
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
    """Convert a step between flow states into one between diffusion states: its input over c, its output times c'."""
    out = flow_scale(then)
    return Coefficients(out * x0, out / flow_scale(now) * x_f, out * sigma)


def _require(noise_scale: float, most: float = math.inf) -> None:
    if not 0.0 <= noise_scale <= most:
        limit = "at least 0" if most == math.inf else f"between 0 and {most:g}"
        raise MotionkitError(f"the noise scale must be {limit}, got {noise_scale:g}.", fix="--noise-scale sets it.")


@dataclass(frozen=True, eq=False)
class StepPlan:
    """K reverse steps from noise to motion: ``x <- c_x0 * x0_hat + c_xt * x + sigma * eps``.

    All tensors have length K, position 0 first (noisiest), float64 on the CPU.
    """

    timesteps: Tensor  # int64 trained index of the network's input
    c_x0: Tensor  # Weight of the prediction
    c_xt: Tensor  # Weight of the current state
    sigma: Tensor  # Noise added; 0 outside the window and always 0 at the last position, which leaves no noise
    # ``s = c_x0 / sigma``, what a unit of prediction means to the log-probability; 0 where sigma is 0. For ancestral
    # sampling on all steps ``s^2 = SNR_{t-1} - SNR_t``.
    sensitivity: Tensor
    trainable: tuple[int, ...]  # Positions with sigma > 0, in order: the steps that have a log-probability

    @classmethod
    def build(
        cls,
        schedule: Schedule,
        sampler: Sampler | None = None,
        *,
        steps: int | Sequence[int] | None = None,
        window: Iterable[int] | None = None,
    ) -> StepPlan:
        """Compute every step.

        Args:
            schedule: The trained schedule.
            sampler: `DDPM`, `DDIM` or another `Sampler`; `DDPM` when None.
            steps: How many evenly spaced timesteps to visit, or which ones; all of them when None.
            window: Positions (0 = noisiest) where noise is added; every other step is the deterministic ODE step.
                None means every position; the last one never adds noise.

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
        sensitivity = torch.where(scored, c_x0 / torch.where(scored, sigma, 1.0), 0.0)
        trainable = tuple(int(position) for position in scored.nonzero().flatten())
        return cls(index, c_x0, c_xt, sigma, sensitivity, trainable)

    def __len__(self) -> int:
        return len(self.timesteps)

    def rows(self) -> list[tuple[int, float, float, float]]:
        """Return timestep, c_x0, c_xt and sigma of each step, as numbers."""
        columns = (self.timesteps.tolist(), self.c_x0.tolist(), self.c_xt.tolist(), self.sigma.tolist())
        return list(zip(*columns, strict=True))

    def require_trainable(self) -> None:
        """Refuse a plan in which no step adds noise, so that none has a log-probability."""
        if not self.trainable:
            raise MotionkitError(
                "the sampler adds no noise at any step, so there is nothing to train.",
                why="a deterministic step has no log-probability; eta is 0 or the window is empty.",
                fix="use eta > 0 and a window of at least one step before the last.",
            )


def sampled_std(alpha_bar: Tensor, steps: Coefficients, std: float) -> float:
    """Return the standard deviation of samples if the data are ``N(0, std^2)`` and the network is exact.

    The network that minimises the error predicts ``E[x0 | x] = g x`` with ``g = sqrt(ab) std^2 / (ab std^2 + 1 - ab)``.
    The state stays Gaussian: a step takes its variance to ``(c_x0 g + c_xt)^2 var + sigma^2``, from 1 at the start.

    Args:
        alpha_bar: ``[K]`` float64, before each step.
        steps: The steps.
        std: Standard deviation of the data, positive.
    """
    gain = alpha_bar.sqrt() * std**2 / (alpha_bar * std**2 + 1 - alpha_bar)
    factor, added = (steps.c_x0 * gain + steps.c_xt).square().tolist(), steps.sigma.square().tolist()
    variance = 1.0
    for times, plus in zip(factor, added, strict=True):
        variance = times * variance + plus
    return math.sqrt(variance)


def excess_noise(schedule: Schedule, plan: StepPlan, std: float = 0.02) -> float:
    """Return `sampled_std` over `std`: 1 is right, 4 means that fine detail is four times too rough.

    Small details suffer first. With few steps a sampler of stochastic differential equations ends with noise that it
    has no steps left to remove, and a reward of smoothness then scores the sampler. Below 1 detail is smoothed, which
    every deterministic sampler does when its last steps are long.

    Args:
        schedule: The trained schedule.
        plan: The steps.
        std: Standard deviation of the detail, in normalised features.

    Example:
        >>> schedule = Schedule.cosine(50)
        >>> for sampler, last in ((FlowSDE(0.7), 9), (FlowSDE(0.7), 2), (DDIM(1.0), 9)):
        ...     plan = StepPlan.build(schedule, sampler, steps=10, window=range(last))
        ...     print(round(excess_noise(schedule, plan), 2), end=" ")
        1.09 0.46 0.39
    """
    steps = Coefficients(plan.c_x0, plan.c_xt, plan.sigma)
    return sampled_std(schedule.alphas_cumprod[plan.timesteps], steps, std) / std
