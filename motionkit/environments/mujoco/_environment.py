"""The Fetch robot, seen from the front and from the side."""

from __future__ import annotations

import contextlib
import importlib
import io
from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np

from motionkit.environments.base import Floats
from motionkit.environments.gymnasium._adapter import Adapter, Env
from motionkit.environments.mujoco._drawing import HELP, choose_drawing
from motionkit.environments.mujoco._settings import MujocoSettings
from motionkit.errors import MotionkitError

VIEWS: Mapping[str, Mapping[str, float]] = {
    "front": {"azimuth": 180.0, "elevation": -20.0},
    "side": {"azimuth": 90.0, "elevation": -20.0},
}
"""Two views, as the depth of one is not to be seen in it; degrees, as in MuJoCo's ``mjvCamera``."""

LOOK_AT, DISTANCE = (1.34, 0.75, 0.55), 0.9
"""The middle of where goals are, above the table; metres. Gymnasium's own view, from 2.5 m, shows a goal as one pixel
of 64."""

STEP = 0.05
"""Metres that an action of 1 moves the gripper, as in gymnasium-robotics' ``FetchEnv``."""


class Fetch(Adapter):
    """N copies of a task of the Fetch robot; see `motionkit.environments.base.Environment`.

    Args:
        options: Settings.
        num_envs: Copies N.

    Raises:
        MotionkitError: It does not open or draw, such as for want of OpenGL.
    """

    def __init__(self, options: MujocoSettings, *, num_envs: int = 1) -> None:
        chosen = choose_drawing()
        try:
            with contextlib.redirect_stderr(io.StringIO()):  # it speaks of other environments as it is imported
                gymnasium.register_envs(importlib.import_module("gymnasium_robotics"))
        except Exception as error:  # MuJoCo loads OpenGL as it is imported; what a missing one raises differs
            raise MotionkitError(
                f"MuJoCo does not load, with MUJOCO_GL={chosen or 'unset'}.", why=f"{type(error).__name__}: {error}",
                fix=HELP,
            ) from error  # fmt: skip
        super().__init__(
            lambda: _make(options), num_envs, {"name": "mujoco", **options.model_dump(mode="json")},
            cameras=tuple(VIEWS), size=options.size, success_key="is_success", max_steps=options.max_steps,
            help=f"with MUJOCO_GL={chosen or 'unset'}: {HELP}",
        )  # fmt: skip

    def draw(self, copy: int) -> Mapping[str, Any]:
        """Draw both views."""
        env: Any = self.envs[copy]
        renderer = env.unwrapped.mujoco_renderer
        if renderer.viewer is None:
            env.render()  # makes the viewer and its camera
        camera = renderer.viewer.cam
        camera.lookat[:], camera.distance = LOOK_AT, DISTANCE
        shown = {}
        for name, view in VIEWS.items():
            camera.azimuth, camera.elevation = view["azimuth"], view["elevation"]
            shown[name] = env.render()
        return shown


class FetchReach(Fetch):
    """The reaching task, whose way to success is a straight line."""

    def scripted(self) -> Floats:
        """Return actions straight to the goal, ``[N, 4]``; the fourth moves the fingers."""
        seen = [self.seen(copy) for copy in range(self.num_envs)]
        way = np.stack([one["desired_goal"] - one["achieved_goal"] for one in seen]) / STEP
        moves = np.zeros((self.num_envs, 4), np.float32)
        moves[:, :3] = way.clip(-1, 1)
        return moves


def open_fetch(options: MujocoSettings, *, num_envs: int = 1) -> Fetch:
    """Open a task of the Fetch robot."""
    kind = FetchReach if options.id.startswith("FetchReach") else Fetch
    return kind(options, num_envs=num_envs)


def _make(options: MujocoSettings) -> Env:
    return gymnasium.make(
        options.id, render_mode="rgb_array", width=options.size, height=options.size,
        max_episode_steps=options.max_steps, disable_env_checker=True,
    )  # fmt: skip
