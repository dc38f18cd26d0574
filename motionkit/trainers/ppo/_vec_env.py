"""An environment as Stable-Baselines3 steps it, with rewards of our own and a count of true and predicted success."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import VecEnv

from motionkit.environments.base import Environment, Frames, Step, Stored
from motionkit.evaluation.success._episodes import start_seeds
from motionkit.policies.actor._actor import action_space, observation, observation_space
from motionkit.policies.actor._settings import ActorSpec
from motionkit.trainers._state import State
from motionkit.trainers.ppo._scorer import Scorer

Watch = Callable[[Step, Frames, NDArray[np.int64]], None]
"""Called after each step, before any restart, with what it brought, the frames after it and the episodes' seeds."""

_PURPOSE = "train"


class ScoredEnv(VecEnv):
    """Steps, scores and restarts the copies of an environment.

    A reward looks at the state after the action. Where an episode ends, that is still its own last state: the next
    episode begins afterwards, and the observation of the last state goes along as ``terminal_observation``.

    Args:
        environment: The environment.
        spec: What the actor reads.
        scorer: The rewards.
        seed: Seed of the starts.
        watch: Called after each step with it and the frames, which are drawn for it; for a recorder.

    Attributes:
        episodes: Episodes begun.
        actions: ``[N, A]`` or ``[N]``, the newest.
        finished: ``(true, predicted)`` success of each finished episode since `take_finished`.
    """

    def __init__(
        self, environment: Environment, spec: ActorSpec, scorer: Scorer, *, seed: int, watch: Watch | None = None
    ) -> None:
        self._environment, self._spec, self._scorer, self._seed, self._watch = environment, spec, scorer, seed, watch
        super().__init__(environment.num_envs, observation_space(spec), action_space(spec))
        self._draws = spec.kind == "pixels" or scorer.needs_frames or watch is not None
        self.actions: NDArray[Any] = np.zeros(0)
        self.episodes = 0
        self._starts = np.zeros(self.num_envs, np.int64)
        # [N]: success so far in the running episodes, and what an image reward saw.
        self._true = np.zeros(self.num_envs, np.bool_)
        self._predicted = np.zeros(self.num_envs, np.bool_)
        self.finished: list[tuple[bool, bool]] = []

    def reset(self) -> Any:
        """Begin an episode in every copy."""
        self._begin(np.arange(self.num_envs))
        return self.seen()

    def seen(self) -> NDArray[Any]:
        """Return the present observations."""
        return self._observe(self._frames(self._spec.kind == "pixels"))

    def step_async(self, actions: NDArray[Any]) -> None:
        """Keep the actions for `step_wait`."""
        self.actions = actions

    def step_wait(self) -> Any:
        """Step, score, and restart what is over."""
        step = self._environment.step(self.actions)
        frames = self._frames(self._draws)
        rewards, predicted = self._scorer(step, frames)
        if self._watch is not None:
            self._watch(step, frames, self._starts)
        self._true |= step.success
        self._predicted |= False if predicted is None else predicted
        seen, done = self._observe(frames), step.done
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        over = np.flatnonzero(done)
        if len(over):
            for copy in over.tolist():
                cut = bool(step.truncated[copy] and not step.terminated[copy])
                infos[copy] = {"terminal_observation": seen[copy], "TimeLimit.truncated": cut}
                self.finished.append((bool(self._true[copy]), bool(self._predicted[copy])))
            self._begin(over)
            seen = self.seen()
        return seen, rewards, done, infos

    def take_finished(self) -> list[tuple[bool, bool]]:
        """Return the finished episodes since the last call."""
        found, self.finished = self.finished, []
        return found

    def _begin(self, copies: NDArray[np.int64]) -> None:
        seeds = start_seeds(_PURPOSE, self._seed, self.episodes, len(copies))
        self._environment.reset(copies, seeds)
        self._starts[copies] = seeds
        self.episodes += len(copies)
        self._true[copies] = self._predicted[copies] = False

    def _frames(self, wanted: bool) -> Frames:
        return self._environment.frames() if wanted else {}

    def _observe(self, frames: Frames) -> NDArray[Any]:
        return observation(self._spec, self._environment.states(), frames).copy()

    def state(self) -> State:
        """Return the running episodes; see `motionkit.trainers._state.Stateful`."""
        arrays: dict[str, NDArray[Any]] = {
            "true": self._true, "predicted": self._predicted, "paid": self._scorer.state(), "seeds": self._starts
        }  # fmt: skip
        if isinstance(self._environment, Stored):
            arrays |= {f"environment.{name}": value for name, value in self._environment.get_state().items()}
        tensors = {name: torch.from_numpy(np.array(value)) for name, value in arrays.items()}
        return State(tensors, {"episodes": self.episodes, "finished": self.finished})

    def load_state(self, state: State) -> None:
        """Put them back; an environment that keeps no state begins new episodes."""
        arrays = {name: value.numpy() for name, value in state.tensors.items()}
        self.episodes = int(state.values["episodes"])
        self.finished = [(bool(true), bool(predicted)) for true, predicted in state.values["finished"]]
        if not isinstance(self._environment, Stored):
            self._begin(np.arange(self.num_envs))
            return
        self._true[:], self._predicted[:], self._starts[:] = arrays["true"], arrays["predicted"], arrays["seeds"]
        self._scorer.load_state(arrays["paid"])
        own = {name.removeprefix("environment."): value for name, value in arrays.items() if "." in name}
        self._environment.set_state(own)

    @property
    def resumes(self) -> bool:
        """Whether running episodes go on after a resume."""
        return isinstance(self._environment, Stored)

    def close(self) -> None:
        """The environment is closed by whoever opened it."""

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """Return an attribute for every copy: there are no single environments."""
        return [getattr(self, attr_name, None)] * self.num_envs

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Not used."""
        setattr(self, attr_name, value)

    def env_method(self, method_name: str, *method_args: Any, indices: Any = None, **method_kwargs: Any) -> list[Any]:
        """Return nothing: there are no single environments."""
        return [None] * self.num_envs

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        """Return False for every copy."""
        return [False] * self.num_envs
