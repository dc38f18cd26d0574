"""The trained parameters with AdamW: learning rate, clipping, moving average, and what is kept of the best step."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from itertools import compress

import torch
from torch import Tensor, nn

from motionkit.errors import MotionkitError
from motionkit.nn import EMA, adapter_parameters, has_adapters
from motionkit.nn.sharding import is_sharded, local
from motionkit.training.settings import OptimSettings
from motionkit.training.steps import AverageState, Learnable, ModelState, OptimizerState, State, Stateful
from motionkit.training.world import OneProcess, World

IN_A_ROW = 3  # updates without a finite gradient that end a run
_logger = logging.getLogger("motionkit.trainers")
Rate = Callable[[int], float]  # ``rate(update) -> learning rate``; updates are counted from 0
_BUCKET = 2**24  # numbers of a gradient that processes exchange at a time: 64 MiB in float32


class Best:
    """Keeps a copy of the weights with the highest value, such as a validation score; part of a checkpoint."""

    def __init__(self) -> None:
        self.value, self.step = -math.inf, 0
        self.tensors: dict[str, Tensor] = {}

    def offer(self, value: float, step: int, tensors: Mapping[str, Tensor]) -> bool:
        """Keep a copy of `tensors` if `value` is higher than any before; returns whether it is."""
        if not value > self.value:
            return False
        self.value, self.step = value, step
        self.tensors = {name: tensor.detach().clone() for name, tensor in tensors.items()}
        return True

    def state(self) -> State:
        """Return value, step and weights."""
        return State(self.tensors, {"value": self.value, "step": self.step} if self.step else {})

    def load_state(self, state: State) -> None:
        """Restore them."""
        self.value, self.step = float(state.values.get("value", -math.inf)), int(state.values.get("step", 0))
        self.tensors = dict(state.tensors)


class FiniteGradients:
    """Leaves out updates whose gradient is not finite; several in a row are an error.

    A single batch whose gradient overflows is left out: the same batch would come again after a resume, so an error
    would end the run for good. Several in a row mean that the weights themselves are out of range.

    Args:
        learning_rate: Peak learning rate of the run, for messages.
    """

    def __init__(self, learning_rate: float) -> None:
        self._rate = learning_rate
        self.in_a_row = 0  # updates left out since the last good one; part of a checkpoint's state
        self.left_out = 0  # updates left out since the last `count`

    def admit(self, norm: float) -> bool:
        """Return whether an update with a gradient of this norm may be made; the third refusal in a row raises."""
        if math.isfinite(norm):
            self.in_a_row = 0
            return True
        self.in_a_row += 1
        self.left_out += 1
        if self.in_a_row < IN_A_ROW:
            _logger.warning("the gradient is not finite (norm %s): this update is left out", norm)
            return False
        raise out_of_range(
            f"the gradient has not been finite for {IN_A_ROW} updates in a row.", f"its norm is {norm}", self._rate
        )

    def count(self) -> float:
        """Return how many updates were left out since the last call, for the metric ``grad/left_out``."""
        result, self.left_out = self.left_out, 0
        return float(result)


def out_of_range(message: str, value: str, learning_rate: float) -> MotionkitError:
    """Return the error for weights that are out of range; `value` describes what is not finite."""
    return MotionkitError(
        message,
        why=f"{value}: the weights are out of range.",
        fix=f"start again with a --learning-rate below {learning_rate:.2g}.",
        code=1,
    )


class Learner:
    """Owns the trained parameters, the optimiser, the learning rate and the moving average, and their state.

    One update is ``zero_grad()``, any number of ``backward()`` calls by the caller, then `descend`.

    Args:
        model: The model. All parameters of its network are trained, or its low-rank adapters if it has some.
        optim: AdamW settings; `grad_clip` 0 never clips.
        rate: Learning rate of each update.
        ema: Decay of the moving average of the trained parameters, with warm-up; 0 keeps none.
        world: The processes whose gradients add up.
        frozen: A part of the network that is not trained.
        trained: The parameters to train with their names if the rule above does not choose them.
    """

    def __init__(
        self,
        model: Learnable,
        optim: OptimSettings,
        rate: Rate,
        *,
        ema: float = 0.0,
        world: World | None = None,
        frozen: nn.Module | None = None,
        trained: Sequence[tuple[str, nn.Parameter]] = (),
    ) -> None:
        self.model = model
        self.optim = optim
        self.rate = rate
        self.world = world or OneProcess()
        self.gradients = FiniteGradients(optim.learning_rate or rate(optim.warmup_steps))
        self.trained = list(trained) or _trained(model.network, frozen)
        self.ema = EMA(self.trained, ema, warmup=True) if ema else None
        self._agreed: dict[bool, list[bool]] = {}  # by kind of update: which parameters had a gradient in any process

    @cached_property
    def optimizer(self) -> torch.optim.AdamW:
        """AdamW, made when it is first used: it imports torch's compiler, which a dry run does without."""
        optim, parameters = self.optim, [parameter for _, parameter in self.trained]
        return torch.optim.AdamW(parameters, lr=self.rate(0), betas=optim.betas, weight_decay=optim.weight_decay)

    def zero_grad(self) -> None:
        """Forget the gradient of the last update."""
        self.optimizer.zero_grad(set_to_none=True)

    def descend(self, update: int, *, move: bool = True, average: bool = True) -> dict[str, float]:
        """Clip the gradient, do one optimiser step, and move the average; see `FiniteGradients`.

        Args:
            update: Number of the update, from 0; sets the learning rate.
            move: False leaves the parameters as they are, for a batch without anything to learn from.
            average: Whether the average moves too; an update of several optimiser steps moves it once.

        Returns:
            ``grad/norm`` (before clipping), ``grad/left_out`` and ``optim/learning_rate``.
        """
        rate = self.rate(update)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        if self.world.size > 1:
            self._add_gradients(average)
        norm = self._clip()
        if self.gradients.admit(norm) and norm > 0 and move:
            # A batch without any gradient leaves the weights alone; Adam's momentum would move them.
            self.optimizer.step()
        if self.ema is not None and average:
            self.ema.update()
        return {"grad/norm": norm, "grad/left_out": self.gradients.count(), "optim/learning_rate": rate}

    def _add_gradients(self, kind: bool) -> None:
        """Replace every gradient by the sum over the processes, some of the parameters at a time.

        A parameter without a gradient in this process may have one in another. Those that had one in the last update of
        this kind are sent, and behind them which have one now: where these are others, they are sent anew. An update
        that moves no average is of another kind, as it may train other parameters.
        """
        parameters = [parameter for _, parameter in self.trained if not is_sharded(parameter)]  # sums already
        mine = torch.tensor([float(parameter.grad is not None) for parameter in parameters])
        while True:
            agreed = self._agreed.get(kind, [False] * len(parameters))
            first, *others = [*_in_buckets(list(compress(parameters, agreed)))] or [[]]
            sums, counts = self._summed(first, mine)
            self._agreed[kind] = [count > 0 for count in counts.tolist()]
            if self._agreed[kind] == agreed:
                break
        _hand_out(first, sums)
        for some in others:
            _hand_out(some, self._summed(some)[0])

    def _summed(self, some: Sequence[nn.Parameter], mine: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return the sums of gradients, flat, and those of the few numbers behind them."""
        flat = [_gradient(parameter).flatten() for parameter in some]
        flat += [] if mine is None else [mine.to(flat[0]) if flat else mine]
        total = self.world.sum(torch.cat(flat))
        count = 0 if mine is None else len(mine)
        return total[: len(total) - count], total[len(total) - count :]

    def _clip(self) -> float:
        """Scale the gradient down to the largest norm that is allowed, and return its norm before."""
        parameters, most = [parameter for _, parameter in self.trained], self.optim.grad_clip or math.inf
        if not any(map(is_sharded, parameters)):
            return float(nn.utils.clip_grad_norm_(parameters, most))
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        norm_of = nn.utils.get_total_norm
        mine = norm_of([local(gradient) for gradient in gradients if is_sharded(gradient)])
        whole = norm_of([gradient for gradient in gradients if not is_sharded(gradient)])
        norm = math.sqrt(float(self.world.sum(mine.double().square())) + float(whole) ** 2)
        if norm > most:
            for gradient in gradients:
                local(gradient).mul_(most / (norm + 1e-6))  # as clip_grad_norm_ does
        return norm

    def averaged(self) -> AbstractContextManager[None]:
        """Put the moving average into the network for the duration; nothing happens without one."""
        return nullcontext() if self.ema is None else self.ema.applied()

    def parts(self) -> dict[str, Stateful]:
        """Return the parts of a checkpoint; ``ema`` only if there is an average."""
        parts: dict[str, Stateful] = {
            "model": ModelState(self.model),
            "optimizer": OptimizerState(self.optimizer, self.model.network),
            "learner": self,
        }
        return parts if self.ema is None else {**parts, "ema": AverageState(self.ema)}

    def state(self) -> State:
        """Return the number of updates in a row without a finite gradient."""
        return State(values={"left_out": self.gradients.in_a_row})

    def load_state(self, state: State) -> None:
        """Restore it."""
        self.gradients.in_a_row = int(state.values["left_out"])


def constant_rate(peak: float, warmup: int) -> Rate:
    """Return linear warm-up over `warmup` updates, then `peak`."""
    return lambda update: peak * (min(1.0, (update + 1) / warmup) if warmup else 1.0)


def cosine_rate(peak: float, warmup: int, total: int, final: float) -> Rate:
    """Return linear warm-up over `warmup` updates, then half a cosine down to ``final * peak`` at update `total`.

    Without an end, if `total` is 0, the rate stays at its peak.
    """
    if not total:
        return constant_rate(peak, warmup)

    def rate(update: int) -> float:
        step = update + 1
        if step <= warmup:
            return peak * step / warmup
        progress = (step - warmup) / max(1, total - warmup)
        return peak * (final + (1 - final) * 0.5 * (1 + math.cos(math.pi * progress)))

    return rate


def _trained(network: nn.Module, frozen: nn.Module | None) -> list[tuple[str, nn.Parameter]]:
    """Return the parameters to train: the adapters if there are any, else all but those of `frozen`."""
    chosen = adapter_parameters(network) if has_adapters(network) else list(network.parameters())
    wanted = {id(parameter) for parameter in chosen}
    wanted -= {id(parameter) for parameter in frozen.parameters()} if frozen is not None else set()
    named = [(name, parameter) for name, parameter in network.named_parameters() if id(parameter) in wanted]
    for _, parameter in named:
        parameter.requires_grad_(True)
    return named


def _gradient(parameter: nn.Parameter) -> Tensor:
    return torch.zeros_like(parameter) if parameter.grad is None else parameter.grad


def _hand_out(parameters: Sequence[nn.Parameter], flat: Tensor) -> None:
    parts = flat.split([parameter.numel() for parameter in parameters])
    for parameter, part in zip(parameters, parts, strict=True):
        parameter.grad = part.view_as(parameter).to(parameter.dtype)


def _in_buckets(parameters: Sequence[nn.Parameter]) -> Iterator[list[nn.Parameter]]:
    """Yield groups of parameters of at most `_BUCKET` numbers, which are exchanged at once."""
    bucket: list[nn.Parameter] = []
    count = 0
    for parameter in parameters:
        if bucket and count + parameter.numel() > _BUCKET:
            yield bucket
            bucket, count = [], 0
        bucket.append(parameter)
        count += parameter.numel()
    if bucket:
        yield bucket
