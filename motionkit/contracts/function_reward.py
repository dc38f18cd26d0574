"""A plain function as a reward: ``def my_reward(motions, prompts) -> Tensor``."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor

from motionkit.contracts.reward import Record, Reward, RewardScores
from motionkit.errors import MotionkitError
from motionkit.plugins import check_signature
from motionkit.text import Prompt

Function = Callable[[Any, Sequence[Prompt]], Any]
"""What is called with N samples and the prompt of each; it returns ``[N]`` numbers, or `RewardScores`."""


class FunctionReward:
    """A reward that calls a function.

    The function is called from one thread at a time, so that it may keep what it likes between two calls. An ``async``
    function runs beside the other rewards of a mix, each time in an event loop of its own.

    Args:
        function: ``my_reward(motions, prompts)``. ``motions`` is the batch that rewards read
            (`motionkit.motion.MotionBatch` for motions), ``prompts[i]`` belongs to motion i. It returns a tensor
            ``[N]`` of any number type, NaN for a motion that it cannot score; or `RewardScores`.
        name: Name in metrics; that of the function where it is left out.

    Example:
        >>> from motionkit.testing import sample_motions, sample_prompts
        >>> def low(motions, prompts):
        ...     return -motions.joints[..., 1].amax((1, 2))
        >>> motions = sample_motions(count=2)
        >>> FunctionReward(low).score(motions, sample_prompts(motions)).total.shape
        torch.Size([2])
    """

    def __init__(self, function: Function, name: str = "") -> None:
        check_signature(function)
        self.function = function
        plain = getattr(function, "__name__", type(function).__name__)
        self.name = name or (plain.replace("_", "-") if plain.isidentifier() else "function")
        self.score: Callable[..., Any] = self._await_score if inspect.iscoroutinefunction(function) else self._score

    def __repr__(self) -> str:
        return f"FunctionReward({self.name!r})"

    def _score(self, samples: Record, prompts: Sequence[Prompt]) -> RewardScores:
        return self._scores(self.function(samples, prompts), samples)

    async def _await_score(self, samples: Record, prompts: Sequence[Prompt]) -> RewardScores:
        return self._scores(await cast("Awaitable[Any]", self.function(samples, prompts)), samples)

    def _scores(self, found: object, samples: Record) -> RewardScores:
        """Return what the function returned as scores; anything but one number per sample is refused."""
        if isinstance(found, RewardScores):
            return found
        if isinstance(found, Tensor) and found.shape == (len(samples),) and not found.is_complex():
            return RewardScores(found.to(samples.device, torch.float32))
        said = f"a tensor {list(found.shape)}" if isinstance(found, Tensor) else f"a {type(found).__name__}"
        said = "None" if found is None else said
        raise MotionkitError(
            f"the reward {self.name!r}{self._place()} returned {said}.",
            why=f"a function that is a reward returns a tensor with one number per motion, here [{len(samples)}].",
            fix="return a tensor of that shape, NaN for a motion that cannot be scored.",
            code=1,
        )

    def _place(self) -> str:
        code = getattr(self.function, "__code__", None)
        return f" ({Path(code.co_filename).name}:{code.co_firstlineno})" if code is not None else ""


def as_reward(reward: Reward | Function) -> Reward:
    """Return a reward: a plain function becomes a `FunctionReward`, anything else is one already."""
    if hasattr(reward, "score") and not isinstance(reward, type):
        return cast("Reward", reward)
    return cast("Reward", FunctionReward(cast("Function", reward)))


def of_file(function: Function, name: str, **runtime: Any) -> FunctionReward:
    """Return the reward of a function that a Python file holds; a run's dataset and device are not for it."""
    return FunctionReward(function, name)
