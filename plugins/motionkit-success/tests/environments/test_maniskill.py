"""The ManiSkill adapter, on a stub of its package: a cube that falls, and a goal that the camera is not shown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest

from motionkit.errors import MotionkitError
from motionkit_success.checks import check_environment
from motionkit_success.environments.simulators import PickCube, open_maniskill
from motionkit_success.environments.tasks import ManiskillSettings

STUB = '''
"""Batched, as ManiSkill is; the wrapper takes the batch away."""
import types
import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict


class Pose:
    def __init__(self, p):
        self.p = np.array(p, np.float32)


class Thing:
    def __init__(self):
        self.shown, self.at, self.stopped = True, Pose(np.zeros(3)), False

    @property
    def pose(self):
        return types.SimpleNamespace(sp=Pose(self.at.p))

    def set_pose(self, pose):
        self.at = Pose(pose.p)

    def set_linear_velocity(self, velocity):
        self.stopped = not velocity.any()

    set_angular_velocity = set_linear_velocity

    def show_visual(self):
        self.shown = True

    def hide_visual(self):
        self.shown = False


class Task(gymnasium.Env):
    blind = False
    observation_space = Dict(
        agent=Dict(qpos=Box(-9, 9, (2,))), extra=Dict(goal_pos=Box(-9, 9, (3,)), is_grasped=Box(0, 1, (), bool)),
        sensor_data=Dict(base_camera=Dict(rgb=Box(0, 255, (32, 32, 3), np.uint8))),
        sensor_param=Dict(base_camera=Dict(cam2world_gl=Box(-9, 9, (4, 4)))),
    )
    action_space = Box(-1.0, 1.0, (4,))

    def __init__(self, num_envs, obs_mode, control_mode, reward_mode, sim_backend, render_backend, sensor_configs):
        assert (num_envs, obs_mode, sim_backend, render_backend) == (1, "rgb+state_dict", "physx_cpu", "cpu")
        self.size, self.extent = sensor_configs["height"], sensor_configs["fov"]
        self._hidden_objects = []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if not self._hidden_objects and not hasattr(self, "cube"):
            self.cube, self.goal_site = Thing(), Thing()
            self._hidden_objects.append(self.goal_site)
        self.cube.set_pose(Pose([*self.np_random.uniform(-0.1, 0.1, 2), 0.02]))
        self.goal_site.set_pose(Pose([*self.np_random.uniform(-0.1, 0.1, 2), self.np_random.uniform(0.02, 0.3)]))
        self.arm = np.zeros(2, np.float32)
        return self.seen(), {}

    def step(self, action):
        self.arm = self.arm + np.asarray(action, np.float32)[:2]
        self.cube.at.p[2] = max(self.cube.at.p[2] - 0.013, 0.02)
        placed = np.linalg.norm(self.cube.at.p - self.goal_site.at.p) <= 0.025
        won = bool(placed and abs(np.asarray(action)).max() < 0.01)
        return self.seen(), np.float32(won), won, False, {"success": won}

    def seen(self):
        for thing in self._hidden_objects:
            thing.hide_visual()
        picture = np.zeros((self.size, self.size, 3), np.uint8)
        picture[0] = (abs(self.arm).max() * 20).astype(np.uint8)
        for thing, colour in ((self.cube, (255, 0, 0)), (self.goal_site, (0, 255, 0))):
            if thing.shown and not (self.blind and thing is self.goal_site):
                x, y, z = thing.at.p
                row, column = int((0.7 - z) * self.size), int((0.5 + y / self.extent) * self.size)
                picture[row, column] = colour
        return {
            "agent": {"qpos": self.arm.copy()}, "extra": {"goal_pos": self.goal_site.at.p.copy(), "is_grasped": False},
            "sensor_data": {"base_camera": {"rgb": picture}}, "sensor_param": {"base_camera": {"cam2world_gl": None}},
        }


for name in ("PickCube-v1", "Other-v1"):
    gymnasium.register(name, entry_point=Task, max_episode_steps=50, disable_env_checker=True)
'''
WRAPPER = """
import gymnasium

class CPUGymWrapper(gymnasium.Wrapper):
    def __init__(self, env, ignore_terminations=False):
        super().__init__(env)
        self.ignore = ignore_terminations

    def step(self, action):
        seen, reward, ended, cut, info = self.env.step(action)
        return seen, reward, ended and not self.ignore, cut, info
"""


@pytest.fixture
def stub(site: Any) -> Iterator[None]:
    before = dict(gymnasium.registry)
    wrappers = site.folder / "mani_skill" / "utils" / "wrappers"
    wrappers.mkdir(parents=True)
    for folder in (wrappers.parent.parent, wrappers.parent, wrappers):
        (folder / "__init__.py").touch()
    (wrappers / "gymnasium.py").write_text(WRAPPER)
    (site.folder / "mani_skill" / "envs.py").write_text(STUB)
    yield
    gymnasium.registry.clear()
    gymnasium.registry.update(before)


def opened(copies: int = 1, **options: Any) -> Any:
    return open_maniskill(ManiskillSettings.model_validate({"size": 32, **options}), num_envs=copies)


def test_the_contract(stub: None) -> None:
    check_environment("maniskill", options={"max_steps": 30, "size": 32})


def green(environment: Any) -> list[int]:
    return [int((frame == (0, 255, 0)).all(axis=-1).sum()) for frame in environment.frames()["base_camera"]]


def test_the_goal_is_shown_in_every_copy_and_episode(stub: None) -> None:
    environment = opened(3)
    for first in (0, 10, 20):
        environment.reset(np.arange(3), np.arange(first, first + 3))
        assert green(environment) == [1, 1, 1]
        environment.step(np.zeros((3, 4)))
        assert green(environment) == [1, 1, 1]
    assert environment.state_size == 6  # qpos, goal_pos, is_grasped; no camera matrices


@pytest.mark.parametrize(
    "change",
    [lambda patch, envs: patch.setattr(envs.Task, "blind", True),
     lambda patch, envs: patch.delattr(envs.Thing, "show_visual")],
    ids=["hidden from the camera", "no way to show it"],
)  # fmt: skip
def test_a_goal_that_stays_invisible_is_refused(stub: None, monkeypatch: pytest.MonkeyPatch, change: Any) -> None:
    from mani_skill import envs

    change(monkeypatch, envs)
    with pytest.raises(MotionkitError, match="PickCube-v1 stays invisible"):
        opened()


def test_scripted_places_the_cube_at_the_goal(stub: None) -> None:
    np.random.seed(0)
    environment = opened(6, max_steps=40)
    assert isinstance(environment, PickCube)
    environment.reset(np.arange(6), np.arange(6))
    told = []
    for _ in range(40):
        step = environment.step(environment.scripted())
        told.append(step.success)
        assert not step.terminated.any()
    rate = np.stack(told).mean(axis=1)
    assert (rate[:10] == 0).all()  # the arm moves
    assert (rate[-5:] == 1).all()
    assert environment.envs[0].unwrapped.cube.stopped
    arms = environment.states()[:, :2]
    assert len({tuple(arm) for arm in arms.tolist()}) == 6
    assert not hasattr(opened(id="Other-v1"), "scripted")


def test_an_episode_ends_with_success_where_asked(stub: None) -> None:
    environment = opened(2, terminate_on_success=True)
    environment.reset(np.arange(2), np.arange(2))
    over = np.zeros(2, bool)
    while not over.all():
        step = environment.step(environment.scripted())
        assert np.array_equal(step.terminated, step.success & ~over)
        over |= step.done


def test_vulkan_that_is_missing_is_named_with_its_packages(stub: None, monkeypatch: pytest.MonkeyPatch) -> None:
    from mani_skill import envs

    def fails(*_: Any, **__: Any) -> None:
        raise RuntimeError("vk::createInstanceUnique: ErrorIncompatibleDriver")

    monkeypatch.setattr(envs.Task, "reset", fails)
    with pytest.raises(MotionkitError) as caught:
        opened()
    assert "ErrorIncompatibleDriver" in str(caught.value.why)
    assert "apt-get install -y -t bookworm-backports libvulkan1 mesa-vulkan-drivers libgl1 libglib2.0-0" in str(
        caught.value.fix
    )


def test_a_package_that_does_not_load_is_named(site: Any) -> None:
    site.install("mani-skill", "", mani_skill="raise OSError('libvulkan.so.1: cannot open shared object file')")
    with pytest.raises(MotionkitError) as caught:
        opened()
    assert "libvulkan.so.1" in str(caught.value.why)
