"""A worker that is a process of this machine; frames come through shared memory."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.shared_memory import SharedMemory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from motionkit_success.environments.workers import Order, Work, death, error_of

_PATIENCE = 5.0  # seconds in which a worker closes its environment
_SHARE = "share"


class ProcessWorker:
    """A worker in a process of its own; see `motionkit_success.environments.workers.Worker`.

    The process is spawned, not forked: threads and GPU contexts of this one do not survive a fork.
    """

    def __init__(self, order: Order, number: int, workers: int) -> None:
        self._number, self._workers, self._copies = number, workers, order.num_envs
        context = get_context("spawn")
        self._connection, far = context.Pipe()
        self._process = context.Process(
            target=serve, args=(far, order), name=f"motionkit-worker-{number + 1}", daemon=True
        )
        self._process.start()
        far.close()  # so that a dead worker is the end of the file
        self._memory: SharedMemory | None = None
        self._views: dict[str, NDArray[np.uint8]] = {}
        self._question = ""

    def ask(self, question: str, *arguments: Any) -> None:
        """See `motionkit_success.environments.workers.Worker.ask`."""
        self._question = question
        try:
            self._connection.send((question, arguments))
        except OSError as error:
            raise self._death() from error

    def answer(self) -> Any:
        """See `motionkit_success.environments.workers.Worker.answer`."""
        value = self._receive()
        if self._question == "open":
            self._share(value["cameras"])
        elif isinstance(value, dict) and "frames" in value:
            value["frames"] = self._views
        return value

    def _receive(self) -> Any:
        # The sentinel too: if another process holds the pipe's far end, a dead worker gives no end of file.
        wait([self._connection, self._process.sentinel])
        try:
            done, value = self._connection.recv()
        except (EOFError, OSError) as error:
            raise self._death() from error
        if not done:
            raise error_of(value)
        return value

    def _share(self, cameras: Mapping[str, tuple[int, int]]) -> None:
        if not cameras:
            return
        size = sum(self._copies * height * width * 3 for height, width in cameras.values())
        self._memory = SharedMemory(create=True, size=size)
        self._connection.send((_SHARE, (self._memory.name, cameras)))
        self._views = _views(self._memory, cameras, self._copies)
        try:
            self._receive()
        finally:
            self._memory.unlink()  # both processes have it open; it is freed when the last of them ends

    def _death(self) -> Exception:
        self._process.join(_PATIENCE)
        code = self._process.exitcode
        how = f"it ended with code {code}" if code is None or code >= 0 else f"killed by {_signal(-code)}"
        return death(self._number, self._workers, how)

    def close(self) -> None:
        """See `motionkit_success.environments.workers.Worker.close`."""
        if self._connection.closed:
            return
        with suppress(OSError):
            self._connection.send(("close", ()))
        self._connection.close()
        self._process.join(_PATIENCE)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
        self._process.close()
        self._views.clear()
        if self._memory is not None:
            with suppress(BufferError):  # an error's traceback may hold a view
                self._memory.close()


def serve(connection: Connection, order: Order) -> None:
    """Answer until the near end closes, or dies; the main function of the process."""
    # Ctrl-C and a scheduler's SIGTERM reach every process: the near end saves its run and closes this one.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    work = Work(order)
    memory: SharedMemory | None = None
    views: dict[str, NDArray[np.uint8]] = {}
    with suppress(EOFError, OSError):
        while True:
            question, arguments = connection.recv()
            if question == _SHARE:
                name, cameras = arguments
                memory = SharedMemory(name=name)
                views = _views(memory, cameras, order.num_envs)
                connection.send((True, None))
                continue
            if question == "close":
                break
            done, value = work.answer(question, arguments)
            if isinstance(value, dict) and "frames" in value:
                for name, frames in value["frames"].items():
                    views[name][:] = frames
                value["frames"] = None
            connection.send((done, value))
    work.answer("close", ())
    views.clear()
    if memory is not None:
        memory.close()


def start_processes(orders: Sequence[Order]) -> list[ProcessWorker]:
    """Start a process for each order."""
    return [ProcessWorker(order, number, len(orders)) for number, order in enumerate(orders)]


def _views(memory: SharedMemory, cameras: Mapping[str, tuple[int, int]], copies: int) -> dict[str, NDArray[np.uint8]]:
    """Return ``[copies, H, W, 3]`` by camera, one after the other in the memory."""
    views, start = {}, 0
    for name, (height, width) in cameras.items():
        shape = (copies, height, width, 3)
        views[name] = np.ndarray(shape, np.uint8, memory.buf, start)
        start += copies * height * width * 3
    return views


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
