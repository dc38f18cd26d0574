"""Processes that are killed: at a moment, or in place of one call to the file system inside the saving of a checkpoint.

A server process that has imported torch forks a fresh process for each command, so that nothing of pytest is in them
and none waits for its imports.
"""

from __future__ import annotations

import json
import multiprocessing
import runpy
import signal
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

TOY = Path(__file__).with_name("toy.py")
_KILLED = Path(__file__).with_name("killed.py")

_server = multiprocessing.get_context("forkserver")
_PRELOAD = ["numpy", "torch", "torch._dynamo", "safetensors.torch", "motionkit.training.steps"]
_server.set_forkserver_preload(_PRELOAD)


def preload_trainers() -> None:
    """Let the server import the trainers too, if it has not started: then moments of a process are moments of it."""
    packages = ("text_to_motion.grpo.train", "text_to_motion.mdm.train", "text_to_motion.tmr.train", "cli._app")
    _server.set_forkserver_preload([*_PRELOAD, *(f"motionkit.{name}" for name in packages)])


@dataclass(frozen=True)
class Fault:
    """What happens inside a save.

    Attributes:
        save: Which save of the process, from 1.
        call: Which of its calls to the file system, from 1. 0: none, the calls are only counted.
        signals: Sent to the process itself; after `SIGKILL` the call is not made.
    """

    save: int = 1
    call: int = 0
    signals: tuple[int, ...] = (signal.SIGKILL,)


def start(
    words: Sequence[object],
    *,
    toy: bool = False,
    fault: Fault | None = None,
    said: Path = Path("/dev/null"),
    log: Path | None = None,
    environment: dict[str, str] | None = None,
) -> BaseProcess:
    """Start a command in a process of its own.

    Args:
        words: Arguments of ``motionkit``, or of toy.py.
        toy: Whether it is the toy trainer.
        fault: What happens inside its saves.
        said: File for what it says.
        log: File for the calls of each save, one line of JSON for each; only with a fault.
        environment: Variables.
    """
    job = {
        "words": [str(word) for word in words],
        "environment": environment or {},
        "said": str(said),
        "toy": str(TOY) if toy else "",
        "fault": None if fault is None else asdict(fault),
        "log": "" if log is None else str(log),
    }
    options = {"init_globals": {"JOB": job}, "run_name": "__main__"}
    process = _server.Process(target=runpy.run_path, args=(str(_KILLED),), kwargs=options)
    process.start()
    return process


def finished(process: BaseProcess) -> int | None:
    """Wait for a process; return its exit code."""
    process.join(timeout=240)
    code = process.exitcode
    process.kill()
    return code


def begun(process: BaseProcess, run: Path, before: bytes = b"") -> float:
    """Wait until a process has written run.json, or has ended; return how many seconds that took.

    Args:
        process: The process.
        run: Its run folder.
        before: What run.json held before it was started.
    """
    since = time.monotonic()
    while process.is_alive() and record_of(run) == before:
        time.sleep(0.002)
    return time.monotonic() - since


def record_of(run: Path) -> bytes:
    """Return the bytes of a run's run.json; none when there is none."""
    return (run / "run.json").read_bytes() if (run / "run.json").exists() else b""


def calls_of(log: Path) -> list[list[str]]:
    """Return the calls of each save, such as ``rename step-00000002``."""
    return [json.loads(line) for line in log.read_text().splitlines()]


def differences(run: Path, straight: Path) -> list[str]:
    """Compare a run that was killed with one that nothing disturbed; empty when they are the same run.

    They must hold the same files and folders, so that nothing half or temporary is left; the same bytes in every
    checkpoint, policy and setting; and the same metrics but for the times.
    """
    mine, theirs = _names(run), _names(straight)
    found = sorted(mine ^ theirs)
    for name in sorted(mine & theirs):
        if name == "metrics.jsonl":
            same = metrics(run) == metrics(straight)
        elif name.endswith((".safetensors", ".json", "last")) and name != "run.json":
            same = (run / name).read_bytes() == (straight / name).read_bytes()
        else:
            continue
        if not same:
            found.append(f"{name} differs")
    return found


def metrics(run: Path) -> list[dict[str, Any]]:
    """Return the lines of metrics.jsonl without the times."""
    lines = [json.loads(text) for text in (run / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in line.items() if key != "seconds" and "time/" not in key} for line in lines]


def _names(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*")}
