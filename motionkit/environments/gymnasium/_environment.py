"""Any environment of gymnasium's registry."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gymnasium

from motionkit.environments.gymnasium._adapter import Adapter, Env
from motionkit.environments.gymnasium._settings import GymnasiumSettings
from motionkit.errors import MotionkitError

_HELP = "choose an environment that draws itself: render_mode 'rgb_array', or --env.image-keys KEY."


class GymnasiumEnvironment(Adapter):
    """N copies of one registered environment.

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
        self._keys = {_camera_of(key): key for key in options.image_keys}
        if len(self._keys) < len(options.image_keys):
            raise MotionkitError(f"two of the image keys {', '.join(options.image_keys)} name one camera.")
        super().__init__(
            lambda: _make(options), num_envs, {"name": "gymnasium", **options.model_dump(mode="json")},
            cameras=tuple(self._keys) or (options.camera,), size=options.size, success_key=options.success_key,
            max_steps=options.max_steps, help=_HELP,
        )  # fmt: skip

    def draw(self, copy: int) -> Mapping[str, Any]:
        """Return entries of the observation, or what ``render()`` gives."""
        if self._keys:
            return {camera: _entry(self.seen(copy), key) for camera, key in self._keys.items()}
        return dict.fromkeys(self.cameras, self.envs[copy].render())


def _camera_of(key: str) -> str:
    """Return the name of the camera whose pictures are an entry of the observation; it names files, too."""
    return re.sub(r"[^A-Za-z0-9_.-]", ".", key).lstrip("._-") or "camera"


def _make(options: GymnasiumSettings) -> Env:
    # The environment checker speaks of gymnasium's rules, to those who write the environment.
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
        missing = getattr(error.__cause__ or error, "name", None) or module
        why, fix = f"{error}", "pip install the package that brings it, and name its module: --env.id module:ID"
        path = Path(module if module.endswith(".py") else f"{module.replace('.', '/')}.py")
        if colon and path.is_file() and missing.partition(".")[0] == module.partition(".")[0]:
            folder = str(path.parent) if module.endswith(".py") else "."
            own = path.stem if module.endswith(".py") else module
            why = f"{path} is there, but Python does not look for modules in its folder."
            fix = f"put PYTHONPATH={shlex.quote(folder)} before the command, with --env.id {own}:{name}"
        raise MotionkitError(f"gymnasium makes no environment {options.id!r}.", why=why, fix=fix) from error


def _entry(seen: Any, key: str) -> Any:
    value = seen
    for part in key.split("/"):
        if not isinstance(value, Mapping) or part not in value:
            there = ", ".join(map(str, value)) if isinstance(value, Mapping) else "no names"
            raise MotionkitError(f"the observation has no entry {key!r}.", why=f"it has {there}.")
        value = value[part]
    return value
