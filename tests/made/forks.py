"""Processes that begin with torch imported, so that many tests with a process each pay for that once."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

SERVER = """
import json, os, runpy, sys, traceback
import pytest, torch

if found := sorted(name for name in sys.modules if name.partition(".")[0] == "motionkit"):
    sys.exit(f"these are to be imported anew: {found}")
for line in sys.stdin:
    order = json.loads(line)
    if (child := os.fork()) == 0:
        for stream in (1, 2):
            os.dup2(os.open(order["streams"][stream - 1], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), stream)
        code = 1
        try:
            os.chdir(order["folder"])
            os.environ.update(order["environment"])
            sys.path[:0] = order["path"]
            sys.warnoptions[:] = []
            sys.argv = order["words"]
            if sys.argv[0] == "-c":
                exec(sys.argv.pop(1), {"__name__": "__main__"})
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
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


class Forks:
    """Runs ``python -m MODULE WORDS...`` or ``python -c CODE``, each in a process of its own that knows no motionkit.

    Args:
        folder: Where what they print is kept.
    """

    def __init__(self, folder: Path) -> None:
        self._streams = folder / "stdout", folder / "stderr"
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
        """Run one to its end.

        Args:
            words: ``-c``, code and its arguments, or a module and its arguments.
            folder: Its current folder; default: ours.
            environment: Variables on top of those of the first process.
            path: Folders in front of the import path.
        """
        order = {
            "words": words, "folder": str(folder or Path.cwd()), "environment": dict(environment or {}),
            "path": list(path), "streams": [str(file) for file in self._streams],
        }  # fmt: skip
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(json.dumps(order) + "\n")
        self._server.stdin.flush()
        code = int(self._server.stdout.readline())
        out, err = (file.read_text() for file in self._streams)
        return subprocess.CompletedProcess(words, code, out, err)
