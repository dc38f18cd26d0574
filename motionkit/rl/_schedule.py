"""Noise schedules of diffusion models: float64 tables over the trained timesteps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Literal

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

    Raises:
        MotionkitError: A beta lies outside (0, 1].

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
        """Build ``cosine`` or ``linear`` by name.

        Raises:
            MotionkitError: Another name.
        """
        makers = {"cosine": cls.cosine, "linear": cls.linear}
        if name not in makers:
            raise MotionkitError(f"unknown noise schedule {name!r}.", fix="use one of: cosine, linear.")
        return makers[name](steps)

    def shifted(self, shift: float) -> Schedule:
        """Return the schedule with `shift` times as much noise beside the signal at every timestep.

        The signal-to-noise ratio is divided by ``shift ** 2`` (Hoogeboom et al. 2023, arXiv 2301.11093, section 3.1:
        what many values show together is still seen when each of them is mostly noise, so a schedule that suits small
        images decides large ones in too few steps).

        Args:
            shift: Above 0; 1 returns the same schedule.
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
        """Return `count` evenly spaced trained timesteps from T - 1 down to 0, rounded to integers.

        Raises:
            MotionkitError: `count` is not in 1..T.
        """
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

        A motion has tens of thousands of values that hang together, so a cosine schedule decides what it shows within
        the first fifth of its steps; evenly spaced steps pass over that part in two or three strides. The last step
        jumps from about ``2 T / count`` to the motion, which by then only needs to be read off.

        Where rounding puts two on one timestep they move apart; with no room for that, the steps are evenly spaced.

        Raises:
            MotionkitError: `count` is not in 1..T.
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
        """Return timesteps near `steps`, another set each time: each uniform between the middles to its neighbours.

        The first stays; the last reaches half-way down to 0. They keep their order and differ from each other.

        Args:
            steps: Timesteps from noisy to clean.
            draw: Where they are drawn from.
        """
        # middles[k] lies between step k and step k + 1: step k is drawn from middles[k] + 1 .. middles[k - 1].
        middles = [(step + after) // 2 for step, after in zip(steps, [*steps[1:], 0], strict=True)]
        rest = [
            int(draw.integers(min(low + 1, step), high, endpoint=True))
            for step, low, high in zip(steps[1:], middles[1:], middles[:-1], strict=True)
        ]
        return [*steps[:1], *rest]

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
