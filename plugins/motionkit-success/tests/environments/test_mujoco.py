"""The Fetch adapter, on a stub of gymnasium-robotics: a gripper that moves as it is told."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest
from typer.testing import Result

from motionkit.errors import MotionkitError
from motionkit.plugins import install_line
from motionkit_success.checks import check_environment
from motionkit_success.environments import simulators as _drawing
from motionkit_success.environments.simulators import LOOK_AT, Fetch, FetchReach, open_fetch
from motionkit_success.environments.tasks import MujocoSettings
from tests.made.commands import assert_refused

STUB = """
import sys
import types
import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict

print("advice on other environments", file=sys.stderr)
THREE = Box(-np.inf, np.inf, (3,))

class Fetch(gymnasium.Env):
    observation_space = Dict(observation=Box(-np.inf, np.inf, (10,)), achieved_goal=THREE, desired_goal=THREE)
    action_space = Box(-1.0, 1.0, (4,))
    metadata = {"render_modes": ["rgb_array"]}

    def __init__(self, render_mode=None, width=480, height=480):
        assert render_mode == "rgb_array"
        self.size = height, width
        self.mujoco_renderer = types.SimpleNamespace(viewer=None)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.hand = np.array([1.34, 0.75, 0.53])
        self.goal = self.hand + self.np_random.uniform(-0.15, 0.15, 3)
        return self.seen(), {}

    def seen(self):
        state = np.concatenate([self.hand, np.zeros(7)])
        return {"observation": state, "achieved_goal": self.hand.copy(), "desired_goal": self.goal.copy()}

    def step(self, action):
        self.hand = self.hand + 0.05 * action[:3]
        near = np.linalg.norm(self.hand - self.goal) < 0.05
        return self.seen(), np.float64(near) - 1, False, False, {"is_success": np.float32(near)}

    def render(self):
        if self.mujoco_renderer.viewer is None:
            camera = types.SimpleNamespace(lookat=np.zeros(3), distance=2.5, azimuth=132.0, elevation=-14.0)
            self.mujoco_renderer.viewer = types.SimpleNamespace(cam=camera)
        camera = self.mujoco_renderer.viewer.cam
        across = 0 if camera.azimuth == 90 else 1  # from the side x is seen, from the front y
        picture = np.zeros((*self.size, 3), np.uint8)
        for place, colour in ((self.hand, (255, 255, 255)), (self.goal, (255, 0, 0))):
            off = (place - camera.lookat) / camera.distance
            row, column = (np.array([0.5 - off[2], 0.5 + off[across]]) * self.size).astype(int).clip(0, 63)
            picture[row, column] = colour
        return picture

for name in ("FetchReach", "FetchPush"):
    gymnasium.register(name + "-v4", entry_point=Fetch, max_episode_steps=50)
"""


@pytest.fixture
def registry() -> Iterator[None]:
    before = dict(gymnasium.registry)
    yield
    gymnasium.registry.clear()
    gymnasium.registry.update(before)


@pytest.fixture
def stub(site: Any, registry: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUJOCO_GL", "egl")
    site.install("gymnasium-robotics", "", gymnasium_robotics=STUB)
    site.install("mujoco", "", mujoco='"""Nothing."""')


def test_the_contract(stub: None) -> None:
    check_environment("mujoco", options={"max_steps": 20})


def test_two_views_are_drawn(stub: None, capsys: pytest.CaptureFixture[str]) -> None:
    environment = open_fetch(MujocoSettings(), num_envs=2)
    assert capsys.readouterr().err == ""
    environment.reset(np.arange(2), np.arange(2))
    frames = environment.frames()
    assert {name: frame.shape for name, frame in frames.items()} == dict.fromkeys(("front", "side"), (2, 64, 64, 3))
    for axis, name in ((1, "front"), (0, "side")):
        for copy in range(2):
            goal = environment.seen(copy)["desired_goal"]
            (row,), (column,) = np.nonzero((frames[name][copy] == (255, 0, 0)).all(axis=-1))
            assert column == int((0.5 + (goal[axis] - LOOK_AT[axis]) / 0.9) * 64)
            assert row == int((0.5 - (goal[2] - LOOK_AT[2]) / 0.9) * 64)
    assert environment.state_size == 16
    assert environment.max_steps == 50


def test_scripted_goes_straight_to_the_goal(stub: None) -> None:
    environment = open_fetch(MujocoSettings(), num_envs=8)
    assert isinstance(environment, FetchReach)
    environment.reset(np.arange(8), np.arange(8))
    assert not environment.step(np.zeros((8, 4))).success.all()
    for _ in range(4):
        step = environment.step(environment.scripted())
    assert step.success.all()
    assert abs(environment.scripted()[:, :3]).max() < 1e-5  # it is there, and stays
    other = open_fetch(MujocoSettings(id="FetchPush-v4"))
    assert isinstance(other, Fetch)
    assert not hasattr(other, "scripted")


def test_opengl_that_is_missing_is_named_with_its_packages(
    site: Any, registry: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MUJOCO_GL", "osmesa")
    broken = "raise AttributeError(\"'NoneType' object has no attribute 'glGetError'\")"  # what PyOpenGL says
    site.install("gymnasium-robotics", "", gymnasium_robotics=broken)
    with pytest.raises(MotionkitError, match="MUJOCO_GL=osmesa") as caught:
        open_fetch(MujocoSettings())
    assert "glGetError" in str(caught.value.why)
    assert "apt-get install -y libegl1 libgl1" in str(caught.value.fix)


@pytest.mark.parametrize(
    ("given", "there", "chosen"),
    [("", ("EGL", "OSMesa"), "egl"), ("", ("OSMesa",), "osmesa"), ("", (), "egl"), ("glfw", ("EGL",), "glfw")],
)
def test_which_opengl_is_taken(
    given: str, there: tuple[str, ...], chosen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MUJOCO_GL", given)
    monkeypatch.setattr(_drawing.sys, "platform", "linux")
    monkeypatch.setattr(_drawing.ctypes.util, "find_library", lambda name: name if name in there else None)
    assert _drawing.choose_drawing() == chosen == os.environ["MUJOCO_GL"]


def test_without_the_extra_the_error_names_it(cli: Callable[..., Result], monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib.util

    find = importlib.util.find_spec
    absent = ("gymnasium_robotics", "mujoco", "mani_skill")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *more: None if name in absent else find(name, *more))
    for name in ("mujoco", "maniskill"):
        assert_refused(cli("reward-collect", "--env", name, "--out", "out"), install_line(name))


def test_ids_of_other_robots_are_refused(cli: Callable[..., Result]) -> None:
    assert_refused(cli("reward-collect", "--env", "mujoco", "--env.id", "os:FetchReach-v4", "--out", "out"), "env.id")
