"""The Fetch robot of gymnasium-robotics, simulated by MuJoCo. Light half; extra ``mujoco``."""

from motionkit.environments.mujoco._settings import MujocoSettings
from motionkit.plugins import Component

component = Component(
    summary="The Fetch robot reaches for a red ball, seen by two cameras; gymnasium-robotics, MuJoCo.",
    options=MujocoSettings,
    factory="motionkit.environments.mujoco._environment:open_fetch",
    needs=("gymnasium_robotics", "mujoco"),
    extra="mujoco",
)
