"""What torchrun and accelerate launch tell a process that they start. Imports no torch."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from motionkit.errors import MotionkitError

_NEEDED = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
_PLANS = {
    "ACCELERATE_USE_FSDP": "FSDP",
    "ACCELERATE_USE_DEEPSPEED": "DeepSpeed",
    "ACCELERATE_USE_MEGATRON_LM": "Megatron-LM",
    "ACCELERATE_USE_PARALLELISM_CONFIG": "a parallelism config",
}
"""What accelerate launch sets for ways to share a model that are not ours."""

TORCHRUN = "torchrun --nproc-per-node 2 -m motionkit ..."


@dataclass(frozen=True)
class Launch:
    """The place of a process among those that were started together.

    Attributes:
        rank: Number of this process, from 0.
        size: Number of processes; 1 without a launcher.
        local_rank: Number of this process on its machine, from 0.
        local_size: Processes on its machine.
    """

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    local_size: int = 1

    @property
    def quiet(self) -> bool:
        """Whether this process leaves the talking to process 0."""
        return self.rank > 0


def launch_of(environ: Mapping[str, str] = os.environ) -> Launch:
    """Return what the environment says; a process on its own where no launcher was at work.

    A cluster may set WORLD_SIZE for its own purposes: without RANK and LOCAL_RANK it means nothing here.
    """
    size, rank, local = (_number(environ.get(name, "")) for name in ("WORLD_SIZE", "RANK", "LOCAL_RANK"))
    if size is None or rank is None or local is None or size < 2 or not rank < size:
        return Launch()
    return Launch(rank, size, local, _number(environ.get("LOCAL_WORLD_SIZE", "")) or 1)


def require_launch(environ: Mapping[str, str] = os.environ) -> None:
    """Refuse a launch that is incomplete, or that asks for what is not there.

    Raises:
        MotionkitError: WORLD_SIZE is above 1 and another variable is missing, or a plan of accelerate's is set.
    """
    size = _number(environ.get("WORLD_SIZE", ""))
    if size is None or size < 2:
        return
    missing = [name for name in _NEEDED if not environ.get(name)]
    if missing or launch_of(environ).size != size:
        odd = f"{', '.join(missing)} not set" if missing else "RANK or LOCAL_RANK no number below it"
        raise MotionkitError(
            f"WORLD_SIZE is {size}, with {odd}.",
            why="a launcher sets all of them, and a process on its own has none.",
            fix=f"{TORCHRUN}, or unset WORLD_SIZE.",
        )
    for name, plan in _PLANS.items():
        if environ.get(name, "").lower() in ("1", "true", "yes"):
            raise MotionkitError(
                f"{plan} is not there: {name} is set.",
                why="every process holds the whole model; gradients are what the processes share.",
                fix=f"{TORCHRUN}, or accelerate launch --multi_gpu --num_processes 2 -m motionkit ...",
            )


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() and len(text) < 10 else None
