"""Opening an environment that was chosen."""

from __future__ import annotations

from typing import Literal

from motionkit.config import Chosen
from motionkit.errors import MotionkitError
from motionkit_success.environments.base import Environment

Backend = Literal["processes", "ray"]


def open_environment(chosen: Chosen, num_envs: int, *, workers: int = 0, backend: Backend = "processes") -> Environment:
    """Build an environment.

    With workers it gives the same results to the bit, and its state may be loaded with another number of workers. Of
    `Step.infos` numbers, texts and arrays of numbers remain. Any method fails if a worker has died (exit code 1).
    """
    if not workers:
        if backend == "ray":
            raise MotionkitError(
                "--worker-backend ray has no effect without workers.", fix="--workers 2, or leave --worker-backend out"
            )
        environment: Environment = chosen.build(num_envs=num_envs)
        return environment
    if workers > num_envs:
        raise MotionkitError(
            f"{workers} workers cannot share {num_envs} copies.", fix=f"--workers {num_envs}, or more --num-envs"
        )
    from motionkit_success.environments.workers import Order, Team, shared_environment

    share, more = divmod(num_envs, workers)
    counts = [share + (number < more) for number in range(workers)]
    orders = [Order.of(chosen, count) for count in counts]
    if backend == "ray":
        from motionkit_success.environments.ray_workers import start_ray

        actors, release = start_ray(orders)
        return shared_environment(Team(actors, release), counts)
    from motionkit_success.environments.process_workers import start_processes

    return shared_environment(Team(start_processes(orders)), counts)
