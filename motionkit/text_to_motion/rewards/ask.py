"""Calls rewards, slow ones in threads, and checks their scores."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from motionkit import plugins
from motionkit.contracts.reward import Record, Reward, RewardScores, moved, rows
from motionkit.contracts.scoring import awaited, fault_of, is_async, valid_segments
from motionkit.errors import MotionkitError
from motionkit.motion import HUMANML, MotionBatch, Representation, Skeleton
from motionkit.plugins import complete
from motionkit.text import Prompt

Answer = Callable[[], RewardScores]  # waits for the scores of a call


def checked(scores: object, reward: Reward, valid: Tensor) -> RewardScores:
    """Return `scores` if they are valid, see `motionkit.contracts.reward.RewardScores`."""
    wrong = fault_of(scores, valid)
    if not wrong and isinstance(scores, RewardScores):
        return scores
    raise MotionkitError(
        f"the reward {reward.name!r}{place_of(reward)} returned {wrong}.",
        why=f"score() must return RewardScores whose total has one float32 number per sample, here [{len(valid)}].",
        fix="correct the reward; a sample that cannot be scored gets NaN. motionkit.testing.check_reward tests it.",
        code=1,
    )


def place_of(reward: Reward) -> str:
    """Return package, file and line of a reward's code: `` (package motionkit-reward-x, reward.py:27)``."""
    reward = reward.inner if isinstance(reward, Elsewhere) else reward
    package = plugins.package_of(type(reward).__module__)
    try:
        code = inspect.unwrap(type(reward).score).__code__
        place = f"{Path(code.co_filename).name}:{code.co_firstlineno}"
    except AttributeError:
        place = ""
    words = [f"package {package}" if package and not plugins.is_file(package) else "", place]
    shown = ", ".join(word for word in words if word)
    return f" ({shown})" if shown else ""


def threads_of(reward: Reward) -> int:
    """Return the number of threads that share the samples of a reward, its ``threads``; 1 by default."""
    return max(1, int(reward.threads))


def ask(reward: Reward, samples: Record, prompts: Sequence[Prompt]) -> RewardScores:
    """Score N samples by one reward, in threads if it is slow."""
    with asking([reward]) as start:
        return start(reward, samples, prompts)()


def require_readable(reward: Reward, body: Representation) -> bool:
    """Refuse a reward of features that motions of a body cannot be brought to; return whether they are to be."""
    wanted = reward.features
    # Another `Skeleton` is told by its width, which the reward checks itself.
    if wanted in (None, body.name) or isinstance(body, Skeleton):
        return False
    if wanted == HUMANML.name and body.humanml is not None:
        return True
    raise MotionkitError(
        f"the reward {reward.name!r} reads features of the {wanted} body, and the motions are of the {body.name} body.",
        why="one cannot be made of the other: the bodies have no joints by the same names.",
        fix="choose a reward that reads joints, such as physics, or one of that body.",
    )


def as_read(reward: Reward, samples: Any, prompts: Sequence[Prompt]) -> tuple[Any, Sequence[Prompt]]:
    """Return samples, and their prompts, in the features and frames that a reward reads."""
    if not isinstance(samples, MotionBatch) or not require_readable(reward, samples.skeleton):
        return samples, prompts
    brought = samples.humanml
    scale = brought.fps / samples.fps
    lengths = brought.lengths.tolist()
    return brought, [_scaled(prompt, scale, length) for prompt, length in zip(prompts, lengths, strict=True)]


def _scaled(prompt: Prompt, scale: float, length: int) -> Prompt:
    """Return a prompt of `length` frames whose segments end at the same seconds at another frame rate."""
    ends = [0, *(round(end * scale) for _, end in prompt.bounds[:-1]), length]
    return replace(prompt, frames=tuple(max(1, end - start) for start, end in pairwise(ends)))


def try_reward(reward: Reward, samples: Record, prompts: Sequence[Prompt]) -> None:
    """Score a few samples, to refuse a reward that does not return scores before a run (exit code 2)."""
    # A stranger's reward may lack it.
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

    A reward with ``async def score``, or with ``threads`` above 1, starts at once in a thread, without a graph; any
    other one is scored when its answer is waited for, while the slow ones run.
    """
    rewards = [complete(reward, Reward) for reward in rewards]
    slow = sum(threads_of(reward) if not is_async(reward) else 1 for reward in rewards if is_slow(reward))
    pool = ThreadPoolExecutor(slow, "reward") if slow else None
    try:
        yield lambda reward, samples, prompts: _start(pool, reward, *as_read(reward, samples, prompts))
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
        future = pool.submit(awaited, reward, samples, prompts)
        return lambda: checked(future.result(), reward, valid)
    parts = [part.tolist() for part in torch.arange(len(prompts)).chunk(threads_of(reward))]
    futures = [pool.submit(_plain, reward, rows(samples, part), [prompts[i] for i in part]) for part in parts]

    def joined() -> RewardScores:
        result = []
        for part, future in zip(parts, futures, strict=True):
            part_valid = valid[part]
            result.append(checked(future.result(), reward, part_valid[:, : int(part_valid.sum(1).max())]))
        return _joined(result, valid.shape[1])

    return joined


def _plain(reward: Reward, samples: Record, prompts: Sequence[Prompt]) -> object:
    with torch.no_grad():
        return reward.score(samples, prompts)


def _joined(results: Sequence[RewardScores], columns: int) -> RewardScores:
    """Concatenate the scores of consecutive samples; a part that only some of them have is NaN for the others."""
    names = dict.fromkeys(name for scores in results for name in scores.parts)
    segments = None
    if all(scores.segments is not None for scores in results):
        parts = [scores.segments[:, :columns] for scores in results if scores.segments is not None]
        segments = torch.cat([pad(part, (0, columns - part.shape[1])) for part in parts])
    applies = None
    if any(scores.applies is not None for scores in results):
        applies = torch.cat([scores.applying for scores in results])
    return RewardScores(
        torch.cat([scores.total for scores in results]),
        segments=segments,
        parts={
            name: torch.cat([scores.parts.get(name, torch.full_like(scores.total, torch.nan)) for scores in results])
            for name in names
        },
        applies=applies,
    )


class Elsewhere:
    """A reward on another device: moves samples to it and scores back, with gradients.

    Other attributes, such as ``name`` and ``bounds``, are the reward's.
    """

    name: str

    def __init__(self, inner: Reward, device: torch.device) -> None:
        self.inner = complete(inner, Reward)
        self.device = device
        self.score: Callable[..., Any] = self._await_score if is_async(inner) else self._score

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def _score(self, samples: Record, prompts: Sequence[Prompt]) -> object:
        return _back(self.inner.score(moved(samples, self.device), prompts), samples.device)

    async def _await_score(self, samples: Record, prompts: Sequence[Prompt]) -> object:
        result: Any = self.inner.score(moved(samples, self.device), prompts)
        return _back(await result, samples.device)


def _back(scores: object, device: torch.device) -> object:
    """Move scores to `device`; anything else is returned as it is, and `checked` refuses it."""

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
