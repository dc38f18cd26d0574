"""The rewards of one loop: each reads what it reads of what the loop made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from motionkit.config import Chosen
from motionkit.errors import MotionkitError
from motionkit.plugins import reads_of
from motionkit.rewards.base import Reward
from motionkit.trainers._world import OneProcess, World
from motionkit.trainers.sa2va_rl.loops.base import Made


@dataclass(frozen=True)
class LoopScores:
    """Rewards of N samples.

    Attributes:
        total: ``[N]`` weighted sum; 0 where `finite` is False.
        finite: ``[N]`` bool, False where a reward could not be computed.
        metrics: Mean of each reward by its name, over the samples of all processes.
    """

    total: Tensor
    finite: Tensor
    metrics: Mapping[str, float]


class LoopRewards:
    """Several rewards as one.

    Args:
        chosen: The rewards with their weights.
        loop: Name of the loop, for messages and metrics.
        device: Where scores are.
        world: The processes that share the samples.

    Attributes:
        rewards: The rewards by name.
        reads_captions: Whether one of them compares texts with the data's captions; a reward of texts does, unless it
            has ``reads_captions = False``.
    """

    def __init__(self, chosen: Sequence[Chosen], loop: str, device: torch.device, world: World | None = None) -> None:
        self.loop = loop
        self._world = world or OneProcess()
        self.names = tuple(one.name for one in chosen)
        self.rewards: dict[str, Reward] = {}
        self._terms: list[tuple[Reward, float, str]] = []
        self.reads_captions = False
        for one in chosen:
            reads = reads_of(one.kind, one.component)
            if reads not in ("mask", "text"):
                raise MotionkitError(
                    f"the reward {one.label} cannot be used in {loop}.",
                    why=f"it reads {reads}; a loop makes masks and texts.",
                    fix="motionkit plugins list rewards shows what each reads.",
                )  # fmt: skip
            self.rewards[one.name] = one.build(dataset=None, device=device)
            self.reads_captions |= reads == "text" and getattr(self.rewards[one.name], "reads_captions", True)
            self._terms.append((self.rewards[one.name], one.weight, reads))

    def __call__(self, made: Made) -> LoopScores:
        """Return the scores of N samples, the share of this process.

        Raises:
            MotionkitError: A reward gave no sample of any process a finite score (exit code 1).
        """
        parts = []
        metrics = {}
        for reward, weight, reads in self._terms:
            samples = made.masks if reads == "mask" else made.texts
            total = reward.score(samples, ()).total.detach().float()
            good = total.isfinite()
            found = self._world.sum(torch.stack([total[good].double().sum(), good.sum().double()]))
            if not found[1]:
                raise MotionkitError(
                    f"the reward {reward.name} gave no finite score in {self.loop}.", code=1,
                    why="a reward of nothing but failures would be taken for a reward of 0.",
                )  # fmt: skip
            metrics[f"{self.loop}/reward/{reward.name}"] = float(found[0] / found[1])
            parts.append((total, weight))
        finite = torch.stack([total.isfinite() for total, _ in parts]).all(0)
        summed = torch.stack([torch.where(finite, total, 0.0) * weight for total, weight in parts]).sum(0)
        return LoopScores(summed, finite, metrics)
