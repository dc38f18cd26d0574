"""The process that reads hostile inputs, one after the other, and may die of it."""

from __future__ import annotations

import dataclasses
import faulthandler
import json
import os
import resource
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from .judge import Verdict, address_space, judge
from .mutate import Files
from .reader import Reader, hostile_input, lay_out, sound_inputs
from .watch import Watch, trusted_folders

ROOT = Path(__file__).resolve().parents[2]
MEMORY = 1500 << 20
"""Resident bytes that no input may take, Python and torch included, unless the request says otherwise."""
ROOM = 3 << 30
"""Bytes of address space beyond those of a process that has read nothing; more is a MemoryError."""
SECONDS = 10
"""CPU time after which an input hangs, unless the request says otherwise."""


def serve(scratch: Path) -> None:
    """Answer requests on stdin (``reader, seed, seconds, memory``), each with a line as reading starts and a verdict.

    Args:
        scratch: Folder of its own; the input at work is in ``input``, what a hang or crash was doing in ``trace.txt``.
    """
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    talk = os.open(scratch / "talk.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(talk, 1)
    os.dup2(talk, 2)
    trace = (scratch / "trace.txt").open("w")
    faulthandler.enable(trace)
    faulthandler.register(signal.SIGPROF, trace, chain=True)  # then the signal ends the process
    bench = Bench(scratch)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 30, 1 << 30))
    for line in sys.stdin:
        request = json.loads(line)
        bench.prepare(request["reader"], request["seed"])
        answers.write("{}\n")
        signal.setitimer(signal.ITIMER_PROF, request["seconds"])
        verdict = bench.read(request["reader"], request["memory"])
        signal.setitimer(signal.ITIMER_PROF, 0)
        answers.write(json.dumps(dataclasses.asdict(verdict)) + "\n")


class Bench:
    """Makes inputs and has them read.

    Args:
        scratch: Folder for everything.
    """

    def __init__(self, scratch: Path) -> None:
        self.scratch = scratch
        self.input = scratch / "input"
        places = {name: scratch / name.lower() for name in ("HOME", "TMPDIR", "MOTIONKIT_CACHE")}
        for name, folder in places.items():
            folder.mkdir(exist_ok=True)
            os.environ[name] = str(folder)
        os.environ["HF_HUB_OFFLINE"] = "1"
        os.chdir(scratch)
        self._readers: dict[str, Reader] = {}
        self._sound: dict[str, Sequence[Files]] = {}
        self._watch = Watch((self.input, *places.values()), trusted_folders(ROOT))

    def reader(self, name: str) -> Reader:
        """Return a reader; the first one costs the import of what it reads with."""
        if name not in self._readers:
            if name.startswith("canary-"):
                from .canaries import CANARIES as READERS
            else:
                import torch

                from .readers import READERS

                torch.set_num_threads(1)
            self._readers |= READERS
            resource.setrlimit(resource.RLIMIT_AS, (address_space() + ROOM, resource.RLIM_INFINITY))
        return self._readers[name]

    def sound(self, name: str) -> Sequence[Files]:
        """Return the sound inputs of a reader, which have been read once: that imports what is imported late."""
        if name not in self._sound:
            reader = self.reader(name)
            self._sound[name] = sound_inputs(reader, self.scratch / "sound")
            for files in () if reader.closed else self._sound[name]:
                lay_out(files, self.input)
                reader.read(self.input)
        return self._sound[name]

    def prepare(self, name: str, seed: int) -> None:
        """Lay out input number `seed` of a reader; sound input number k (of all, over and over) for -1 - k."""
        sound = self.sound(name)
        files = sound[(-1 - seed) % len(sound)] if seed < 0 else hostile_input(self.reader(name), sound, seed)
        lay_out(files, self.input)

    def read(self, name: str, memory: int) -> Verdict:
        """Have the input read that was laid out last."""
        return judge(self.reader(name).read, self.input, self._watch, memory)
