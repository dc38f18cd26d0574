"""One run for several processes: who opens it, and when all of them stop."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from motionkit.runs import FollowingRun, Run
from motionkit.trainers._world import World, of_main


def open_together(command: str, snapshot: Mapping[str, Any], opened: Callable[[], Run], world: World) -> Run:
    """Open the run in the main process; the others follow it from the same checkpoint.

    Args:
        command: The command.
        snapshot: All settings.
        opened: Opens the run folder.
        world: The processes.

    Raises:
        MotionkitError: The folder is refused, or the checkpoint cannot be read here.
    """
    if world.size == 1:
        return opened()
    run = opened() if world.main else None
    found = run.checkpoint() if run is not None else None
    place = of_main(None if found is None else str(found.path.absolute()), world)
    return FollowingRun.follow(command, snapshot, place) if run is None else run


def asked_to_stop(run: Run, world: World) -> bool:
    """Return whether a signal asked any of the processes to stop: the same answer in all of them."""
    if world.size > 1:
        asked = int(world.gather(torch.tensor([run.signals.received])).max())
        if asked:
            run.signals.stop(asked)
        return bool(asked)
    return run.stop_requested
