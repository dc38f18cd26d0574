"""The protocol of environments: N copies of one task that are stepped together."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
from gymnasium.spaces import Space
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Flags = NDArray[np.bool_]
Frames = Mapping[str, NDArray[np.uint8]]  # ``[N, H, W, 3]`` RGB by the name of the camera


@dataclass(frozen=True)
class Step:
    """The result of one step of N copies."""

    reward: Floats  # [N] float32, the environment's reward
    success: Flags  # [N] bool, whether the task is fulfilled after the step
    terminated: Flags  # [N] bool, whether the episode has ended in a terminal state
    truncated: Flags  # [N] bool, whether the episode was cut, as at the time limit
    # One mapping per copy. ``joints`` [T, J, 3] in metres, Y up, with ``fps``, at the end of an episode lets motion
    # rewards score it.
    infos: Sequence[Mapping[str, Any]] = field(default=())

    @property
    def done(self) -> Flags:
        """``[N]`` bool, whether the copy needs `Environment.reset`."""
        return self.terminated | self.truncated


class Environment(Protocol):
    """N copies of one task.

    The options of its plugin may have a classmethod ``usual(command, given, policy)``: it returns settings by dotted
    key that replace defaults of ``reward-collect`` or ``ppo``, for the options in files and on the command line, and
    the kind of policy, ``mlp`` or ``pixels``. User input wins over them.

    A copy whose episode is over keeps its last state until `reset` is called for it: after `step`, `states` and
    `frames` always return the state that the step led to, never the first one of the next episode.

    Attributes:
        num_envs: N.
        spec: JSON-able description: the environment's name and its options. Recorded with data and models.
        cameras: ``(height, width)`` in pixels by the name of the camera; empty if it has none.
        state_size: Length of the state vector; 0 if the environment has none.
        action_space: Space of one copy's action: a `gymnasium.spaces.Box` of one dimension, or a ``Discrete``.
        max_steps: Steps after which an episode is cut.
        state_parts: Numbers of each part that a state is joined of, in their order. An actor of other parts is refused.
        left_out: What of an observation is in no state, and what it is.
        notes: Sentences for the start of a run.
    """

    num_envs: int
    spec: Mapping[str, object]
    cameras: Mapping[str, tuple[int, int]]
    state_size: int
    action_space: Space[Any]
    max_steps: int
    state_parts: Mapping[str, int] = {}
    left_out: Mapping[str, str] = {}
    notes: Sequence[str] = ()

    @abstractmethod
    def reset(self, copies: NDArray[np.int64], seeds: NDArray[np.int64]) -> None:
        """Begin a new episode in some copies.

        Args:
            copies: ``[M]`` numbers of the copies.
            seeds: ``[M]`` seed of each episode; the start depends on the seed only, not on the copy or N.
        """
        ...

    @abstractmethod
    def states(self) -> Floats:
        """Return the current state vectors, ``[N, state_size]``."""
        ...

    @abstractmethod
    def frames(self) -> Frames:
        """Return the current images, ``[N, H, W, 3]`` uint8 RGB by camera."""
        ...

    @abstractmethod
    def step(self, actions: NDArray[Any]) -> Step:
        """Step every copy; the step of a copy whose episode is over is meaningless and must not change it.

        Args:
            actions: ``[N, A]`` float32 for a ``Box``, ``[N]`` int64 for a ``Discrete``; clipped to the space.
        """
        ...

    @abstractmethod
    def close(self) -> None:
        """Release windows, processes and files; may be called twice."""
        ...


@runtime_checkable
class Stored(Protocol):
    """An environment whose whole state can be saved, so that a run resumes to the same bits."""

    def get_state(self) -> Mapping[str, NDArray[Any]]:
        """Return the state of all copies, random generators included.

        Each array has a row for each copy, ``[N, ...]``: workers that share the copies split and concatenate it.
        """
        ...

    def set_state(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Restore the state that `get_state` returned."""
        ...


@runtime_checkable
class Scripted(Protocol):
    """An environment with a scripted policy, for ``reward-collect --policy scripted``."""

    def scripted(self) -> NDArray[Any]:
        """Return actions for `step` that lead towards success."""
        ...
