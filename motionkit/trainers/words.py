"""What processes that train together tell each other when one of them ends early.

A process that fails writes why into the store that all of them reach. The others look there while they wait for an
exchange, and end with the same exit code. One of them says it to the user: the main process, unless it does not answer.
"""

from __future__ import annotations

import json
import signal
import time
from typing import TYPE_CHECKING, Any

from motionkit.errors import Interrupted, MotionkitError, signal_of

if TYPE_CHECKING:
    from torch.distributed.distributed_c10d import Store

    from motionkit.trainers.launch import Launch

_END, _TELLER, _GONE = "end", "teller", "gone"
_LOOK, _PAUSE = 3.0, 0.05  # seconds
_ANSWER = 20.0
"""Seconds that the other processes wait until the main one has heard of a failure; then one of them tells the user."""

_LAST = 2.0
"""Seconds a process lets the teller finish: a launcher stops all others once one has ended."""


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
