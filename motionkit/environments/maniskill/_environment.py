"""A task of ManiSkill on the CPU, one scene per copy."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from motionkit.environments.base import Floats
from motionkit.environments.gymnasium._adapter import Adapter, Env
from motionkit.environments.maniskill._goal import require_shown, show_goal
from motionkit.environments.maniskill._settings import ManiskillSettings
from motionkit.errors import MotionkitError

CAMERA = "base_camera"
HELP = (
    "ManiSkill draws by Vulkan; Mesa 24.3 or newer does so on the CPU: apt-get install -y -t bookworm-backports "
    "libvulkan1 mesa-vulkan-drivers libgl1 libglib2.0-0; docs/environments.md has more."
)
_STARTS = range(5)  # the arm hides the goal in some
_STRIDE = 0.06  # metres that the script carries the cube in a step
_REACH = 0.3  # share of the greatest action that the script moves the arm by


class Maniskill(Adapter):
    """N copies of a task of ManiSkill; see `motionkit.environments.base.Environment`.

    What the task hides from its camera, such as the goal, is shown.

    Args:
        options: Settings.
        num_envs: Copies N.

    Raises:
        MotionkitError: It does not open or draw, such as for want of Vulkan, or its goal stays invisible.
    """

    def __init__(self, options: ManiskillSettings, *, num_envs: int = 1) -> None:
        try:
            importlib.import_module("mani_skill.envs")  # registers the tasks
            self._wrappers = importlib.import_module("mani_skill.utils.wrappers.gymnasium")
        except Exception as error:  # it loads its renderer as it is imported
            raise MotionkitError(
                "ManiSkill does not load.", why=f"{type(error).__name__}: {error}", fix=HELP
            ) from error
        super().__init__(
            lambda: self._make(options), num_envs, {"name": "maniskill", **options.model_dump(mode="json")},
            cameras=(CAMERA,), size=options.size, success_key="success", max_steps=options.max_steps, help=HELP,
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
        """Carry the cubes towards their goals by the simulator's own state, and return actions ``[N, A]``.

        The arm first moves at random and then rests, as success asks for an arm that rests. The cube goes a straight
        way, so that pictures differ in it and in little else before and after success. Draws from numpy's global
        generator.
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
