"""Asking rewards: most at once, slow ones in threads; samples and rewards keep their order."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from motionkit.errors import MotionkitError
from motionkit.rewards._records import rows
from motionkit.rewards._scores import checked, place_of
from motionkit.rewards.base import Record, Reward, RewardScores
from motionkit.text import Prompt

Answer = Callable[[], RewardScores]
"""Waits for the scores of a reward that was asked."""


def is_async(reward: Reward) -> bool:
    """Return whether `score` is a coroutine function, ``async def score``."""
    return inspect.iscoroutinefunction(reward.score)


def threads_of(reward: Reward) -> int:
    """Return how many threads a reward wants its samples to be shared among; 1 for most."""
    return max(1, int(getattr(reward, "threads", 1)))


def valid_segments(prompts: Sequence[Prompt], device: torch.device) -> Tensor:
    """Return ``[N, K]`` bool, which segments each prompt has; K is that of the longest."""
    counts = torch.tensor([len(prompt.segments) for prompt in prompts], device=device)
    return torch.arange(int(counts.max()), device=device) < counts[:, None]


def answer_of(reward: Reward, samples: Record, prompts: Sequence[Prompt]) -> object:
    """Return what one call of `score` returns, be it scores or not."""
    return _awaited(reward, samples, prompts) if is_async(reward) else reward.score(samples, prompts)


def ask(reward: Reward, samples: Record, prompts: Sequence[Prompt]) -> RewardScores:
    """Score N samples by one reward, however it wants to be asked.

    Raises:
        MotionkitError: It returns something else than scores (exit code 1).
    """
    with asking([reward]) as start:
        return start(reward, samples, prompts)()


def try_reward(reward: Reward, samples: Record, prompts: Sequence[Prompt]) -> None:
    """Score a few samples to see that the reward returns scores, before anything is started.

    Args:
        reward: A reward of another package or file.
        samples: What it reads.
        prompts: Their prompts.

    Raises:
        MotionkitError: It has no name, or returns something else than scores (exit code 2).
    """
    if not isinstance(getattr(reward, "name", None), str):
        raise MotionkitError(
            f"{type(reward).__name__}{place_of(reward)} has no name.",
            why="metrics are logged as reward/NAME/mean.",
            fix='give the class a name: name = "..."',
        )
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            ask(reward, samples, prompts)
    except MotionkitError as error:
        raise MotionkitError(error.message, why=error.why, fix=error.fix) from error


@contextmanager
def asking(rewards: Iterable[Reward]) -> Iterator[Callable[[Reward, Record, Sequence[Prompt]], Answer]]:
    """Yield ``start(reward, samples, prompts) -> Answer`` for some rewards.

    A reward with ``async def score``, or with ``threads`` above 1, begins at once in a thread, without a graph; any
    other one is scored when its answer is waited for, so that the slow ones are under way meanwhile.
    """
    slow = sum(threads_of(reward) if not is_async(reward) else 1 for reward in rewards if is_slow(reward))
    pool = ThreadPoolExecutor(slow, "reward") if slow else None
    try:
        yield lambda reward, samples, prompts: _start(pool, reward, samples, prompts)
    finally:
        if pool is not None:
            pool.shutdown(cancel_futures=True)


def is_slow(reward: Reward) -> bool:
    """Return whether a reward is scored in threads."""
    return is_async(reward) or threads_of(reward) > 1


def _start(pool: ThreadPoolExecutor | None, reward: Reward, samples: Record, prompts: Sequence[Prompt]) -> Answer:
    valid = valid_segments(prompts, samples.device)
    if pool is None or not is_slow(reward):
        return lambda: checked(reward.score(samples, prompts), reward, valid)
    if is_async(reward):
        future = pool.submit(_awaited, reward, samples, prompts)
        return lambda: checked(future.result(), reward, valid)
    parts = [part.tolist() for part in torch.arange(len(prompts)).chunk(threads_of(reward))]
    futures = [pool.submit(_plain, reward, rows(samples, part), [prompts[i] for i in part]) for part in parts]

    def joined() -> RewardScores:
        found = []
        for part, future in zip(parts, futures, strict=True):
            own = valid[part]
            found.append(checked(future.result(), reward, own[:, : int(own.sum(1).max())]))
        return _joined(found, valid.shape[1])

    return joined


def _plain(reward: Reward, samples: Record, prompts: Sequence[Prompt]) -> object:
    with torch.no_grad():
        return reward.score(samples, prompts)


def _awaited(reward: Any, samples: Record, prompts: Sequence[Prompt]) -> object:
    # A loop of its own, in a thread of its own: the caller may be inside a loop, as in a notebook.
    with torch.no_grad():
        return asyncio.run(reward.score(samples, prompts))


def _joined(found: Sequence[RewardScores], columns: int) -> RewardScores:
    """Put the scores of consecutive samples together; a part that only some of them have is NaN for the others."""
    names = dict.fromkeys(name for scores in found for name in scores.parts)
    segments = None
    if all(scores.segments is not None for scores in found):
        own = [scores.segments[:, :columns] for scores in found if scores.segments is not None]
        segments = torch.cat([pad(each, (0, columns - each.shape[1])) for each in own])
    applies = None
    if any(scores.applies is not None for scores in found):
        applies = torch.cat([scores.applying for scores in found])
    return RewardScores(
        torch.cat([scores.total for scores in found]),
        segments=segments,
        parts={
            name: torch.cat([scores.parts.get(name, torch.full_like(scores.total, torch.nan)) for scores in found])
            for name in names
        },
        applies=applies,
    )
