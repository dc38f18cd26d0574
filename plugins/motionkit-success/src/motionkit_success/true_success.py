"""Success rate of an actor: by the environment, and by a learned reward."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from motionkit.metrics.paired import compare
from motionkit.rl import stable_hash
from motionkit_success.environments.base import Environment, Flags, Floats, Frames

Act = Callable[[Floats, Frames], NDArray[Any]]
"""``act(states, frames) -> actions``."""

Predict = Callable[[Frames], Flags]
"""``predict(frames) -> [M] bool``: whether a learned reward sees success in frames of M copies."""

_Z = 1.959964
_RESAMPLES = 2000


@dataclass(frozen=True)
class Episodes:
    """Results of E episodes."""

    success: Flags  # [E] bool: the environment saw success after some step
    predicted: Flags | None  # [E] bool: the learned reward did; None without one
    films: tuple[NDArray[np.uint8], ...]  # frames [T, H, W, 3] of the first camera, of the first episodes


def start_seeds(purpose: str, seed: int, first: int, count: int) -> NDArray[np.int64]:
    """Return the seeds of episodes `first`, `first` + 1, ... of one purpose; those of two purposes differ."""
    numbers = range(first, first + count)
    return np.array([stable_hash(f"episode/{purpose}/{seed}/{number}") % 2**62 for number in numbers], np.int64)


def run_episodes(
    environment: Environment,  # its copies run so many episodes at a time; their running episodes are lost
    act: Act,  # called before every step with states and frames
    seeds: NDArray[np.int64],  # [E] the starts
    *,
    frames: bool = False,  # whether `act` needs frames; they are drawn only if something needs them
    predict: Predict | None = None,  # a learned reward
    films: int = 0,  # episodes whose frames are kept
) -> Episodes:
    """Run one episode from each start to its end."""
    count, size = len(seeds), environment.num_envs
    success = np.zeros(count, np.bool_)
    predicted = np.zeros(count, np.bool_)
    kept: list[NDArray[np.uint8]] = []
    camera = next(iter(environment.cameras), "")
    for start in range(0, count, size):
        part = seeds[start : start + size]
        rows = np.arange(len(part))
        # The last batch may need fewer copies than there are: the others repeat its first start, and do not count.
        filled = np.concatenate([part, np.repeat(part[:1], size - len(part))])
        environment.reset(np.arange(size), filled)
        over = np.zeros(size, np.bool_)
        rolls: list[list[NDArray[np.uint8]]] = [[] for _ in range(max(0, min(films - start, len(part))))]
        drawing = frames or bool(rolls)
        seen: Frames = environment.frames() if drawing else {}
        while not over[: len(part)].all():
            for number, roll in enumerate(rolls):
                if not over[number]:
                    roll.append(seen[camera][number].copy())
            step = environment.step(act(environment.states(), seen))
            success[start + rows] |= step.success[rows] & ~over[rows]
            # Episodes that go on and in which the learned reward has seen no success yet.
            asked = rows[:0] if predict is None else rows[~over[rows] & ~predicted[start + rows]]
            seen = environment.frames() if drawing or len(asked) else {}
            if predict is not None and len(asked):
                some = {name: values[asked] for name, values in seen.items()}
                predicted[start + asked] = predict(some)
            for number, roll in enumerate(rolls):
                if step.done[number] and not over[number]:
                    roll.append(seen[camera][number].copy())
            over |= step.done
        kept += [np.stack(roll) for roll in rolls]
    return Episodes(success, None if predict is None else predicted, tuple(kept))


def rate_interval(hits: int, count: int) -> tuple[float, float]:
    """Return the 95 % interval of a rate (Wilson 1927).

    Example:
        >>> [round(end, 3) for end in rate_interval(200, 200)]
        [0.981, 1.0]
    """
    rate, z2 = hits / count, _Z * _Z
    middle = (rate + z2 / (2 * count)) / (1 + z2 / count)
    half = _Z / (1 + z2 / count) * math.sqrt(rate * (1 - rate) / count + z2 / (4 * count * count))
    # The interval holds the rate; rounding puts an end beyond it where all episodes succeed, or none.
    return min(rate, max(0.0, middle - half)), max(rate, min(1.0, middle + half))


def change_of(before: Flags, after: Flags, seed: int = 0) -> dict[str, object]:
    """Return a rate before and after, from the same starts, with 95 % intervals of its change and of the rate after."""
    rates = [flags[:, None].astype(np.float64) for flags in (before, after)]
    change = compare(*rates, seed=seed, resamples=_RESAMPLES).document()
    return {**change, "after_ci95": list(rate_interval(int(after.sum()), len(after)))}
