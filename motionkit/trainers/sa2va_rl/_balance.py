"""How much the gradient of each loop counts, and whether the loops pull in different directions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Literal

import torch
from torch import Tensor, nn

from motionkit.trainers._state import State
from motionkit.trainers._world import OneProcess, World

_SMOOTH = 0.9
_FAST, _SLOW = 0.9, 0.99
_LEAST, _MOST = 0.1, 10.0
_IDLE = 1e-3
"""Progress that a loop is taken to make at least, in reward: none is left out for good."""


class Balance:
    """Adds up the gradients of the losses of loops.

    gradient: each loop is scaled to the mean norm of all (factors from 0.1 to 10, averaged over about ten steps).
    progress: a loop counts by how fast its reward rises, the difference of a fast and a slow average of it.

    Args:
        named: The trained parameters.
        how: What factors follow.
        conflict_every: Steps between reports of the cosine between gradients; 0: none.
        world: The processes whose gradients add up.
    """

    def __init__(
        self,
        named: Sequence[tuple[str, nn.Parameter]],
        how: Literal["none", "gradient", "progress"],
        conflict_every: int,
        world: World | None = None,
    ) -> None:
        self._parameters = [parameter for _, parameter in named]
        self._how, self._every, self._world = how, conflict_every, world or OneProcess()
        self._averages: dict[str, float] = {}
        self.factors: dict[str, float] = {}

    def observe(self, rewards: Mapping[str, float]) -> None:
        """Take in the mean rewards of the loops in a step."""
        if self._how != "progress":
            return
        gains = {}
        for name, reward in rewards.items():
            for speed, decay in (("fast", _FAST), ("slow", _SLOW)):
                before = self._averages.get(f"{name}/{speed}", reward)
                self._averages[f"{name}/{speed}"] = decay * before + (1 - decay) * reward
            gains[name] = max(0.0, self._averages[f"{name}/fast"] - self._averages[f"{name}/slow"]) + _IDLE
        total = sum(gains.values())
        self.factors = {name: len(gains) * gain / total for name, gain in gains.items()}

    def backward(self, losses: Mapping[str, Tensor], anchor: Tensor | None, step: int) -> dict[str, float]:
        """Add the gradients of the losses to the parameters.

        Args:
            losses: Weighted loss of each loop.
            anchor: A loss that counts as it is.
            step: Step of the run.

        Returns:
            ``grad/cos_A_B`` of each two loops where it is reported, and ``balance/A`` where factors are used.
        """
        report = self._every and step % self._every == 0
        if self._how != "gradient" and not report:
            scaled = [loss * self.factors.get(name, 1.0) for name, loss in losses.items()]
            if scaled := [*scaled, *([] if anchor is None else [anchor])]:
                torch.stack(scaled).sum().backward()
            return self._told()
        own = {name: self._gradient(loss) for name, loss in losses.items()}
        whole = {name: self._world.sum(gradient) for name, gradient in own.items()}
        if self._how == "gradient":
            self._follow({name: float(gradient.norm()) for name, gradient in whole.items()})
        total = torch.stack([self.factors.get(name, 1.0) * gradient for name, gradient in own.items()]).sum(0)
        if anchor is not None:
            total = total + self._gradient(anchor)
        parts = total.split([parameter.numel() for parameter in self._parameters])
        for parameter, part in zip(self._parameters, parts, strict=True):
            grown = part.view_as(parameter)
            parameter.grad = grown.clone() if parameter.grad is None else parameter.grad + grown
        if not report:
            return self._told()
        return self._told() | {
            f"grad/cos_{one}_{other}": float(torch.cosine_similarity(whole[one], whole[other], dim=0))
            for one, other in combinations(whole, 2)
        }

    def _gradient(self, loss: Tensor) -> Tensor:
        """Return the gradient of a loss, flat."""
        if not loss.requires_grad:
            return torch.zeros(sum(parameter.numel() for parameter in self._parameters), device=loss.device)
        found = torch.autograd.grad(loss, self._parameters, retain_graph=True, allow_unused=True)
        pairs = zip(found, self._parameters, strict=True)
        return torch.cat([(torch.zeros_like(own) if one is None else one).flatten() for one, own in pairs])

    def _follow(self, norms: Mapping[str, float]) -> None:
        moving = {name: norm for name, norm in norms.items() if norm > 0}
        mean = sum(moving.values()) / max(1, len(moving))
        for name, norm in moving.items():
            wanted = min(_MOST, max(_LEAST, mean / norm))
            self.factors[name] = _SMOOTH * self.factors.get(name, wanted) + (1 - _SMOOTH) * wanted

    def _told(self) -> dict[str, float]:
        return {f"balance/{name}": factor for name, factor in self.factors.items()}

    def state(self) -> State:
        """Return factors and averages."""
        return State(values={"factors": dict(self.factors), "averages": dict(self._averages)} if self.factors else {})

    def load_state(self, state: State) -> None:
        """Put them back."""
        self.factors = dict(state.values.get("factors", {}))
        self._averages = dict(state.values.get("averages", {}))
