"""Memory and time of a step, forecast before the first one: its tensors are counted at one and at two rows.

What a forward pass keeps for its backward pass is a fixed part, such as weights in another precision, and a part per
row. Tensors are counted as they are made and freed, which is the same on every device. Not counted are kernels' own
workspaces and what the allocator holds in reserve.
"""

from __future__ import annotations

import logging
import time
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from motionkit.training.device import total_memory
from motionkit.training.learner import Learner

_LONG = 0.05  # seconds of a pass from which its time is taken
_logger = logging.getLogger("motionkit.trainers")


class Alive(TorchDispatchMode):
    """Counts the bytes of the tensors that are made inside the block, for as long as they live.

    Example:
        >>> with Alive() as alive:
        ...     kept = torch.zeros(10) + torch.zeros(10)
        >>> alive.now, alive.most
        (40, 120)
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch gives it no types
        self.now = self.most = 0  # bytes of those that live, and at the peak
        self.read = 0  # bytes of others, made before, that were read
        self._sizes: dict[int, int] = {}  # of each storage that lives; 0 for the others

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Return False: torch would import its compiler to keep it out of `__torch_dispatch__`; nothing is compiled."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation and look at what it reads and makes."""
        for tensor in _tensors((args, kwargs)):
            self.read += self._see(tensor, made=False)
        result = func(*args, **(kwargs or {}))
        for tensor in _tensors(result):
            self.now += self._see(tensor, made=True)
        self.most = max(self.most, self.now)
        return result

    def _see(self, tensor: Tensor, *, made: bool) -> int:
        """Return the bytes of a tensor's storage if it is new."""
        storage = tensor.untyped_storage()
        if storage._cdata in self._sizes:
            return 0
        self._sizes[storage._cdata] = storage.nbytes() if made else 0
        weakref.finalize(storage, self._free, storage._cdata)
        return storage.nbytes()

    def _free(self, place: int) -> None:
        self.now -= self._sizes.pop(place)


@dataclass(frozen=True)
class Line:
    """Bytes of a number of rows."""

    fixed: float
    row: float

    def at(self, rows: float) -> float:
        """Return the bytes of `rows` rows."""
        return self.fixed + rows * self.row


def count(run: Callable[[int], object]) -> tuple[Line, Line, int]:
    """Run something with one and with two rows.

    Returns:
        Bytes that its result keeps alive, bytes at its peak, and bytes that were read and had been there before.
    """
    run(1)  # what is cached once is no part of it
    kept, most = [], []
    for rows in (1, 2):
        with Alive() as alive:
            result = run(rows)
        kept.append(alive.now)
        most.append(alive.most)
        del result
    return _line(kept), _line(most), alive.read


def _line(values: Sequence[int]) -> Line:
    return Line(2 * values[0] - values[1], values[1] - values[0])


@dataclass(frozen=True)
class Forecast:
    """What a step takes."""

    parts: Mapping[str, float]  # bytes at the peak, by what they are
    seconds: float

    @property
    def peak(self) -> float:
        """Bytes at the peak."""
        return sum(self.parts.values())

    def __str__(self) -> str:
        unit, name = (1e9, "GB") if self.peak >= 1e9 else (1e6, "MB")
        parts = ", ".join(f"{part} {size / unit:.1f}" for part, size in self.parts.items() if size >= 0.05 * unit)
        seconds = f"{self.seconds:,.0f}" if self.seconds >= 10 else f"{self.seconds:.1g}"
        size = f"{self.peak / unit:.1f} {name} ({parts})"
        return f"a step takes up to {seconds} s and {size}, by tensors counted at 1 and 2 rows"

    def warn(self, device: torch.device) -> None:
        """Warn of a step that may not fit into the card."""
        if (card := total_memory(device)) and self.peak > card:
            _logger.warning("a step may not fit into the %.3g GB of %s: %s", card / 1e9, device, self)


def weights_of(
    network: nn.Module, trained: Iterable[Tensor], *, reference: nn.Module | None = None, average: bool = False
) -> dict[str, float]:
    """Return the bytes that a training holds from step to step, by what they are.

    Args:
        network: What is trained.
        trained: Those of its parameters that are.
        reference: A copy that is not trained.
        average: Whether a moving average is kept.
    """
    trained = list(trained)
    return {
        "weights": _bytes(chain(network.parameters(), network.buffers())),
        "reference": 0.0 if reference is None else _bytes(reference.parameters()),
        "gradients and AdamW": 3 * _bytes(trained),
        "average": _bytes(trained) if average else 0.0,
    }


def forecast_loss(learner: Learner, loss: Callable[[int], Tensor], rows: int, device: torch.device) -> Forecast:
    """Forecast the step of a supervised training: a loss and its backward pass.

    Args:
        learner: Owns the network. Its gradients are None afterwards.
        loss: Computes the loss of a number of the longest rows. Random numbers that it draws will be drawn again.
        rows: Rows of a step.
        device: Where the loss is computed.
    """
    network, trained = learner.model.network, [parameter for _, parameter in learner.trained]

    def run(rows: int) -> Tensor:
        with torch.enable_grad():
            value = loss(rows)
            value.backward()
        return value.detach()

    # Few rows would have their peak where all gradients are there; many have it where all activations are.
    hooks = [parameter.register_post_accumulate_grad_hook(_forget) for parameter in trained]
    training = network.training
    network.train()
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        _, most, _ = count(run)
        seconds = seconds_of(run, rows)
    network.train(training)
    for hook in hooks:
        hook.remove()
    held = weights_of(network, trained, average=learner.ema is not None)
    return Forecast({**held, f"activations of {rows} rows": most.at(rows)}, rows * seconds)


def _forget(parameter: Tensor) -> None:
    parameter.grad = None


@torch.no_grad()
def seconds_of(run: Callable[[int], Tensor], most: int) -> float:
    """Return the seconds of a row, of as many rows at once as are quick; at most `most`."""
    rows = 1
    while True:
        begun = time.perf_counter()
        float(run(rows).sum())  # waits for the device
        taken = time.perf_counter() - begun
        if taken >= _LONG or rows == most:
            return taken / rows
        rows = min(2 * rows, most)


def _bytes(tensors: Iterable[Tensor]) -> float:
    return float(sum(tensor.nbytes for tensor in tensors))


def _tensors(values: Any) -> list[Tensor]:
    return [value for value in tree_leaves(values) if isinstance(value, Tensor)]
