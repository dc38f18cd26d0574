"""Run by `processes` in a forked process: a command as torchrun starts it.

Global `JOB`: ``words`` (of the command), ``environment``, ``out`` and ``err`` (files for what it prints), ``program``
(a file that stands for the command, or empty).
"""

from __future__ import annotations

import os
import runpy
import sys

import torch


def start(words: list[str], environment: dict[str, str], out: str, err: str, program: str) -> None:
    """Run the command, or the program, to its end."""
    os.environ.update(environment)
    for stream, place in ((1, out), (2, err)):
        os.dup2(os.open(place, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), stream)
    torch.set_num_threads(1)  # the server may have imported torch before OMP_NUM_THREADS was set
    sys.argv = ["motionkit", *words]
    if program:
        runpy.run_path(program, run_name="__main__")
        return
    from motionkit.cli import main

    main()


if __name__ == "__main__":
    start(**globals()["JOB"])
