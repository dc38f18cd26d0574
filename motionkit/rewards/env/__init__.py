"""The environment's own reward, as one that `motionkit ppo` can weigh beside others. Light half, no torch."""

from motionkit.config import Group
from motionkit.plugins import Component


class EnvOptions(Group):
    """Options of `env`: none."""


component = Component(
    "The environment's own reward, step by step (ppo)", EnvOptions, "motionkit.rewards.env._reward:Env", reads="step"
)
