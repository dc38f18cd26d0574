"""The processes that train one model together."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.runs import FollowingRun, Run


class World(Protocol):
    """All processes of a run.

    It is used for everything that depends on the whole batch: which prompts this process samples, statistics of
    rewards, the gradient, checks that must agree, and who writes the run folder. Every process calls the same methods
    in the same order.
    """

    rank: int  # of this process, from 0
    size: int

    @property
    def main(self) -> bool:
        """Whether this process writes files and talks to the user."""
        ...

    def sum(self, tensor: Tensor) -> Tensor:
        """Return the elementwise sum over all processes; any shape, the same everywhere."""
        ...

    def gather(self, tensor: Tensor) -> Tensor:
        """Return the rows of all processes, ``[size * N, ...]`` from ``[N, ...]``, rank by rank."""
        ...


class OneProcess:
    """The `World` of a single process."""

    rank = 0
    size = 1
    main = True

    def sum(self, tensor: Tensor) -> Tensor:
        """Return `tensor`."""
        return tensor

    def gather(self, tensor: Tensor) -> Tensor:
        """Return `tensor`."""
        return tensor


def of_main(value: Any, world: World) -> Any:
    """Return the main process's `value` in every process, so that all decide alike.

    Args:
        value: JSON-able; numbers keep their bits, NaN and infinity included.
        world: The processes.
    """
    if world.size == 1:
        return value
    text = json.dumps(value).encode()
    longest = int(world.gather(torch.tensor([len(text)])).max())
    # [size, longest] bytes, of which the first row is used.
    rows = world.gather(torch.tensor([[*text, *b" " * (longest - len(text))]], dtype=torch.uint8))
    return json.loads(bytes(rows[0].tolist()))


def mean_over(metrics: dict[str, float], world: World) -> dict[str, float]:
    """Return the mean of each metric over the processes; all have the same names."""
    if world.size == 1:
        return metrics
    return {name: value / world.size for name, value in sum_over(metrics, world).items()}


def sum_over(sums: Mapping[str, float], world: World) -> dict[str, float]:
    """Return the sum of each metric over the processes; all have the same names."""
    if world.size == 1:
        return dict(sums)
    names = sorted(sums)
    total = world.sum(torch.tensor([sums[name] for name in names], dtype=torch.float64))
    return dict(zip(names, total.tolist(), strict=True))


def share_of(count: int, world: World, *, what: str, flag: str) -> slice:
    """Return this process's part of the `count` rows of a batch: equal shares, rank by rank.

    Args:
        count: Rows of all processes.
        world: The processes.
        what: The rows in words, for the error.
        flag: The flag that sets their number.
    """
    if count % world.size:
        raise MotionkitError(
            f"{count} {what} per step cannot be shared by {world.size} processes.",
            fix=f"choose a {flag} that {world.size} divides.",
        )
    share = count // world.size
    return slice(world.rank * share, (world.rank + 1) * share)


def rows_of(rows: Tensor, world: World) -> tuple[int, slice]:
    """Return how many rows all processes have together, and the slice of this process's ``[N, ...]``."""
    count = len(rows)
    return count * world.size, slice(world.rank * count, (world.rank + 1) * count)


def joined(rows: Tensor, world: World) -> Tensor:
    """Return the rows of all processes, ``[size * N, ...]`` from ``[N, ...]``, for a loss that compares them.

    Every process computes the same loss of all rows and takes 1 / size of it as its share. The gradient reaches only
    its rows, times `size`, so that the sum over the processes is the gradient of the loss.
    """
    if world.size == 1:
        return rows
    parts = list(world.gather(rows.detach()).split(len(rows)))
    parts[world.rank] = rows.detach() + world.size * (rows - rows.detach())
    return torch.cat(parts)


def joined_all(parts: Sequence[Tensor], world: World) -> list[Tensor]:
    """Return `joined` of each of several tensors of as many rows and one dtype, in one exchange."""
    if world.size == 1:
        return list(parts)
    flat = [part.flatten(1) for part in parts]
    columns = joined(torch.cat(flat, 1), world).split([part.shape[1] for part in flat], 1)
    # Contiguous, as losses would sum in another order otherwise.
    return [rows.unflatten(1, part.shape[1:]).contiguous() for rows, part in zip(columns, parts, strict=True)]


def open_together(command: str, snapshot: Mapping[str, Any], opened: Callable[[], Run], world: World) -> Run:
    """Open the run in the main process, by `opened`; the others follow it from the same checkpoint."""
    if world.size == 1:
        return opened()
    run = opened() if world.main else None
    checkpoint = run.checkpoint() if run is not None else None
    place = of_main(None if checkpoint is None else str(checkpoint.path.absolute()), world)
    return FollowingRun.follow(command, snapshot, place) if run is None else run


def all_done(done: Tensor, world: World | None) -> bool:
    """Return whether `done` (``[N]`` bool) holds for every row of every process: the same answer in all of them.

    Without a world it is about this process alone.
    """
    left = (~done).sum()
    return not int(left if world is None else world.sum(left))


def asked_to_stop(run: Run, world: World) -> bool:
    """Return whether a signal asked any of the processes to stop: the same answer in all of them."""
    if world.size > 1:
        asked = int(world.gather(torch.tensor([run.signals.received])).max())
        if asked:
            run.signals.stop(asked)
        return bool(asked)
    return run.stop_requested
