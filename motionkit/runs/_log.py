"""Writes log.txt: a plain copy of motionkit's messages on stderr."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class _QuietHandler(logging.FileHandler):
    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the name is logging's
        """Drop a line that cannot be written; the next checkpoint reports a full disk."""


class LogFile:
    """Copies the ``motionkit`` logger into a file while open.

    Args:
        path: The file; appended to.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._handler: logging.Handler | None = None
        self._level = logging.NOTSET

    def open(self) -> None:
        """Start copying, at level INFO."""
        self._handler = _QuietHandler(self._path, encoding="utf-8", errors="replace")
        self._handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
        logger = logging.getLogger("motionkit")
        self._level = logger.level
        if not logger.isEnabledFor(logging.INFO):
            logger.setLevel(logging.INFO)
        logger.addHandler(self._handler)

    def close(self) -> None:
        """Stop copying and put the logger's level back."""
        if self._handler is not None:
            logger = logging.getLogger("motionkit")
            logger.removeHandler(self._handler)
            logger.setLevel(self._level)
            self._handler.close()
            self._handler = None


@contextmanager
def logging_into(folder: Path) -> Iterator[None]:
    """Copy messages into the log.txt of a run that has ended, where that file can still be written."""
    log = LogFile(folder / "log.txt")
    try:
        log.open()
    except OSError:
        yield
        return
    try:
        yield
    finally:
        log.close()
