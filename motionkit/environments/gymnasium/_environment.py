"""N environments of gymnasium, stepped one after the other in this process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete, Space
from gymnasium.spaces import Dict as DictSpace
from numpy.typing import NDArray

from motionkit.environments.base import Floats, Frames, Step
from motionkit.environments.gymnasium._pictures import as_picture
from motionkit.environments.gymnasium._settings import GymnasiumSettings, PictureSettings
from motionkit.environments.gymnasium._success import find_success, success_of
from motionkit.errors import MotionkitError

_LONG = 1000


class GymnasiumEnvironment:
    """N copies of one registered environment; see `motionkit.environments.base.Environment`.

    Nothing is reset by itself: gymnasium's vector environments would show the next episode's first picture at the end.

    Args:
        options: Settings.
        num_envs: Copies N.

    Raises:
        MotionkitError: The id is unknown, or the environment has no picture or tells no success.
    """

    def __init__(self, options: GymnasiumSettings, *, num_envs: int = 1) -> None:
        if not options.id:
            raise MotionkitError(
                "no environment is named.", fix="--env.id ID; python -c 'import gymnasium; gymnasium.pprint_registry()'"
            )
        spec = {"name": "gymnasium", **options.model_dump(mode="json")}
        self._open(options, lambda: _make(options.id, options.kwargs, options), num_envs, spec)

    def _open(
        self, options: PictureSettings, make: Callable[[], gymnasium.Env[Any, Any]], num_envs: int,
        spec: Mapping[str, object],
    ) -> None:  # fmt: skip
        self.options, self.num_envs, self.spec = options, num_envs, spec
        self.envs = [make() for _ in range(num_envs)]
        first = self.envs[0]
        self.max_steps = options.max_steps or getattr(first.spec, "max_episode_steps", None) or _LONG
        self.action_space: Space[Any] = first.action_space
        if not isinstance(self.action_space, (Box, Discrete)) or (
            isinstance(self.action_space, Box) and len(self.action_space.shape) != 1
        ):
            raise MotionkitError(
                f"the actions of {_name(spec)} are {self.action_space}.", why="a vector or one of n choices is taken."
            )
        self._states_of = _state_reader(first.observation_space, options.image_keys)
        self._keys = options.image_keys or (options.camera,)
        self.cameras = dict.fromkeys(self._keys, (options.size, options.size))
        self._seen: list[Any] = [None] * num_envs
        self._pictures: dict[int, dict[str, NDArray[np.uint8]]] = {}
        self._elapsed = np.zeros(num_envs, np.int64)
        self._over = np.ones(num_envs, np.bool_)
        self._try(_name(spec))
        self.state_size = len(self._states_of(self._seen[0]))

    def _try(self, name: str) -> None:
        """Take one step: what an environment shows and tells is known afterwards."""
        env = self.envs[0]
        self._seen[0], _ = env.reset(seed=0)
        self._frames_of(0)
        _, _, _, _, info = env.step(env.action_space.sample())
        self._success_key = find_success(info, self.options.success_key, name)
        for number in range(self.num_envs):
            self._seen[number], _ = self.envs[number].reset(seed=0)
        self._pictures.clear()

    def reset(self, copies: NDArray[np.int64], seeds: NDArray[np.int64]) -> None:
        """Begin episodes; see `motionkit.environments.base.Environment.reset`."""
        for copy, seed in zip(copies.tolist(), seeds.tolist(), strict=True):
            # The action space has a generator of its own, which `reset` leaves alone.
            self._seen[copy], _ = self.envs[copy].reset(seed=int(seed % 2**31))
            self._pictures.pop(copy, None)
        self._elapsed[copies], self._over[copies] = 0, False

    def states(self) -> Floats:
        """Return ``[N, S]``: the numbers of the observation, pictures left out."""
        return np.stack([self._states_of(seen) for seen in self._seen]).astype(np.float32)

    def frames(self) -> Frames:
        """Return the pictures; each is drawn once per state."""
        shown = [self._frames_of(copy) for copy in range(self.num_envs)]
        return {key: np.stack([one[key] for one in shown]) for key in self._keys}

    def _frames_of(self, copy: int) -> dict[str, NDArray[np.uint8]]:
        if copy not in self._pictures:
            if self.options.image_keys:
                found = {key: _entry(self._seen[copy], key) for key in self._keys}
            else:
                found = {self._keys[0]: self.envs[copy].render()}
            self._pictures[copy] = {
                key: as_picture(value, self.options.size, f"{_name(self.spec)}, {key}") for key, value in found.items()
            }
        return self._pictures[copy]

    def step(self, actions: NDArray[Any]) -> Step:
        """Step the copies whose episode is not over."""
        count = self.num_envs
        reward, success = np.zeros(count, np.float32), np.zeros(count, np.bool_)
        terminated, truncated = np.zeros(count, np.bool_), np.zeros(count, np.bool_)
        infos: list[Mapping[str, Any]] = [{}] * count
        space = self.action_space
        for copy in np.flatnonzero(~self._over).tolist():
            action = int(actions[copy]) if isinstance(space, Discrete) else self._clipped(actions[copy])
            self._seen[copy], paid, ended, cut, info = self.envs[copy].step(action)
            self._pictures.pop(copy, None)
            self._elapsed[copy] += 1
            reward[copy], terminated[copy] = paid, ended
            truncated[copy] = (cut or self._elapsed[copy] >= self.max_steps) and not ended
            success[copy], infos[copy] = success_of(info, self._success_key), info
        self._over |= terminated | truncated
        return Step(reward, success, terminated, truncated, infos)

    def _clipped(self, action: NDArray[Any]) -> NDArray[Any]:
        assert isinstance(self.action_space, Box)
        clipped: NDArray[Any] = np.clip(action, self.action_space.low, self.action_space.high)
        return clipped.astype(self.action_space.dtype)

    def close(self) -> None:
        """Close all copies."""
        for env in self.envs:
            env.close()
        self.envs = []


def _make(name: str, kwargs: Mapping[str, Any], options: PictureSettings) -> gymnasium.Env[Any, Any]:
    how = {} if options.image_keys else {"render_mode": "rgb_array"}
    try:
        return gymnasium.make(name, **{**how, **kwargs})
    except gymnasium.error.Error as error:
        fix = "pip install the package that brings it, and name its module: --env.id module:ID"
        raise MotionkitError(f"gymnasium makes no environment {name!r}.", why=f"{error}", fix=fix) from error
    except (ImportError, TypeError, ValueError, AssertionError, OSError) as error:
        raise MotionkitError(
            f"the environment {name!r} does not open.", why=f"{type(error).__name__}: {error}"
        ) from error


def _state_reader(space: Space[Any], pictures: tuple[str, ...]) -> Callable[[Any], Floats]:
    """Return how to read the numbers of an observation: vectors as they are, tables entry by entry, no pictures."""
    if isinstance(space, DictSpace):
        names = [
            name for name, part in space.spaces.items()
            if name not in pictures and isinstance(part, Box) and len(part.shape) <= 1
        ]  # fmt: skip
        if not names:
            return lambda _: np.zeros(0, np.float32)
        return lambda seen: np.concatenate([np.atleast_1d(np.asarray(seen[name], np.float32)) for name in names])
    if isinstance(space, Box) and len(space.shape) == 1:
        return lambda seen: np.asarray(seen, np.float32)
    if isinstance(space, Discrete):
        return lambda seen: np.eye(int(space.n), dtype=np.float32)[int(seen) - int(space.start)]
    return lambda _: np.zeros(0, np.float32)


def _entry(seen: Any, key: str) -> Any:
    value = seen
    for part in key.split("/"):
        if not isinstance(value, Mapping) or part not in value:
            there = ", ".join(map(str, value)) if isinstance(value, Mapping) else "no names"
            raise MotionkitError(f"the observation has no entry {key!r}.", why=f"it has {there}.")
        value = value[part]
    return value


def _name(spec: Mapping[str, object]) -> str:
    return str(spec.get("id") or spec["name"])
