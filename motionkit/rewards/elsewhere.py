"""A reward that lives on another device than what it scores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from motionkit.rewards._ask import is_async
from motionkit.rewards._records import moved
from motionkit.rewards.base import Record, Reward, RewardScores
from motionkit.text import Prompt


class Elsewhere:
    """A reward whose samples are moved to its device, and its scores back to theirs; gradients cross with them.

    Everything else, such as ``name`` and ``bounds``, is the reward's own.

    Args:
        inner: The reward.
        device: Where it is.
    """

    name: str

    def __init__(self, inner: Reward, device: torch.device) -> None:
        self.inner = inner
        self.device = device
        self.score: Callable[..., Any] = self._await_score if is_async(inner) else self._score

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def _score(self, samples: Record, prompts: Sequence[Prompt]) -> object:
        return _back(self.inner.score(moved(samples, self.device), prompts), samples.device)

    async def _await_score(self, samples: Record, prompts: Sequence[Prompt]) -> object:
        found: Any = self.inner.score(moved(samples, self.device), prompts)
        return _back(await found, samples.device)


def _back(scores: object, device: torch.device) -> object:
    """Return scores on `device`; what is no score is returned as it is, for `checked` to name."""

    def home(value: Any) -> Any:
        return value.to(device) if isinstance(value, Tensor) else value

    if not isinstance(scores, RewardScores) or not isinstance(scores.parts, dict):
        return scores
    return replace(
        scores,
        total=home(scores.total),
        segments=home(scores.segments),
        applies=home(scores.applies),
        parts={name: home(value) for name, value in scores.parts.items()},
    )
