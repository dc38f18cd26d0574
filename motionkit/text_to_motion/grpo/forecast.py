"""Memory and time of a step, forecast before the first one: some predictions are made, and their tensors counted.

What a prediction keeps for its backward pass is a fixed part, such as weights in another precision, and a part per row.
Both follow from one and two rows; the algorithm says how many rows there are (`Load`). Tensors are counted as they are
made and freed, which is the same on every device. Not counted are kernels' own workspaces, what the allocator holds in
reserve, and what a reward without a gradient takes.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from motionkit.motion import MotionBatch
from motionkit.text import Prompt
from motionkit.text_to_motion.grpo.step import GRPO
from motionkit.text_to_motion.policy import DiffusionPolicy
from motionkit.text_to_motion.rewards.mix import RewardMix

_LONG = 0.05  # seconds of a prediction from which its time is taken
_LOSS = 8  # a loss keeps as much of each row as so many predictions
_BACKWARD = 3.0  # a prediction with its backward pass takes as long as so many predictions


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


def forecast(grpo: GRPO, prompts: Sequence[Prompt], motions: int) -> Forecast:
    """Forecast the longest step of `prompts` with so many motions in this process."""
    policy, algorithm, trained = grpo.policy, grpo.algorithm, [parameter for _, parameter in grpo.learner.trained]
    row = _Row(policy, max(prompts, key=lambda prompt: prompt.length), algorithm.guidance)
    load = algorithm.load(motions)
    with torch.no_grad():
        _, passing, _ = count(row.predict)
    with torch.enable_grad(), algorithm.calling():
        kept, _, _ = count(row.predict)
    weights = {
        "weights": _bytes(chain(policy.network.parameters(), policy.network.buffers())),
        "reference": 0.0 if grpo.reference.network is None else _bytes(grpo.reference.network.parameters()),
        "gradients and AdamW": 3 * _bytes(trained),
        "average": _bytes(trained) if grpo.learner.ema is not None else 0.0,
    }
    able = grpo.rewards.gradient or (False,) * len(grpo.rewards.terms)
    pure = RewardMix([term for term, gradient in zip(grpo.rewards.terms, able, strict=True) if gradient])
    with torch.set_grad_enabled(load.scored), torch.random.fork_rng(devices=[]):
        scores, scoring, models = count(lambda rows: row.score(pure, rows))
    # Sampling, scoring and the update follow each other. The update keeps the graph of the predictions and that of
    # either the scores or a loss.
    rows = load.calls * load.rows
    phases = {
        f"sampling of {motions} motions": passing.at(motions),
        f"scoring of {motions} motions": scoring.at(motions),
        f"activations of {rows} rows": load.calls * kept.at(load.rows)
        + (scores.at(motions) if load.scored else rows * _LOSS * row.noise.nbytes),
    }
    most = max(phases, key=lambda phase: phases[phase])
    states = motions * row.noise.nbytes * (2 + load.states)  # and the noise of each motion, and itself
    parts = {**weights, "rewards": models, "states": states, most: phases[most]}
    return Forecast(parts, row.seconds(load.rows) * (load.sampled + _BACKWARD * load.trained))


class _Row:
    """Predictions and scores of one prompt, in any number of rows."""

    def __init__(self, policy: DiffusionPolicy, prompt: Prompt, guidance: float) -> None:
        self.policy, self.prompt, self.guidance = policy, prompt, guidance
        self.device, width = policy.normalizer.mean.device, policy.normalizer.mean.shape[-1]
        frames = policy.frames(torch.tensor([prompt.length]))
        self.noise = torch.randn(1, frames, width, generator=torch.Generator().manual_seed(0)).to(self.device)
        self.condition = policy.condition([prompt])

    def predict(self, rows: int) -> Tensor:
        """Return predictions ``[N, T, D]`` for noise halfway through the schedule."""
        zeros = torch.zeros(rows, dtype=torch.int64, device=self.device)
        halfway, lengths = zeros + len(self.policy.schedule) // 2, zeros + self.prompt.length
        noise, condition = self.noise.repeat(rows, 1, 1), self.condition.select(zeros)
        return self.policy.predict(noise, halfway, condition, lengths, guidance=self.guidance)

    def score(self, rewards: RewardMix, rows: int) -> object:
        """Return the scores of motions of noise, and the motions."""
        lengths = torch.full((rows,), self.prompt.length, device=self.device)
        x0 = self.noise.repeat(rows, 1, 1).requires_grad_(torch.is_grad_enabled())
        features = self.policy.normalizer.denormalize(x0)
        motions = MotionBatch(features, lengths, skeleton=self.policy.skeleton, fps=self.policy.fps)
        return rewards.score(motions, [self.prompt] * rows), motions.joints, motions

    @torch.no_grad()
    def seconds(self, most: int) -> float:
        """Return the seconds of a row, of as many rows at once as are quick; at most `most`."""
        rows = 1
        while True:
            begun = time.perf_counter()
            float(self.predict(rows).sum())  # waits for the device
            taken = time.perf_counter() - begun
            if taken >= _LONG or rows == most:
                return taken / rows
            rows = min(2 * rows, most)


def _bytes(tensors: Any) -> float:
    return float(sum(tensor.nbytes for tensor in tensors))


def _tensors(values: Any) -> list[Tensor]:
    return [value for value in tree_leaves(values) if isinstance(value, Tensor)]
