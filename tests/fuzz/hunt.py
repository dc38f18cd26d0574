"""Asking a worker for inputs, noticing when it dies or hangs, and the table of what came of it."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .worker import MEMORY, SECONDS

WALL = 60.0
"""Seconds by the clock after which an input hangs, should the machine be busy with other things."""


@dataclass(frozen=True)
class Escape:
    """An input that was neither read nor refused.

    Attributes:
        reader: Whose input.
        seed: Its number.
        what: What happened.
        trace: Where.
        kept: Folder with a copy of the input.
        hang: Whether it took too long.
    """

    reader: str
    seed: int
    what: str
    trace: str
    kept: Path
    hang: bool = False

    def __str__(self) -> str:
        again = f"python tests/fuzz {self.reader} --seed {self.seed}"
        return f"{self.reader}, input {self.seed}: {self.what}\n{self.trace}input: {self.kept}\nagain: {again}"


@dataclass
class Row:
    """What came of the inputs of one reader."""

    reader: str
    inputs: int = 0
    read: int = 0
    refused: int = 0
    escapes: list[Escape] = field(default_factory=list)
    slowest: float = 0.0
    peak: int = 0

    @property
    def hangs(self) -> int:
        """Inputs that took too long; they count as escapes too."""
        return sum(escape.hang for escape in self.escapes)


class Worker:
    """A process that reads inputs; started again when one of them kills it.

    Args:
        scratch: Folder for it.
        seconds: CPU time after which an input hangs.
        idle: Seconds without any work after which an input hangs: it waits for something.
        memory: Resident bytes that no input may take.
    """

    def __init__(self, scratch: Path, *, seconds: float = SECONDS, idle: float = 8.0, memory: int = MEMORY) -> None:
        self.scratch, self.seconds, self.idle, self.memory = scratch, seconds, idle, memory
        scratch.mkdir(parents=True, exist_ok=True)
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, reader: str, seed: int) -> dict[str, object]:
        """Have one input read; return its verdict, with ``hang`` and ``kept`` where it is an escape."""
        process = self._process = self._process or self._start()
        assert process.stdin is not None
        request = {"reader": reader, "seed": seed, "seconds": self.seconds, "memory": self.memory}
        process.stdin.write(json.dumps(request).encode() + b"\n")
        process.stdin.flush()
        # Sound inputs are made at a reader's first request; a worker that dies of that is broken itself.
        if self._line(10 * WALL) is None:
            raise RuntimeError(f"making input {seed} of {reader} failed: {self._end()}")
        started = time.monotonic()
        answer = self._line(WALL)
        verdict: dict[str, object]
        if answer is not None:
            verdict = {**json.loads(answer), "hang": False}
        else:
            waited = time.monotonic() - started
            code = process.poll()
            hang = code in (None, -signal.SIGPROF)
            words = f"it takes more than {self.seconds} s" if code is not None else "it waits"
            what = words if hang else f"the process ended with code {code}"
            verdict = {"kind": "escape", "what": what, "trace": self._end(), "seconds": waited, "peak": 0, "hang": hang}
        if verdict["kind"] == "escape":
            verdict["kept"] = self._keep(f"{reader}-{seed}")
        return verdict

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._end()

    def _start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, str(Path(__file__).parent), "--serve", str(self.scratch)]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("MOTIONKIT_")}
        environment |= {"OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0", "MKL_NUM_THREADS": "1"}
        self._rest = b""
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)

    def _line(self, seconds: float) -> bytes | None:
        """Return the next line of the process, or None when it ends, waits or does not answer."""
        assert self._process is not None
        assert self._process.stdout is not None
        place, pid = self._process.stdout.fileno(), self._process.pid
        until = time.monotonic() + seconds
        worked, last = _ticks(pid), time.monotonic()
        while b"\n" not in self._rest and time.monotonic() < until:
            ready, _, _ = select.select([place], [], [], 1.0)
            if ready:
                data = os.read(place, 1 << 16)
                if not data:
                    self._process.wait()
                    return None
                self._rest += data
            elif _ticks(pid) != worked:
                worked, last = _ticks(pid), time.monotonic()
            elif time.monotonic() - last > self.idle:
                return None
        line, found, self._rest = self._rest.partition(b"\n")
        return line if found else None

    def _end(self) -> str:
        """End the process; return what it left about where it was."""
        process, self._process = self._process, None
        assert process is not None
        process.kill()
        process.communicate()
        words = [(self.scratch / name).read_text(errors="replace")[-3000:] for name in ("trace.txt", "talk.txt")]
        return "\n".join(words)

    def _keep(self, name: str) -> Path:
        kept = self.scratch / "kept" / name
        shutil.rmtree(kept, ignore_errors=True)
        shutil.copytree(self.scratch / "input", kept, symlinks=True, ignore=_pipes)
        return kept


def hunt(worker: Worker, row: Row, seeds: Iterable[int], until: float = float("inf")) -> Row:
    """Have inputs read and note in `row` what came of them, until a time of `time.monotonic`."""
    for seed in seeds:
        if time.monotonic() > until:
            break
        verdict = worker.ask(row.reader, seed)
        row.inputs += 1
        row.slowest = max(row.slowest, float(str(verdict["seconds"])))
        row.peak = max(row.peak, int(str(verdict["peak"])))
        if verdict["kind"] == "escape":
            words = str(verdict["what"]), str(verdict["trace"])
            row.escapes.append(Escape(row.reader, seed, *words, Path(str(verdict["kept"])), bool(verdict["hang"])))
        else:
            row.read += verdict["kind"] == "read"
            row.refused += verdict["kind"] == "refused"
    return row


def table(rows: Sequence[Row]) -> str:
    """Return the rows as a table, with their sum."""
    total = Row("all", *(sum(getattr(row, name) for row in rows) for name in ("inputs", "read", "refused")))
    total.escapes = [escape for row in rows for escape in row.escapes]
    total.slowest, total.peak = max(row.slowest for row in rows), max(row.peak for row in rows)
    lines = [
        f"{'reader':22}{'inputs':>9}{'read':>9}{'refused':>9}{'escapes':>9}{'hangs':>7}{'slowest s':>11}{'peak MB':>9}"
    ]
    lines += [
        f"{row.reader:22}{row.inputs:9}{row.read:9}{row.refused:9}{len(row.escapes):9}{row.hangs:7}"
        f"{row.slowest:11.2f}{row.peak / 1e6:9.0f}"
        for row in (*rows, total)
    ]
    return "\n".join(lines)


def _pipes(folder: str, names: list[str]) -> list[str]:
    return [name for name in names if (Path(folder) / name).is_fifo()]


def _ticks(pid: int) -> float:
    """Return the CPU time of a process; where the system does not say, something that changes."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return time.monotonic()
    return int(fields[11]) + int(fields[12])
