"""Ctrl-C and SIGTERM: the first asks the run to stop after its step, the second stops at once."""

from __future__ import annotations

import logging
import signal
import threading
from types import FrameType
from typing import Any

from motionkit.errors import Interrupted

_logger = logging.getLogger("motionkit.runs")


class StopSignals:
    """Handlers of SIGINT and SIGTERM during a run.

    Attributes:
        received: The first signal's number, or 0.
    """

    def __init__(self) -> None:
        self.received = 0
        self._before: dict[int, Any] = {}

    def install(self) -> None:
        """Install the handlers; does nothing outside the main thread, where Python allows none."""
        if threading.current_thread() is not threading.main_thread():
            return
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._handle)

    def remove(self) -> None:
        """Restore the previous handlers."""
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()

    def stop(self, number: int = signal.SIGINT) -> None:
        """Ask for a stop as the signal `number` does, which the exit code then tells."""
        self.received = self.received or number

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.received:
            raise Interrupted(number)
        self.received = number
        _logger.warning("stopping after this step; press Ctrl-C again to stop at once")
