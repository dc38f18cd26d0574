"""Processes that begin with torch imported, so that many tests with a process each pay for that once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

SERVER = """
import json, os, runpy, signal, sys, traceback
import pytest, torch

signal.signal(signal.SIGINT, signal.default_int_handler)  # in a job of a shell's background it is ignored

if found := sorted(name for name in sys.modules if name.partition(".")[0] == "motionkit"):
    sys.exit(f"these are to be imported anew: {found}")
for line in sys.stdin:
    order = json.loads(line)
    if "child" in order:
        found, status = os.waitpid(order["child"], order["options"])
        print(json.dumps(os.waitstatus_to_exitcode(status) if found else None), flush=True)
        continue
    if (child := os.fork()) == 0:
        for stream in (1, 2):
            os.dup2(os.open(order["streams"][stream - 1], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), stream)
        code = 1
        try:
            if order["session"]:
                os.setsid()
            os.chdir(order["folder"])
            os.environ.update(order["environment"])
            sys.path[:0] = order["path"]
            sys.warnoptions[:] = []
            sys.argv = order["words"]
            if sys.argv[0] == "-c":
                exec(sys.argv.pop(1), {"__name__": "__main__"})
            elif sys.argv[0].endswith(".py"):
                runpy.run_path(sys.argv[0], run_name="__main__")
            else:
                runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
        except BaseException:
            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    print(child, flush=True)
"""


class Forked:
    """A process that was started; what it has of `subprocess.Popen` does the same.

    Args:
        ask: Sends an order to the server and returns its answer.
        pid: Its number.
        streams: Files of what it prints.
    """

    def __init__(self, ask: Callable[[Mapping[str, Any]], int | None], pid: int, streams: Sequence[Path]) -> None:
        self._ask = ask
        self.pid = pid
        self._streams = streams
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Return its exit code, or None while it lives."""
        return self._ended(os.WNOHANG)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; return its exit code."""
        if timeout is None:
            code = self._ended(0)
            assert code is not None
            return code
        end = time.monotonic() + timeout
        while (code := self.poll()) is None:
            if time.monotonic() > end:
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout)
            time.sleep(0.02)
        return code

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Wait for its end; return what it printed."""
        self.wait(timeout)
        out, err = (file.read_text() for file in self._streams)
        return out, err

    def send_signal(self, number: int) -> None:
        """Send it a signal, if it lives."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill it."""
        self.send_signal(signal.SIGKILL)

    def _ended(self, options: int) -> int | None:
        if self.returncode is None:
            self.returncode = self._ask({"child": self.pid, "options": options})
        return self.returncode


class Forks:
    """Runs ``python -m MODULE WORDS...`` or ``python -c CODE``, each in a process of its own that knows no motionkit.

    Args:
        folder: Where what they print is kept.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._started = 0
        self._server = subprocess.Popen(
            [sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self) -> Forks:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.communicate()

    def run(
        self,
        *words: str,
        folder: Path | None = None,
        environment: Mapping[str, str] | None = None,
        path: Sequence[str] = (),
    ) -> subprocess.CompletedProcess[str]:
        """Run one to its end; see `start`."""
        process = self.start(*words, folder=folder, environment=environment, path=path)
        code = process.wait()
        out, err = process.communicate()
        return subprocess.CompletedProcess(words, code, out, err)

    def start(
        self,
        *words: str,
        folder: Path | None = None,
        environment: Mapping[str, str] | None = None,
        path: Sequence[str] = (),
        session: bool = False,
    ) -> Forked:
        """Start one.

        Args:
            words: ``-c``, code and its arguments; or a module, or a file of Python, and its arguments.
            folder: Its current folder; default: ours.
            environment: Variables on top of those of the first process.
            path: Folders in front of the import path.
            session: Whether it leads a session and a group of processes of its own.
        """
        self._started += 1
        streams = [self._folder / f"{name}-{self._started}" for name in ("stdout", "stderr")]
        order = {
            "words": words, "folder": str(folder or Path.cwd()), "environment": dict(environment or {}),
            "path": list(path), "streams": [str(file) for file in streams], "session": session,
        }  # fmt: skip
        pid = self._ask(order)
        assert pid is not None
        return Forked(self._ask, pid, streams)

    def _ask(self, order: Mapping[str, Any]) -> int | None:
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(json.dumps(order) + "\n")
        self._server.stdin.flush()
        answer: int | None = json.loads(self._server.stdout.readline())
        return answer
