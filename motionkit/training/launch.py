"""What torchrun and accelerate launch tell a process that they start. Imports no torch."""

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
"""What accelerate launch sets for ways to share a model that are not ours."""

TORCHRUN = "torchrun --nproc-per-node 2 -m motionkit ..."


@dataclass(frozen=True)
class Launch:
    """The place of a process among those that were started together."""

    rank: int = 0  # number of this process, from 0
    size: int = 1  # number of processes; 1 without a launcher
    local_rank: int = 0  # number of this process on its machine, from 0
    local_size: int = 1  # processes on its machine

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


# What processes that train together tell each other when one of them ends early.
#
# A process that fails writes why into the store that all of them reach. The others look there while they wait for an
# exchange, and end with the same exit code. One of them says it to the user: the main process, unless it does not
# answer.


_END, _TELLER, _GONE = "end", "teller", "gone"
_LOOK, _PAUSE = 3.0, 0.05  # seconds
_ANSWER = 20.0
"""Seconds that the other processes wait until the main one has heard of a failure; then one of them tells the user."""

_LAST = 2.0  # seconds a process lets the teller finish: a launcher stops all others once one has ended


class Words:
    """The store, as far as the end of a run is concerned; once it is gone, nothing is known of the others.

    Args:
        launch: Place of this process.
        store: Shared by all processes.
    """

    def __init__(self, launch: Launch, store: Store) -> None:
        self._launch, self._store = launch, store
        self._answer = _ANSWER

    def leave(self, error: BaseException, message: str, *, why: str = "", fix: str = "", code: int = 1) -> bool:
        """Say why this process ends early; the first one that does is believed. Returns whether this one is."""
        number = signal_of(error) if isinstance(error, KeyboardInterrupt) else 0
        said = {
            "rank": self._launch.rank, "signal": number, "message": message, "why": why, "fix": fix, "code": code,
        }  # fmt: skip
        text = json.dumps(said)
        return self._put_first(_END, text) in (text, "")

    def of_the_others(self) -> MotionkitError | Interrupted:
        """Return why an exchange has failed: the error of another process, or that one is gone without a word."""
        said = self._end(_LOOK)
        if said is None:
            self._answer = _LAST  # it may be the main process that is gone
            return MotionkitError(
                f"another of the {self._launch.size} processes has ended, or cannot be reached.",
                why="it was killed, or its machine or the network failed.",
                fix="look at the launcher's messages; --resume goes on from the last checkpoint, with any number of "
                "processes",
                code=1,
            )
        if said["signal"]:
            return Interrupted(int(said["signal"]))
        return MotionkitError(
            f"process {said['rank']} of {self._launch.size}: {said['message']}",
            why=said["why"],
            fix=said["fix"],
            code=said["code"],
        )

    @property
    def ended(self) -> bool:
        """Whether a process has said why it ends early."""
        return self._has(_END)

    def may_tell(self) -> bool:
        """Return whether this process tells the user how the run ended: exactly one does.

        The main process is asked first: the others wait until it has heard of the failure, or until the launcher stops
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
        own = str(self._launch.rank)
        return self._put_first(_TELLER, own) in (own, "")

    def part(self, *, told: bool) -> None:
        """Wait a moment before this process ends, so that none is stopped in the middle of a word."""
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the launcher's; this process ends by itself
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
        """Write `value` unless something stands there, and return what does; nothing without a store."""
        try:
            return str(self._store.compare_set(key, "", value).decode())
        except RuntimeError:
            return ""
