"""The environment of processes that torchrun or accelerate start, and how they end together. Imports no torch.

A process that fails writes the reason into the common store (`Words`). The others look there while they wait for an
exchange, and end with the same exit code. One of them reports to the user: the main process, unless it does not answer.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from motionkit.errors import Interrupted, MotionkitError, signal_of

if TYPE_CHECKING:
    from torch.distributed.distributed_c10d import Store


_NEEDED = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
_PLANS = {
    "ACCELERATE_USE_FSDP": "FSDP",
    "ACCELERATE_USE_DEEPSPEED": "DeepSpeed",
    "ACCELERATE_USE_MEGATRON_LM": "Megatron-LM",
    "ACCELERATE_USE_PARALLELISM_CONFIG": "a parallelism config",
}
"""Variables of accelerate launch for ways to share a model that motionkit does not have."""

_END, _TELLER, _GONE = "end", "teller", "gone"
_LOOK, _PAUSE = 3.0, 0.05  # seconds
_ANSWER = 20.0  # seconds that the other processes give the main one to report a failure; then one of them reports it
_LAST = 2.0  # seconds a process lets the reporting one finish: a launcher stops all others once one has ended

TORCHRUN = "torchrun --nproc-per-node 2 -m motionkit ..."


@dataclass(frozen=True)
class Launch:
    """Rank of a process among those that were started together."""

    rank: int = 0  # number of this process, from 0
    size: int = 1  # number of processes; 1 without a launcher
    local_rank: int = 0  # number of this process on its machine, from 0
    local_size: int = 1  # processes on its machine

    @property
    def quiet(self) -> bool:
        """Whether this process leaves the talking to process 0."""
        return self.rank > 0


def launch_of(environ: Mapping[str, str] = os.environ) -> Launch:
    """Read the environment; without a launcher it is a single process.

    A cluster may set WORLD_SIZE for other purposes: without RANK and LOCAL_RANK it is ignored.
    """
    size, rank, local = (_number(environ.get(name, "")) for name in ("WORLD_SIZE", "RANK", "LOCAL_RANK"))
    if size is None or rank is None or local is None or size < 2 or not rank < size:
        return Launch()
    return Launch(rank, size, local, _number(environ.get("LOCAL_WORLD_SIZE", "")) or 1)


def require_launch(environ: Mapping[str, str] = os.environ) -> None:
    """Refuse a launch with WORLD_SIZE above 1 and a missing variable, or with one of accelerate's other plans."""
    size = _number(environ.get("WORLD_SIZE", ""))
    if size is None or size < 2:
        return
    missing = [name for name in _NEEDED if not environ.get(name)]
    if missing or launch_of(environ).size != size:
        odd = f"{', '.join(missing)} not set" if missing else "RANK or LOCAL_RANK not a number below it"
        raise MotionkitError(
            f"WORLD_SIZE is {size}, with {odd}.",
            why="a launcher sets all of them, and a single process has none.",
            fix=f"{TORCHRUN}, or unset WORLD_SIZE.",
        )
    for name, plan in _PLANS.items():
        if environ.get(name, "").lower() in ("1", "true", "yes"):
            raise MotionkitError(
                f"{plan} is not supported: {name} is set.",
                why="only accelerate's number of processes counts; a trainer that can shard its weights has --shard.",
                fix=f"{TORCHRUN}, or accelerate launch --multi_gpu --num_processes 2 -m motionkit ...",
            )


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() and len(text) < 10 else None


class Words:
    """Messages in the common store of all processes about how the run ends; calls do nothing once it is gone."""

    def __init__(self, launch: Launch, store: Store) -> None:
        self._launch, self._store = launch, store
        self._answer = _ANSWER

    def leave(self, error: BaseException, message: str, *, why: str = "", fix: str = "", code: int = 1) -> bool:
        """Write why this process ends early, and return whether it is the first to do so."""
        number = signal_of(error) if isinstance(error, KeyboardInterrupt) else 0
        end = {
            "rank": self._launch.rank, "signal": number, "message": message, "why": why, "fix": fix, "code": code,
        }  # fmt: skip
        text = json.dumps(end)
        return self._put_first(_END, text) in (text, "")

    def of_the_others(self) -> MotionkitError | Interrupted:
        """Return why an exchange has failed: the error of another process, or that one is gone without a message."""
        end = self._end(_LOOK)
        if end is None:
            self._answer = _LAST  # it may be the main process that is gone
            return MotionkitError(
                f"another of the {self._launch.size} processes has ended, or cannot be reached.",
                why="it was killed, or its machine or the network failed.",
                fix="look at the launcher's messages; --resume goes on from the last checkpoint, with any number of "
                "processes",
                code=1,
            )
        if end["signal"]:
            return Interrupted(int(end["signal"]))
        return MotionkitError(
            f"process {end['rank']} of {self._launch.size}: {end['message']}",
            why=end["why"],
            fix=end["fix"],
            code=end["code"],
        )

    @property
    def ended(self) -> bool:
        """Whether a process has written why it ends early."""
        return self._has(_END)

    def may_tell(self) -> bool:
        """Return whether this process reports to the user how the run ended: exactly one does.

        The main process comes first: the others wait until it has read of the failure, or until the launcher stops
        them, which it does when a process is gone.
        """
        if not self._launch.quiet:
            return self._put_first(_TELLER, "0") in ("0", "")
        until = time.monotonic() + self._answer
        stopped: list[int] = []
        signal.signal(signal.SIGTERM, lambda number, frame: stopped.append(number))
        while time.monotonic() < until and not stopped:
            if self._has(_TELLER):
                return False
            time.sleep(_PAUSE)
        rank = str(self._launch.rank)
        return self._put_first(_TELLER, rank) in (rank, "")

    def part(self, *, told: bool) -> None:
        """Wait a moment before this process ends, so that the reporting one can finish."""
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the launcher's; this process ends anyway
        try:
            gone = self._store.add(_GONE, 1)
            if not told:
                time.sleep(_LAST)
                return
            until = time.monotonic() + _LAST
            while gone < self._launch.size and time.monotonic() < until:
                time.sleep(_PAUSE)
                gone = self._store.add(_GONE, 0)
        except RuntimeError:  # the process that held the store is gone
            return

    def _end(self, seconds: float) -> dict[str, Any] | None:
        until = time.monotonic() + seconds
        while True:
            if self._has(_END):
                try:
                    return dict(json.loads(self._store.get(_END)))
                except RuntimeError:
                    return None
            if time.monotonic() > until:
                return None
            time.sleep(_PAUSE)

    def _has(self, key: str) -> bool:
        try:
            return bool(self._store.check([key]))
        except RuntimeError:
            return False

    def _put_first(self, key: str, value: str) -> str:
        """Write `value` if the key is free, and return the key's value; empty without a store."""
        try:
            return str(self._store.compare_set(key, "", value).decode())
        except RuntimeError:
            return ""
