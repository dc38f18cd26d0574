"""N environments of gymnasium, stepped one after the other in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete, Space
from numpy.typing import NDArray

from motionkit.environments.base import Floats, Frames, Step
from motionkit.environments.gymnasium._pictures import as_picture
from motionkit.environments.gymnasium._states import state_reader
from motionkit.environments.gymnasium._success import find_success, success_of
from motionkit.errors import MotionkitError
from motionkit.plugins import in_words

Env = gymnasium.Env[Any, Any]
_LONG = 1000


class Adapter:
    """N copies of an environment of gymnasium; see `motionkit.environments.base.Environment`.

    Nothing is reset by itself: gymnasium's vector environments would show the next episode's first picture at the end.
    A subclass says what the cameras see (`draw`).

    Args:
        make: Opens a copy.
        num_envs: Copies N.
        spec: What is opened, with its ``name``, and its ``id`` for messages.
        cameras: Names of the cameras.
        size: Height and width of the pictures.
        success_key: Entry of info that tells success; ``auto``: a usual one.
        max_steps: Steps of an episode; 0: the environment's own limit.
        help: What to do when it does not open or draw, for messages.

    Raises:
        MotionkitError: It does not open or draw, tells no success, or has actions of another sort.
    """

    def __init__(
        self, make: Callable[[], Env], num_envs: int, spec: Mapping[str, object], *, cameras: Sequence[str], size: int,
        success_key: str = "auto", max_steps: int = 0, help: str = "",
    ) -> None:  # fmt: skip
        self.num_envs, self.spec, self._size, self._help, self._code = num_envs, spec, size, help, 2
        self.name = str(spec.get("id") or spec["name"])
        self.envs: list[Env] = []
        self.cameras = dict.fromkeys(cameras, (size, size))
        self._seen: list[Any] = [None] * num_envs
        self._pictures: dict[int, dict[str, NDArray[np.uint8]]] = {}
        self._elapsed = np.zeros(num_envs, np.int64)
        self._over = np.ones(num_envs, np.bool_)
        try:
            with self._named("does not open"):
                for _ in range(num_envs):
                    self.envs.append(make())
            first = self.envs[0]
            self.max_steps = max_steps or getattr(first.spec, "max_episode_steps", None) or _LONG
            self.action_space, self._action = _actions(first.action_space, self.name)
            self._states_of = state_reader(first.observation_space)
            self._try(success_key)
            self.state_size = len(self._states_of(self._seen[0]))
        except BaseException:
            self.close()
            raise
        self._code = 1

    def draw(self, copy: int) -> Mapping[str, Any]:
        """Return what each camera sees of a copy, as `as_picture` takes it."""
        raise NotImplementedError

    def seen(self, copy: int) -> Any:
        """Return the present observation of a copy."""
        return self._seen[copy]

    def _try(self, success_key: str) -> None:
        """Play: what an environment shows and tells is known afterwards."""
        env = self.envs[0]
        env.action_space.seed(0)
        with self._named("does not begin"):
            self._seen[0], _ = env.reset(seed=0)
        self._frames_of(0)
        told: dict[str, Any] = {}
        for _ in range(self.max_steps):
            with self._named("does not step"):
                _, _, ended, cut, info = env.step(env.action_space.sample())
            told |= info
            self._success_key = find_success(told, success_key)
            if self._success_key or ended or cut:
                break
        find_success(told, success_key, self.name)
        for copy, each in enumerate(self.envs):
            with self._named("does not begin"):
                self._seen[copy], _ = each.reset(seed=0)
        self._pictures.clear()

    def reset(self, copies: NDArray[np.int64], seeds: NDArray[np.int64]) -> None:
        """Begin episodes; see `motionkit.environments.base.Environment.reset`."""
        for copy, seed in zip(copies.tolist(), seeds.tolist(), strict=True):
            with self._named("does not begin"):
                self._seen[copy], _ = self.envs[copy].reset(seed=int(seed % 2**31))
            self._pictures.pop(copy, None)
        self._elapsed[copies], self._over[copies] = 0, False

    def states(self) -> Floats:
        """Return ``[N, S]``: the numbers of the observation, pictures left out."""
        return np.stack([self._states_of(seen) for seen in self._seen]).astype(np.float32)

    def frames(self) -> Frames:
        """Return the pictures; each is drawn once per state."""
        shown = [self._frames_of(copy) for copy in range(self.num_envs)]
        return {key: np.stack([one[key] for one in shown]) for key in self.cameras}

    def _frames_of(self, copy: int) -> dict[str, NDArray[np.uint8]]:
        if copy not in self._pictures:
            with self._named("does not draw"):
                drawn = self.draw(copy)
                self._pictures[copy] = {
                    key: as_picture(value, self._size, f"{self.name}, {key}") for key, value in drawn.items()
                }
        return self._pictures[copy]

    def step(self, actions: NDArray[Any]) -> Step:
        """Step the copies whose episode is not over."""
        count = self.num_envs
        reward, success = np.zeros(count, np.float32), np.zeros(count, np.bool_)
        terminated, truncated = np.zeros(count, np.bool_), np.zeros(count, np.bool_)
        infos: list[Mapping[str, Any]] = [{}] * count
        for copy in np.flatnonzero(~self._over).tolist():
            with self._named("does not step"):
                self._seen[copy], paid, ended, cut, info = self.envs[copy].step(self._action(actions[copy]))
                reward[copy], terminated[copy] = np.asarray(paid).item(), ended
                success[copy], infos[copy] = success_of(info, self._success_key), info
            self._pictures.pop(copy, None)
            self._elapsed[copy] += 1
            truncated[copy] = (cut or self._elapsed[copy] >= self.max_steps) and not ended
        self._over |= terminated | truncated
        return Step(reward, success, terminated, truncated, infos)

    def close(self) -> None:
        """Close all copies."""
        for env in self.envs:
            env.close()
        self.envs = []

    @contextmanager
    def _named(self, failed: str) -> Iterator[None]:
        """Turn what the environment's code raises into an error that names it."""
        try:
            yield
        except MotionkitError:
            raise
        except Exception as error:  # an environment may raise anything
            raise MotionkitError(
                f"the environment {self.name} {failed}.", why=in_words(error), fix=self._help, code=self._code
            ) from error


def _actions(space: Space[Any], name: str) -> tuple[Space[Any], Callable[[NDArray[Any]], Any]]:
    """Return the space of actions that callers see, and how to make one of them the environment's.

    Raises:
        MotionkitError: They are neither a vector nor one of n choices.
    """
    if isinstance(space, Discrete):
        first, last = int(space.start), int(space.n) - 1
        return Discrete(last + 1), lambda action: first + int(np.clip(action, 0, last))
    if isinstance(space, Box) and len(space.shape) == 1:
        return space, lambda action: np.clip(action, space.low, space.high).astype(space.dtype)
    raise MotionkitError(f"the actions of {name} are {space}.", why="a vector or one of n choices is taken.")
