"""Environments of gymnasium's registry, and the adapter for all environments that are built on gymnasium."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete, Space
from numpy.typing import NDArray
from PIL import Image

from motionkit.errors import MotionkitError
from motionkit.plugins import in_words
from motionkit_success.environments.base import Floats, Frames, Step
from motionkit_success.environments.observed import Observed, as_array
from motionkit_success.environments.tasks import GymnasiumSettings
from motionkit_success.episodes.read import plain_name

_FIX = "choose an environment that draws itself: render_mode 'rgb_array', or --env.image-keys KEY."

_USUAL = ("success", "is_success")

_LONG = 1000


def as_picture(
    value: Any,  # [H, W, 3] or [3, H, W], uint8, or floats in [0, 1]; with alpha, or grey; a batch of one counts, too
    size: int,  # height and width
    place: str,  # its origin, for messages
) -> tuple[NDArray[np.uint8], str]:
    """Return a picture ``[size, size, 3]`` uint8 RGB, and a note if it was of other channels: else an empty text."""
    picture = as_array(value) if value is not None else np.zeros(0)
    if picture.ndim == 4 and len(picture) == 1:
        picture = picture[0]
    shown = _channels_last(picture)
    if shown is None:
        kind = "no picture" if value is None else f"{type(value).__name__} {list(picture.shape)}"
        raise MotionkitError(f"{place} gives {kind}.", why="[H, W, 3] is wanted, or with alpha, or grey.", fix=_FIX)
    note = _CHANNELS.get(shown.shape[-1], "")
    picture = shown[..., :3] if shown.shape[-1] > 1 else np.repeat(shown, 3, axis=-1)
    if picture.dtype != np.uint8:
        if not (np.issubdtype(picture.dtype, np.floating) and picture.min() >= 0 and picture.max() <= 1):
            raise MotionkitError(
                f"{place} gives {picture.dtype} from {picture.min():g} to {picture.max():g}.",
                why="uint8, or floats from 0 to 1, are pictures.", fix=_FIX,
            )  # fmt: skip
        picture = (picture * 255 + 0.5).astype(np.uint8)
    if picture.shape[:2] != (size, size):
        picture = np.asarray(Image.fromarray(np.ascontiguousarray(picture)).resize((size, size), Image.Resampling.BOX))
    return np.ascontiguousarray(picture), f"{place} {note}" if note else ""


_CHANNELS = {1: "is grey: its channel is repeated.", 4: "has an alpha channel, which is left out."}


def _channels_last(picture: NDArray[Any]) -> NDArray[Any] | None:
    """Return a picture as ``[H, W, C]`` of one, three or four channels; None if it is none."""
    if picture.ndim == 2 and picture.size:
        return picture[..., None]
    if picture.ndim != 3:
        return None
    for counts in ((3,), (1, 4)):  # [H, 4, 3] is a narrow picture of three channels
        if picture.shape[-1] in counts:
            return picture
        if picture.shape[0] in counts:
            return picture.transpose(1, 2, 0)
    return None


def find_success(
    info: Mapping[str, Any],  # of the steps so far
    key: str,  # the entry, or ``auto``
    name: str = "",  # name of the environment, for the error if there is no entry; empty returns "" instead
) -> str:
    """Return the entry of info that has the success."""
    keys = _USUAL if key == "auto" else (key,)
    for candidate in keys:
        if candidate in info:
            return candidate
    if not name:
        return ""
    there = ", ".join(map(str, info)) or "nothing"
    raise MotionkitError(
        f"the environment {name} tells no success.",
        why=f"the info of an episode has no {' or '.join(keys)}; it has {there}.",
        fix="--env.success-key KEY, or wrap the environment so that its info has 'success'.",
    )


def success_of(info: Mapping[str, Any], key: str) -> bool:
    """Return the success in a step's info: true, or at least one half; False without an entry."""
    value = info.get(key, False)
    return bool(float(as_array(value).reshape(-1)[0]) >= 0.5)


Env = gymnasium.Env[Any, Any]


class Adapter:
    """N copies of an environment of gymnasium; see `motionkit_success.environments.base.Environment`.

    Copies are reset only by `reset`, so that the last picture of an episode is its own. A subclass draws what the
    cameras see (`draw`).
    """

    def __init__(
        self,
        make: Callable[[], Env],  # opens a copy
        num_envs: int,  # copies N
        spec: Mapping[str, object],  # what is opened, with its ``name``, and its ``id`` for messages
        *,
        cameras: Sequence[str],  # names of the cameras
        size: int,  # height and width of the pictures
        success_key: str = "auto",  # entry of info that tells success; ``auto``: a usual one
        max_steps: int = 0,  # steps of an episode; 0: the environment's own limit
        hidden: Mapping[str, str] | None = None,  # parts of an observation that no state holds, with the reason
        help: str = "",  # the fix if it does not open or draw, for messages
    ) -> None:
        self.num_envs, self.spec, self._size, self._help, self._code = num_envs, spec, size, help, 2
        self.name = str(spec.get("id") or spec["name"])
        self.envs: list[Env] = []
        self.cameras = dict.fromkeys(cameras, (size, size))
        self._seen: list[Any] = [None] * num_envs
        self._pictures: dict[int, dict[str, NDArray[np.uint8]]] = {}
        self._noted: dict[str, None] = {}
        self._elapsed = np.zeros(num_envs, np.int64)
        self._over = np.ones(num_envs, np.bool_)
        try:
            with self._named("does not open"):
                for _ in range(num_envs):
                    self.envs.append(make())
            first = self.envs[0]
            # An environment that was not registered has no spec.
            self.max_steps = max_steps or getattr(first.spec, "max_episode_steps", None) or _LONG
            self.action_space, self._action = _actions(first.action_space, self.name)
            self._states_of = Observed(first.observation_space, hidden)
            self._try(success_key)
            self.state_parts, self.left_out = self._states_of.widths(self._seen[0]), self._states_of.left_out
            self.state_size, self.notes = sum(self.state_parts.values()), tuple(self._noted)
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
        """Play an episode with random actions, to find faults and the entry of info that has the success."""
        env = self.envs[0]
        env.action_space.seed(0)
        with self._named("does not begin"):
            self._seen[0], _ = env.reset(seed=0)
        self._frames_of(0)
        infos: dict[str, Any] = {}
        for _ in range(self.max_steps):
            with self._named("does not step"):
                _, _, ended, cut, info = env.step(env.action_space.sample())
            infos |= info
            self._success_key = find_success(infos, success_key)
            if self._success_key or ended or cut:
                break
        find_success(infos, success_key, self.name)
        for copy, opened in enumerate(self.envs):
            with self._named("does not begin"):
                self._seen[copy], _ = opened.reset(seed=0)
        self._pictures.clear()

    def reset(self, copies: NDArray[np.int64], seeds: NDArray[np.int64]) -> None:
        """Begin episodes; see `motionkit_success.environments.base.Environment.reset`."""
        for copy, seed in zip(copies.tolist(), seeds.tolist(), strict=True):
            with self._named("does not begin"):
                self._seen[copy], _ = self.envs[copy].reset(seed=int(seed % 2**31))
            self._pictures.pop(copy, None)
        self._elapsed[copies], self._over[copies] = 0, False

    def states(self) -> Floats:
        """Return ``[N, S]``: the numbers of the observation; see `Observed`."""
        return np.stack([self._states_of(seen) for seen in self._seen]).astype(np.float32)

    def frames(self) -> Frames:
        """Return the pictures; each is drawn once per state."""
        shown = [self._frames_of(copy) for copy in range(self.num_envs)]
        return {key: np.stack([pictures[key] for pictures in shown]) for key in self.cameras}

    def _frames_of(self, copy: int) -> dict[str, NDArray[np.uint8]]:
        if copy not in self._pictures:
            with self._named("does not draw"):
                drawn = self.draw(copy)
                read = {key: as_picture(value, self._size, f"{self.name}, {key}") for key, value in drawn.items()}
                self._pictures[copy] = {key: picture for key, (picture, _) in read.items()}
                self._noted |= {note: None for _, note in read.values() if note}
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
    """Return the space of actions for callers, and a function that converts them to the environment's."""
    if isinstance(space, Discrete):
        first, last = int(space.start), int(space.n) - 1
        return Discrete(last + 1), lambda action: first + int(np.clip(action, 0, last))
    if isinstance(space, Box) and len(space.shape) == 1:
        return space, lambda action: np.clip(action, space.low, space.high).astype(space.dtype)
    raise MotionkitError(f"the actions of {name} are {space}.", why="a vector or one of n choices is taken.")


class GymnasiumEnvironment(Adapter):
    """N copies of one registered environment."""

    def __init__(self, options: GymnasiumSettings, *, num_envs: int = 1) -> None:
        if not options.id:
            raise MotionkitError(
                "no environment is named.", fix="--env.id ID; python -c 'import gymnasium; gymnasium.pprint_registry()'"
            )
        self._keys = {plain_name(key): key for key in options.image_keys}
        if len(self._keys) < len(options.image_keys):
            raise MotionkitError(f"two of the image keys {', '.join(options.image_keys)} name one camera.")
        super().__init__(
            lambda: _make(options), num_envs, {"name": "gymnasium", **options.model_dump(mode="json")},
            cameras=tuple(self._keys) or (options.camera,), size=options.size, success_key=options.success_key,
            max_steps=options.max_steps, help=_FIX,
            hidden=dict.fromkeys(options.image_keys, "a picture, by --env.image-keys"),
        )  # fmt: skip

    def draw(self, copy: int) -> Mapping[str, Any]:
        """Return entries of the observation, or what ``render()`` gives."""
        if self._keys:
            return {camera: _entry(self.seen(copy), key) for camera, key in self._keys.items()}
        return dict.fromkeys(self.cameras, self.envs[copy].render())


def _make(options: GymnasiumSettings) -> Env:
    # The environment checker is for authors of environments.
    how: dict[str, Any] = {"disable_env_checker": True}
    if not options.image_keys:
        how["render_mode"] = "rgb_array"
    if options.max_steps:
        how["max_episode_steps"] = options.max_steps
    try:
        return gymnasium.make(options.id, **{**how, **options.kwargs})
    except (gymnasium.error.UnregisteredEnv, gymnasium.error.DeprecatedEnv, ModuleNotFoundError, TypeError) as error:
        module, colon, name = options.id.partition(":")
        if isinstance(error, TypeError) and not module.startswith("."):  # of the environment itself
            raise
        # Only a ModuleNotFoundError names its module.
        missing = getattr(error.__cause__ or error, "name", None) or module
        why, fix = f"{error}", "pip install the package that brings it, and name its module: --env.id module:ID"
        path = Path(module if module.endswith(".py") else f"{module.replace('.', '/')}.py")
        if colon and path.is_file() and missing.partition(".")[0] == module.partition(".")[0]:
            folder = str(path.parent) if module.endswith(".py") else "."
            short = path.stem if module.endswith(".py") else module
            why = f"{path} is there, but Python does not look for modules in its folder."
            fix = f"put PYTHONPATH={shlex.quote(folder)} before the command, with --env.id {short}:{name}"
        raise MotionkitError(f"gymnasium makes no environment {options.id!r}.", why=why, fix=fix) from error


def _entry(seen: Any, key: str) -> Any:
    value = seen
    for part in key.split("/"):
        if not isinstance(value, Mapping) or part not in value:
            there = ", ".join(map(str, value)) if isinstance(value, Mapping) else "no names"
            raise MotionkitError(f"the observation has no entry {key!r}.", why=f"it has {there}.")
        value = value[part]
    return value
