"""Environments of simulators: tasks of ManiSkill on the CPU, and the Fetch robot of MuJoCo."""

from __future__ import annotations

import contextlib
import ctypes.util
import importlib
import io
import os
import sys
from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from motionkit.errors import MotionkitError
from motionkit_success.environments.base import Floats
from motionkit_success.environments.registered import Adapter, Env
from motionkit_success.environments.tasks import ManiskillSettings, MujocoSettings

# ManiSkill, which hides the marks of its goals from the cameras

CAMERA = "base_camera"
MANISKILL_HELP = (
    "ManiSkill draws by Vulkan; Mesa 24.3 or newer does so on the CPU: apt-get install -y -t bookworm-backports "
    "libvulkan1 mesa-vulkan-drivers libgl1 libglib2.0-0; docs/environments.md has more."
)
_STARTS = range(5)  # the arm hides the goal in some
_STRIDE = 0.06  # metres that the script carries the cube in a step
_REACH = 0.3  # share of the greatest action that the script moves the arm by


class Maniskill(Adapter):
    """N copies of a task of ManiSkill with a visible goal; see `motionkit_success.environments.base.Environment`."""

    def __init__(self, options: ManiskillSettings, *, num_envs: int = 1) -> None:
        try:
            importlib.import_module("mani_skill.envs")  # registers the tasks
            self._wrappers = importlib.import_module("mani_skill.utils.wrappers.gymnasium")
        except Exception as error:  # it loads its renderer as it is imported
            raise MotionkitError(
                "ManiSkill does not load.", why=f"{type(error).__name__}: {error}", fix=MANISKILL_HELP
            ) from error
        super().__init__(
            lambda: self._make(options), num_envs, {"name": "maniskill", **options.model_dump(mode="json")},
            cameras=(CAMERA,), size=options.size, success_key="success", max_steps=options.max_steps,
            help=MANISKILL_HELP,
            hidden={"sensor_data": "what the camera sees", "sensor_param": "where the camera is"},
        )  # fmt: skip

    def _make(self, options: ManiskillSettings) -> Env:
        sensors = {"width": options.size, "height": options.size, "fov": options.field_of_view}
        made = gymnasium.make(
            options.id, num_envs=1, obs_mode="rgb+state_dict", control_mode=options.control,
            reward_mode=options.reward, sim_backend="physx_cpu", render_backend="cpu", sensor_configs=sensors,
            max_episode_steps=options.max_steps,
        )  # fmt: skip
        env: Env = self._wrappers.CPUGymWrapper(made, ignore_terminations=not options.terminate_on_success)
        first = not self.envs
        hidden = [_picture(env.reset(seed=seed)[0]) for seed in _STARTS] if first else [env.reset(seed=0)]
        if show_goal(env.unwrapped, options.id) and first:
            require_shown(hidden, [_picture(env.reset(seed=seed)[0]) for seed in _STARTS], options.id)
        return env

    def draw(self, copy: int) -> Mapping[str, Any]:
        """Return the picture of the observation."""
        return {CAMERA: _picture(self.seen(copy))}


class PickCube(Maniskill):
    """Bringing a cube to a goal in the air."""

    def scripted(self) -> Floats:
        """Move the cubes towards their goals in the simulator's state, and return actions ``[N, A]``.

        The arm first moves at random (by numpy's global generator) and then rests, as success requires. The cube moves
        straight, so that pictures before and after success differ in little else.
        """
        space: Any = self.action_space
        moves: NDArray[np.float32] = np.zeros((self.num_envs, *space.shape), np.float32)
        for copy, env in enumerate(self.envs):
            task: Any = env.unwrapped
            if self._over[copy]:
                continue
            taken = int(self._elapsed[copy])
            if taken < self.max_steps // 4:
                moves[copy] = _REACH * np.random.uniform(space.low, space.high)
            else:
                _carry(task.cube, task.goal_site)
        return moves


def open_maniskill(options: ManiskillSettings, *, num_envs: int = 1) -> Maniskill:
    """Open a task of ManiSkill."""
    kind = PickCube if options.id == "PickCube-v1" else Maniskill
    return kind(options, num_envs=num_envs)


def _carry(cube: Any, goal: Any) -> None:
    """Move a cube up to a stride towards its goal, and stop it: gravity takes over within the next step."""
    pose = cube.pose.sp
    place = np.asarray(pose.p, np.float32)
    way = np.asarray(goal.pose.sp.p, np.float32) - place
    length = float(np.linalg.norm(way))
    pose.p = place + way * min(1.0, _STRIDE / max(length, 1e-6))
    cube.set_pose(pose)
    for stop in (cube.set_linear_velocity, cube.set_angular_velocity):
        stop(np.zeros(3, np.float32))


def _picture(seen: Any) -> Any:
    return seen["sensor_data"][CAMERA]["rgb"]


def show_goal(
    env: Any,  # a task of ManiSkill, not wrapped, that has been reset once
    name: str,  # its id, for messages
) -> bool:
    """Make visible what a task hides from the cameras; returns whether anything was hidden."""
    try:
        hidden = list(env._hidden_objects)
        for thing in hidden:
            thing.show_visual()
            env._hidden_objects.remove(thing)
    except (AttributeError, TypeError, ValueError) as error:
        raise _invisible(name, f"{type(error).__name__}: {error}") from error
    return bool(hidden)


def require_shown(
    hidden: Any,  # pictures [H, W, 3] of one start before `show_goal`
    shown: Any,  # those of the same start after
    name: str,  # its id, for messages
) -> None:
    """Refuse a task whose pictures stay the same."""
    if all(np.array_equal(before, after) for before, after in zip(hidden, shown, strict=True)):
        raise _invisible(name, "pictures are the same with the goal hidden and shown.")


def _invisible(name: str, why: str) -> MotionkitError:
    return MotionkitError(
        f"the goal of {name} stays invisible: its pictures do not tell success.", why=why,
        fix="pip install 'mani_skill>=3.0.1,<4', or choose another task.",
    )  # fmt: skip


# The Fetch robot

VARIABLE = "MUJOCO_GL"
HELP = "apt-get install -y libegl1 libgl1 (or libosmesa6, with MUJOCO_GL=osmesa); docs/environments.md has more."

VIEWS: Mapping[str, Mapping[str, float]] = {
    "front": {"azimuth": 180.0, "elevation": -20.0},
    "side": {"azimuth": 90.0, "elevation": -20.0},
}
"""Two views, as one shows no depth; degrees, as in MuJoCo's ``mjvCamera``."""

LOOK_AT, DISTANCE = (1.34, 0.75, 0.55), 0.9
"""The centre of the goals' region above the table, and the camera's distance, in metres. In gymnasium's default view,
from 2.5 m, a goal is one pixel of 64."""

STEP = 0.05
"""Metres that an action of 1 moves the gripper, as in gymnasium-robotics' ``FetchEnv``."""


class Fetch(Adapter):
    """N copies of a task of the Fetch robot; see `motionkit_success.environments.base.Environment`."""

    def __init__(self, options: MujocoSettings, *, num_envs: int = 1) -> None:
        chosen = choose_drawing()
        try:
            with contextlib.redirect_stderr(io.StringIO()):  # its import warns of other environments
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
        way = np.stack([observation["desired_goal"] - observation["achieved_goal"] for observation in seen]) / STEP
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


def choose_drawing() -> str:
    """Set ``MUJOCO_GL`` if it is not set, before MuJoCo is imported, and return it.

    On Linux: EGL, which takes a GPU if there is one; OSMesa, which draws on the CPU, if only that is installed.
    Elsewhere MuJoCo chooses, and "" is returned.
    """
    if not os.environ.get(VARIABLE) and sys.platform == "linux":
        only = ctypes.util.find_library("OSMesa") and not ctypes.util.find_library("EGL")
        os.environ[VARIABLE] = "osmesa" if only else "egl"
    return os.environ.get(VARIABLE, "")
