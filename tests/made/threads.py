"""A world of threads: what several processes do together, in one."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


class Meeting:
    """Where the members of a world exchange tensors."""

    def __init__(self, size: int) -> None:
        self.rows: list[Tensor] = [torch.empty(0)] * size
        self.barrier = threading.Barrier(size, timeout=60)

    def world(self, rank: int) -> Member:
        return Member(self, rank)

    def exchange(self, rank: int, tensor: Tensor) -> list[Tensor]:
        self.rows[rank] = tensor.clone()
        self.barrier.wait()
        found = list(self.rows)
        self.barrier.wait()
        return found


class Member:
    """The world as one of its threads sees it."""

    def __init__(self, meeting: Meeting, rank: int) -> None:
        self.meeting, self.rank, self.size = meeting, rank, len(meeting.rows)

    @property
    def main(self) -> bool:
        return self.rank == 0

    def sum(self, tensor: Tensor) -> Tensor:
        return torch.stack(self.meeting.exchange(self.rank, tensor)).sum(0)

    def gather(self, tensor: Tensor) -> Tensor:
        return torch.cat(self.meeting.exchange(self.rank, tensor))


def in_threads(size: int, work: Callable[[Member], Any], meeting: Meeting | None = None) -> list[Any]:
    """Return what each member's work gives; an error in one of them ends the others and is raised."""
    meeting = meeting or Meeting(size)
    found: list[Any] = [None] * size

    def run(rank: int) -> None:
        try:
            found[rank] = work(meeting.world(rank))
        except BaseException as error:
            found[rank] = error
            meeting.barrier.abort()

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for outcome in found:
        if isinstance(outcome, BaseException):
            raise outcome
    return found
