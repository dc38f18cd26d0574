"""The real `World`: processes that torchrun or accelerate launch started, joined by torch.distributed."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from motionkit.errors import MotionkitError
from motionkit.training.launch import Launch, Words

if TYPE_CHECKING:
    from torch.distributed.distributed_c10d import Store, Work

_START = timedelta(minutes=10)  # how long the first process waits for the last one at the start
_WAIT = timedelta(hours=2)
"""How long a process waits for the others: one of them may be writing a large checkpoint to a slow disk."""

_LOOK = timedelta(seconds=0.2)  # between looks whether another process has ended; a signal waits for one too
_PAUSES = (5e-5, 2e-3)  # seconds between polls of an exchange on a GPU: the first, and the longest


class Processes:
    """Processes with one model each, which share batches and sum gradients; see `World`.

    Args:
        launch: Rank of this process.
        device: Its device.
        store: Shared by the processes, for messages when one ends early.
    """

    def __init__(self, launch: Launch, device: torch.device, store: Store) -> None:
        self.rank, self.size = launch.rank, launch.size
        self.device = device
        self.words = Words(launch, store)

    @property
    def main(self) -> bool:
        """Whether this process writes files and talks to the user."""
        return self.rank == 0

    def sum(self, tensor: Tensor) -> Tensor:
        """Return the elementwise sum over all processes; any shape, the same bits everywhere."""
        total = self._sent(tensor).clone()
        self._together(lambda: torch.distributed.all_reduce(total, async_op=True))
        return total.to(tensor.device)

    def gather(self, tensor: Tensor) -> Tensor:
        """Return the rows of all processes, ``[size * N, ...]`` from ``[N, ...]``, rank by rank."""
        mine = self._sent(tensor).contiguous()
        # Not every backend knows bool.
        bare = mine.view(torch.uint8) if mine.dtype == torch.bool else mine
        rows = [torch.empty_like(bare) for _ in range(self.size)]
        self._together(lambda: torch.distributed.all_gather(rows, bare, async_op=True))
        return torch.cat(rows).view(mine.dtype).to(tensor.device)

    def close(self) -> None:
        """Leave the group; exchanges that the others still begin fail."""
        if torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()

    def _sent(self, tensor: Tensor) -> Tensor:
        return tensor.detach().to(self.device)

    def _together(self, start: Callable[[], Work | None]) -> None:
        """Run an exchange and watch for processes that have ended: a backend may wait for them forever.

        Raises the error of a process that has ended, with its exit code, or `Interrupted` if it was stopped.
        """
        try:
            work = start()
            assert work is not None  # every process is in the group
            wait = _woken if self.device.type == "cpu" else _polled
            while not wait(work):
                if self.words.ended:
                    raise self.words.of_the_others()
            work.wait()
        except RuntimeError as error:
            raise self.words.of_the_others() from error


def _woken(work: Work) -> bool:
    """Wait for `_LOOK` at most and return whether a gloo exchange has ended: its thread wakes this one at once."""
    try:
        work.wait(_LOOK)
    except RuntimeError:  # the time is over, or the exchange has failed, which the next wait raises again
        return bool(work.is_completed())
    return True


def _polled(work: Work) -> bool:
    """Do the same for NCCL: its own wait returns before the exchange has ended, and breaks the group if it is late."""
    until, pause = time.monotonic() + _LOOK.total_seconds(), _PAUSES[0]
    while not work.is_completed():
        if time.monotonic() > until:
            return False
        time.sleep(pause)
        pause = min(2 * pause, _PAUSES[1])
    return True


def own_device(name: str, launch: Launch) -> str:
    """Return the device of this process for the ``--device`` of all."""
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if name == "cpu" or (name == "auto" and count == 0):
        return "cpu"
    if name == "mps":
        raise MotionkitError("processes cannot share an MPS device.", fix="--device cpu, or one process.")
    if name not in ("auto", "cuda"):
        raise MotionkitError(
            f"--device {name} names one device for {launch.size} processes.",
            why="each process needs another device.",
            fix="--device cuda takes a CUDA device per process, --device cpu none.",
        )
    if launch.local_rank >= count:
        raise MotionkitError(
            f"{launch.local_size} processes were started here, and there are {count} CUDA devices.",
            fix=f"torchrun --nproc-per-node {count} ..." if count else "--device cpu",
        )
    return f"cuda:{launch.local_rank}"


def join(launch: Launch, device: str) -> Processes:
    """Join the other processes: NCCL on CUDA devices, gloo on CPUs; `device` as `own_device` returns it."""
    from accelerate import PartialState
    from torch.distributed.distributed_c10d import PrefixStore
    from torch.distributed.rendezvous import rendezvous

    on_cpu = device == "cpu"
    try:
        store, _, _ = next(rendezvous("env://", launch.rank, launch.size, timeout=_START))
        # A launcher may start all processes again after a failure: they must not read the messages of the first ones.
        store = PrefixStore(f"motionkit/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about OMP_NUM_THREADS, for which there is --threads
            PartialState(
                cpu=on_cpu, store=PrefixStore("group", store), rank=launch.rank, world_size=launch.size, timeout=_WAIT
            )
    except (RuntimeError, ValueError, OSError) as error:
        message = str(error).partition("\n")[0]
        raise MotionkitError(
            f"process {launch.rank} of {launch.size} did not meet the others: {message}",
            why=f"they meet at MASTER_ADDR {os.environ['MASTER_ADDR']}, MASTER_PORT {os.environ['MASTER_PORT']}.",
            fix="check that every process was started and that a firewall lets them through.",
        ) from error
    return Processes(launch, torch.device(device), PrefixStore("words", store))
