"""One call of a reward, and whether what it returns are scores."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from motionkit.contracts.reward import Record, Reward, RewardScores
from motionkit.rl import length_mask
from motionkit.text import Prompt


def is_async(reward: Reward) -> bool:
    """Return whether `score` is a coroutine function, ``async def score``."""
    return inspect.iscoroutinefunction(reward.score)


def answer_of(reward: Reward, samples: Record, prompts: Sequence[Prompt]) -> object:
    """Return the unchecked result of one call of `score`."""
    return awaited(reward, samples, prompts) if is_async(reward) else reward.score(samples, prompts)


def awaited(reward: Any, samples: Record, prompts: Sequence[Prompt]) -> object:
    """Return the unchecked result of a ``score`` that is a coroutine function, without a graph."""
    # Another loop, in another thread: the caller may be inside a loop, as in a notebook.
    with torch.no_grad():
        return asyncio.run(reward.score(samples, prompts))


def valid_segments(prompts: Sequence[Prompt], device: torch.device) -> Tensor:
    """Return the ``[N, K]`` bool mask of the prompts' segments, K that of the longest prompt."""
    counts = torch.tensor([len(prompt.segments) for prompt in prompts], device=device)
    return length_mask(counts, int(counts.max()))


def fault_of(scores: object, valid: Tensor) -> str:
    """Return the defect of `scores`, as the end of a sentence; empty if they are valid."""
    if not isinstance(scores, RewardScores):
        return "None" if scores is None else f"a {type(scores).__name__}, not RewardScores"
    if fault := _fault(scores.total, (len(valid),), valid):
        return f"total {fault}"
    if not isinstance(scores.parts, Mapping):
        return f"parts as a {type(scores.parts).__name__}; they must be a mapping"
    for part, value in scores.parts.items():
        if fault := _fault(value, (len(valid),), valid):
            return f"part {part!r} {fault}"
    if scores.applies is not None and (fault := _fault(scores.applies, (len(valid),), valid, bools=True)):
        return f"applies {fault}"
    segments = scores.segments
    if segments is None:
        return ""
    wide = isinstance(segments, Tensor) and segments.ndim == 2 and segments.shape[1] > valid.shape[1]
    fault = _fault(segments[:, : valid.shape[1]] if wide else segments, tuple(valid.shape), valid)
    return f"segments {fault}" if fault else ""


def _fault(value: object, shape: tuple[int, ...], like: Tensor, *, bools: bool = False) -> str:
    if not isinstance(value, Tensor):
        return f"as a {type(value).__name__}; it must be a tensor"
    if tuple(value.shape) != shape:
        return f"{list(value.shape)}; it must be {list(shape)}"
    if not (value.dtype == torch.bool if bools else value.is_floating_point()):
        return f"of type {str(value.dtype).removeprefix('torch.')}; it must be {'bool' if bools else 'float32'}"
    return "" if value.device == like.device else f"on {value.device}; the samples are on {like.device}"
