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
from motionkit.plugins import check_signature, complete
from motionkit.text import Prompt

Function = Callable[[Any, Sequence[Prompt]], Any]
"""Called with N samples and the prompt of each; returns ``[N]`` numbers, or `RewardScores`."""


class FunctionReward(Reward):
    """A reward that calls a function.

    The function is called from one thread at a time, so it may keep state between calls. An ``async`` function runs
    concurrently with the other rewards of a mix, each time in a new event loop.

    Args:
        function: ``my_reward(motions, prompts)``. ``motions`` is the batch that rewards read
            (`motionkit.motion.MotionBatch` for motions), ``prompts[i]`` belongs to motion i. It returns a tensor
            ``[N]`` of any number type, NaN for a motion that it cannot score; or `RewardScores`.
        name: Name in metrics; by default that of the function.

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
        # An object that can be called need not have a name.
        plain = getattr(function, "__name__", type(function).__name__)
        self.name = name or (plain.replace("_", "-") if plain.isidentifier() else "function")
        if inspect.iscoroutinefunction(function):
            self.score = self._await_score  # type: ignore[assignment, method-assign]  # `is_async` asks the method

    def __repr__(self) -> str:
        return f"FunctionReward({self.name!r})"

    def score(self, samples: Record, prompts: Sequence[Prompt], /) -> RewardScores:
        """Return what the function returns of N samples, as scores."""
        return self._scores(self.function(samples, prompts), samples)

    async def _await_score(self, samples: Record, prompts: Sequence[Prompt]) -> RewardScores:
        return self._scores(await cast("Awaitable[Any]", self.function(samples, prompts)), samples)

    def _scores(self, value: object, samples: Record) -> RewardScores:
        """Turn the function's return value into scores; anything but one number per sample is refused."""
        if isinstance(value, RewardScores):
            return value
        odd = _odd_kind(value) if isinstance(value, Tensor) else ""
        if isinstance(value, Tensor) and value.shape == (len(samples),) and not odd:
            return RewardScores(value.to(samples.device, torch.float32))
        description = f"a tensor {list(value.shape)}{odd}" if isinstance(value, Tensor) else f"a {type(value).__name__}"
        description = "None" if value is None else description
        raise MotionkitError(
            f"the reward {self.name!r}{self._place()} returned {description}.",
            why=f"a function that is a reward returns a tensor with one number per motion, here [{len(samples)}].",
            fix="return a tensor of that shape, NaN for a motion that cannot be scored.",
            code=1,
        )

    def _place(self) -> str:
        # Only functions have code; other objects can be called, too.
        code = getattr(self.function, "__code__", None)
        return f" ({Path(code.co_filename).name}:{code.co_firstlineno})" if code is not None else ""


def as_reward(reward: Reward | Function) -> Reward:
    """Return a reward, complete (`motionkit.plugins.complete`); a plain function is wrapped in a `FunctionReward`."""
    # A reward is what has a score: a stranger's has no base class of ours.
    given = reward if hasattr(reward, "score") and not isinstance(reward, type) else FunctionReward(cast("Any", reward))
    return cast("Reward", complete(given, Reward))


def _odd_kind(value: Tensor) -> str:
    """Return what is wrong with a tensor that is not plain numbers; empty for nothing."""
    if value.is_meta:
        return " without values (device meta)"
    if value.is_complex():
        return " of complex numbers"
    return "" if value.layout is torch.strided else " that is sparse"


def of_file(function: Function, name: str, **runtime: Any) -> FunctionReward:
    """Return the reward for a function of a Python file; it does not use the run's dataset and device."""
    return FunctionReward(function, name)
