"""Run by `kills.start` in a fresh process: a command, or the toy trainer, with something that happens inside a save.

Global `JOB`: ``words`` (of the command), ``environment``, ``said`` (file for what it says), ``toy`` (path of toy.py, or
empty), ``fault`` (``save``, ``call``, ``signals``; or None) and ``log`` (file for the calls of each save, or empty).
"""

from __future__ import annotations

import json
import os
import runpy
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from faults import faults


def plant(fault: dict[str, Any], log: str) -> None:
    """Let the fault happen in this process, in place of a call to the file system; count the calls of each save."""
    from motionkit.runs import _run

    original, saves = _run.save_checkpoint, [0]

    def send() -> None:
        for number in fault["signals"]:
            os.kill(os.getpid(), number)

    def save(*arguments: Any, **options: Any) -> Path:
        saves[0] += 1
        with faults(fault["call"] if saves[0] == fault["save"] else 0, send) as calls:
            result = original(*arguments, **options)
        if log:
            with Path(log).open("a") as file:
                file.write(json.dumps(calls.seen) + "\n")
        return result

    _run.save_checkpoint = save


def main(job: dict[str, Any]) -> None:
    """Do the job; ends with the command's own exit code."""
    os.environ.update(job["environment"])
    if job["fault"] is not None:
        plant(job["fault"], job["log"])
    with Path(job["said"]).open("a", buffering=1) as file:
        sys.stdout = sys.stderr = file
        if job["toy"]:
            runpy.run_path(job["toy"], init_globals={"ARGUMENTS": job["words"]}, run_name="__main__")
        from motionkit.cli import get_app

        sys.argv = ["motionkit", *job["words"]]
        get_app()(job["words"])


if __name__ == "__main__":
    main(globals()["JOB"])
