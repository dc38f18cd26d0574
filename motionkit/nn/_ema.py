"""Exponential moving average of parameters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from motionkit.errors import MotionkitError
from motionkit.nn.sharding import as_sharded, is_sharded, local


class EMA:
    """Keeps ``average = decay * average + (1 - decay) * parameter`` beside a module.

    Args:
        named: The parameters to average, with their names, such as ``module.named_parameters()``.
        decay: In [0, 1).
        warmup: Use ``min(decay, (1 + n) / (10 + n))`` at update n, so that a short run is not all initial weights.

    Example:
        >>> layer = nn.Linear(2, 2)
        >>> ema = EMA(layer.named_parameters(), decay=0.999)
        >>> ema.update()  # after every optimiser step
        >>> with ema.applied():
        ...     out = layer(torch.ones(1, 2))  # computed with the averages
    """

    def __init__(self, named: Iterable[tuple[str, nn.Parameter]], decay: float, *, warmup: bool = False) -> None:
        self.decay = decay
        self.warmup = warmup
        self.updates = 0
        self._live = dict(named)
        self._average = {name: parameter.detach().clone() for name, parameter in self._live.items()}

    @torch.no_grad()
    def update(self) -> None:
        """Move the averages towards the parameters' present values."""
        decay = min(self.decay, (1 + self.updates) / (10 + self.updates)) if self.warmup else self.decay
        self.updates += 1
        averages, live = ([local(tensor) for tensor in each.values()] for each in (self._average, self._live))
        torch._foreach_lerp_(averages, live, 1 - decay)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Put the averages into the module inside the block; afterwards the live weights are back bit for bit."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    def _swap(self) -> None:
        # Storage is swapped, not copied, so that no bit changes.
        for name, parameter in self._live.items():
            if is_sharded(parameter):  # layers are gathered from the storage that they have
                live, average = local(parameter), local(self._average[name])
                kept = live.clone()
                live.copy_(average)
                average.copy_(kept)
            else:
                parameter.data, self._average[name] = self._average[name], parameter.data

    def tensors(self) -> dict[str, Tensor]:
        """Return the averages by name, for a checkpoint."""
        return dict(self._average)

    def load(self, tensors: Mapping[str, Tensor], *, updates: int = 0) -> None:
        """Restore averages saved by `tensors`."""
        if tensors.keys() != self._average.keys():
            odd = sorted(tensors.keys() ^ self._average.keys())
            raise MotionkitError(f"the saved average does not fit the model: {odd[0]!r} is on one side only.")
        for name, value in tensors.items():
            if value.shape != self._average[name].shape:
                raise MotionkitError(f"the saved average of {name!r} has shape {tuple(value.shape)}.")
            self._average[name].copy_(as_sharded(value, self._average[name]))
        self.updates = updates
