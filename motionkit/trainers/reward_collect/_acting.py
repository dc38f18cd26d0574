"""Policies that act without learning: random, scripted, or a run's actor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium.spaces import Discrete
from numpy.typing import NDArray

from motionkit.environments.base import Environment, Scripted
from motionkit.errors import MotionkitError
from motionkit.policies.actor._actor import Actor
from motionkit.trainers._state import Parts, State
from motionkit.trainers.ppo._vec_env import ScoredEnv

Choose = Callable[[NDArray[Any]], NDArray[Any]]
"""``choose(observed) -> actions``."""


class Acting:
    """Steps an environment with a fixed policy.

    Args:
        env: The environment.
        choose: The policy.
        steps: Steps of each copy in one update.
    """

    def __init__(self, env: ScoredEnv, choose: Choose, steps: int) -> None:
        self._env, self._choose, self._steps = env, choose, steps
        self._seen: NDArray[Any] | None = None
        self._taken = 0

    def update(self) -> dict[str, float]:
        """Step every copy so many times."""
        seen: Any = self._env.reset() if self._seen is None else self._seen
        for _ in range(self._steps):
            seen, *_ = self._env.step(self._choose(seen))
        self._seen = seen
        self._taken += self._steps * self._env.num_envs
        return {"ppo/environment_steps": float(self._taken)}

    def parts(self) -> Parts:
        """Return what a checkpoint holds."""
        return {"episodes": self._env, "acting": self}

    def state(self) -> State:
        """Return the steps taken."""
        return State(values={"taken": self._taken})

    def load_state(self, state: State) -> None:
        """Put them back; where episodes go on, their copies show what they showed."""
        self._taken = int(state.values["taken"])
        if self._taken and self._env.resumes:
            self._seen = self._env.seen()


def random_actions(environment: Environment) -> Choose:
    """Return a policy that draws actions evenly from their space, with numpy's global generator."""
    space: Any = environment.action_space
    count = environment.num_envs
    if isinstance(space, Discrete):
        return lambda _: np.random.randint(int(space.n), size=count)
    low, high = (np.clip(side, -1e3, 1e3) for side in (space.low, space.high))
    return lambda _: np.random.uniform(low, high, (count, *space.shape)).astype(np.float32)


def scripted_actions(environment: Environment, name: str) -> Choose:
    """Return the environment's own way to success.

    Raises:
        MotionkitError: It knows none.
    """
    if not isinstance(environment, Scripted):
        raise MotionkitError(
            f"the environment {name} has no scripted policy.", fix="--policy ppo, --policy random or --policy RUN"
        )
    return lambda _: environment.scripted()


def actor_actions(actor: Actor) -> Choose:
    """Return the policy of an actor; torch's global generator draws."""
    return actor.act
