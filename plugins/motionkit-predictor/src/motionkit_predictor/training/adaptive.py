"""Adaptive weights of losses: GradNorm, uncertainty, and dynamic weight averaging.

They multiply the user's weights, so that a group that was switched off stays off.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from motionkit.errors import MotionkitError
from motionkit.training.steps import State
from motionkit_predictor.training.settings import AdaptiveSettings

_LEAST = 1e-3  # smallest factor of a loss: none is switched off


def build_adaptive(settings: AdaptiveSettings, terms: Sequence[str], per_epoch: int) -> Adaptive | None:
    """Return the chosen method for some losses; None for ``none``."""
    if settings.method == "none":
        return None
    chosen = tuple(settings.terms or terms)
    if unknown := [name for name in chosen if name not in terms]:
        raise MotionkitError(
            f"--adaptive-terms has {unknown[0]}, which is not a loss with a weight above 0.",
            why=f"these have one: {', '.join(terms)}.", fix=f"--set loss.{unknown[0]}=0.1, or leave it out.",
        )  # fmt: skip
    if len(chosen) < 2:
        raise MotionkitError(
            f"--adaptive-loss {settings.method} balances two losses or more, and there is {chosen[0]} alone.",
            fix="name others by --adaptive-terms, or leave --adaptive-loss out.",
        )
    if settings.method == "gradnorm":
        return GradNorm(chosen, alpha=settings.alpha, rate=settings.learning_rate)
    if settings.method == "uncertainty":
        return Uncertainty(chosen, rate=settings.learning_rate)
    return DWA(chosen, temperature=settings.temperature, per_epoch=per_epoch)


class Adaptive(ABC):
    """Factors of some losses.

    An update calls `total` for each of its batches, and `settle` after the gradients are there.
    """

    def __init__(self, terms: Sequence[str]) -> None:
        self.terms = tuple(terms)
        self._seen: list[Tensor] = []

    @abstractmethod
    def factors(self) -> Tensor:
        """Return the factors ``[K]`` of the losses, without gradients."""

    def total(
        self,
        losses: Mapping[str, Tensor],  # weighted losses by name
        shared: Tensor,  # parameter that all of them depend on: the last shared layer
    ) -> Tensor:
        """Return the sum of all losses, those of `terms` with their factors."""
        values = torch.stack([losses[name] for name in self.terms])
        self._seen.append(values.detach())
        self.look(values, shared)
        rest = [value for name, value in losses.items() if name not in self.terms]
        return torch.stack([*rest, self.combined(values)]).sum()

    def combined(self, values: Tensor) -> Tensor:
        """Return the sum of ``[K]`` losses with their factors."""
        return (self.factors().to(values) * values).sum()

    def look(self, values: Tensor, shared: Tensor) -> None:
        """Measure what the method needs in the graph of the losses; by default nothing."""
        return

    def settle(self) -> None:
        """Change the factors by the losses since the last call."""
        seen, self._seen = self._seen, []
        values = torch.stack(seen).mean(0)
        if bool(values.isfinite().all()):
            self.update(values)

    @abstractmethod
    def update(self, values: Tensor) -> None:
        """Change the factors; `values` ``[K]`` are the losses of the update."""

    @abstractmethod
    def state(self) -> State:
        """Return what a checkpoint holds."""

    @abstractmethod
    def load_state(self, state: State) -> None:
        """Put it back."""

    def metrics(self) -> dict[str, float]:
        """Return the factor of each loss."""
        pairs = zip(self.terms, self.factors().tolist(), strict=True)
        return {f"adaptive_loss/{name}/weight": factor for name, factor in pairs}


class _Learned(Adaptive):
    """Factors by a learned number for each loss, with an Adam of its own."""

    def __init__(self, terms: Sequence[str], start: float, rate: float) -> None:
        super().__init__(terms)
        self.numbers = nn.Parameter(torch.full((len(self.terms),), start))
        self._optimizer = torch.optim.Adam([self.numbers], lr=rate)

    def state(self) -> State:
        """Return the numbers and both moments."""
        moments = self._optimizer.state.get(self.numbers, {})
        return State({"numbers": self.numbers.detach(), **moments})

    def load_state(self, state: State) -> None:
        """Put them back."""
        with torch.no_grad():
            self.numbers.copy_(state.tensors["numbers"])
        if moments := {name: value.clone() for name, value in state.tensors.items() if name != "numbers"}:
            self._optimizer.state[self.numbers] = moments


class GradNorm(_Learned):
    """Chen et al., "GradNorm" (ICML 2018): gradients of all losses at the shared layer become alike.

    The norm of each is moved towards their mean times the relative inverse training rate to the power `alpha`: a loss
    that has fallen less than the others gets a larger gradient. The factors add up to their number.
    """

    def __init__(self, terms: Sequence[str], *, alpha: float, rate: float) -> None:
        super().__init__(terms, 1.0, rate)
        self._alpha = alpha
        self._first: Tensor | None = None
        self._norms: list[Tensor] = []

    def factors(self) -> Tensor:
        """Return the factors."""
        return self.numbers.detach()

    def look(self, values: Tensor, shared: Tensor) -> None:
        """Measure the gradient of each loss at the shared layer."""
        norms = []
        for value in values:
            (gradient,) = torch.autograd.grad(value, shared, retain_graph=True, allow_unused=True)
            norms.append(values.new_zeros(()) if gradient is None else gradient.norm())
        self._norms.append(torch.stack(norms).detach().cpu())

    def update(self, values: Tensor) -> None:
        """Move each factor one step towards its aim."""
        values, norms = values.cpu(), torch.stack(self._norms).mean(0)
        self._norms = []
        if self._first is None:
            self._first = values.clamp_min(1e-12)
        trained = values / self._first
        slow = (trained / trained.mean().clamp_min(1e-12)) ** self._alpha
        scaled = self.factors() * norms
        # The gradient of sum |w_i n_i - aim_i| in w_i, with constant aims.
        self.numbers.grad = torch.sign(scaled - scaled.mean() * slow) * norms / norms.mean().clamp_min(1e-12)
        self._optimizer.step()
        with torch.no_grad():
            self.numbers.clamp_(min=_LEAST)
            self.numbers.mul_(len(self.terms) / self.numbers.sum())

    def state(self) -> State:
        """Return the factors, their moments, and the first losses."""
        kept = super().state()
        first = {} if self._first is None else {"first": self._first}
        return State({**kept.tensors, **first})

    def load_state(self, state: State) -> None:
        """Put them back."""
        tensors = dict(state.tensors)
        self._first = tensors.pop("first", None)
        super().load_state(State(tensors))


class Uncertainty(_Learned):
    """Kendall et al., "Multi-Task Learning Using Uncertainty" (CVPR 2018): ``sum exp(-s_i) L_i + s_i``, s learned.

    At rest ``exp(s_i)`` is the loss itself, so that each contributes 1.
    """

    def __init__(self, terms: Sequence[str], *, rate: float) -> None:
        super().__init__(terms, 0.0, rate)

    def factors(self) -> Tensor:
        """Return ``exp(-s)``."""
        return (-self.numbers.detach()).exp()

    def update(self, values: Tensor) -> None:
        """Move s along its own gradient, ``1 - exp(-s_i) L_i``."""
        self.numbers.grad = 1 - self.factors() * values.cpu()
        self._optimizer.step()


class DWA(Adaptive):
    """Liu et al., "End-to-End Multi-Task Learning with Attention" (CVPR 2019): by how fast each loss fell of late.

    ``w_i = K softmax(L_i(t - 1) / L_i(t - 2) / T)`` with the mean losses of the last two epochs; 1 in the first two.
    """

    def __init__(self, terms: Sequence[str], *, temperature: float, per_epoch: int) -> None:
        super().__init__(terms)
        self._temperature, self._per_epoch = temperature, per_epoch
        self._sum, self._count = torch.zeros(len(self.terms)), 0
        self._means = torch.zeros(0, len(self.terms))

    def factors(self) -> Tensor:
        """Return the factors of this epoch."""
        if len(self._means) < 2:
            return torch.ones(len(self.terms))
        fell = self._means[-1] / self._means[-2].clamp_min(1e-12)
        return len(self.terms) * (fell / self._temperature).softmax(0)

    def update(self, values: Tensor) -> None:
        """Add to the means of this epoch."""
        self._sum, self._count = self._sum + values.cpu(), self._count + 1
        if self._count == self._per_epoch:
            self._means = torch.cat([self._means, (self._sum / self._count)[None]])[-2:]
            self._sum, self._count = torch.zeros_like(self._sum), 0

    def state(self) -> State:
        """Return the means of the last epochs and the sums of this one."""
        return State({"sum": self._sum, "means": self._means}, {"count": self._count})

    def load_state(self, state: State) -> None:
        """Put them back."""
        self._sum, self._means = state.tensors["sum"].clone(), state.tensors["means"].clone()
        self._count = int(state.values["count"])
