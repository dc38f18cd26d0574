"""Opening an environment that was chosen."""

from __future__ import annotations

from typing import Literal

from motionkit.config import Chosen
from motionkit.environments.base import Environment

Backend = Literal["processes", "ray"]


def open_environment(chosen: Chosen, num_envs: int, *, workers: int = 0, backend: Backend = "processes") -> Environment:
    """Build an environment.

    Args:
        chosen: The plugin with its options.
        num_envs: Copies N.
        workers: Processes that share the copies; 0: this one.
        backend: What workers are.

    Raises:
        MotionkitError: A package, an option or a device of it is missing.
    """
    environment: Environment = chosen.build(num_envs=num_envs)
    return environment
