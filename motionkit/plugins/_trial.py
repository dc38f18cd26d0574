"""Import plugins in other processes, so that one that crashes, exits, hangs or eats memory is only reported."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from motionkit.errors import MotionkitError
from motionkit.plugins._discovery import Entry
from motionkit.plugins._fit import gives_of, reads_of
from motionkit.plugins._lookup import get

SECONDS = 30.0
"""Time for the import of a plugin's light half; one that imports torch, against the rules, takes about 5."""

MEMORY = 4 * 2**30
"""Bytes that the import may take, where the system can limit them."""

BUILD_SECONDS, BUILD_MEMORY = 120.0, 16 * 2**30
"""The same for the heavy half, which imports torch and is built."""

_AT_ONCE = 4


@dataclass(frozen=True)
class ImportOutcome:
    """Result of importing one plugin.

    Attributes:
        problem: Description of the failure; empty when it imports.
        missing: Modules that its heavy half needs and that are not installed.
        options: Names of its options.
        gives: What it gives; see `motionkit.plugins.KINDS`.
        reads: What it reads.
        note: Why its heavy half could not be checked further.
    """

    problem: str = ""
    missing: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    gives: str = ""
    reads: str = ""
    note: str = ""


@dataclass
class _Child:
    entries: list[Entry]
    process: subprocess.Popen[bytes]
    results: Path
    end: float
    what: str


def try_imports(entries: Sequence[Entry]) -> dict[Entry, ImportOutcome]:
    """Import the light half of each entry: one process for each of other packages, one for all of motionkit.

    Returns:
        The result by entry.
    """
    return _run(entries, build=False)


def try_builds(entries: Sequence[Entry]) -> dict[Entry, ImportOutcome]:
    """Import both halves of each entry and check them against their kind, in processes as in `try_imports`.

    Returns:
        The result by entry; the heavy halves of entries that do not import are left alone.
    """
    found = try_imports(entries)
    able = [entry for entry in entries if not found[entry].problem]
    for entry, outcome in _run(able, build=True).items():
        found[entry] = replace(found[entry], problem=outcome.problem, note=outcome.note)
    return found


def _run(entries: Sequence[Entry], *, build: bool) -> dict[Entry, ImportOutcome]:
    own = [entry for entry in entries if entry.builtin]
    todo = [[entry] for entry in entries if not entry.builtin] + ([own] if own else [])
    outcomes: dict[Entry, ImportOutcome] = {}
    running: list[_Child] = []
    with tempfile.TemporaryDirectory() as folder:
        try:
            while todo or running:
                while todo and len(running) < _AT_ONCE:
                    running.append(_start(todo.pop(0), Path(folder), build))
                time.sleep(0.01)
                for child in list(running):
                    if child.process.poll() is not None or time.monotonic() > child.end:
                        running.remove(child)
                        rest = _finish(child, outcomes)
                        todo += [rest] if rest else []
        finally:
            for child in running:
                _kill(child.process)
    return outcomes


def _start(entries: list[Entry], folder: Path, build: bool) -> _Child:
    results = folder / f"{entries[0].kind}-{time.monotonic_ns()}"
    names = [(entry.kind, f"{entry.distribution}:{entry.name}") for entry in entries]
    seconds, memory = (BUILD_SECONDS, BUILD_MEMORY) if build else (SECONDS, MEMORY)
    asked = json.dumps([sys.path, memory, str(results), names, build])
    line = [sys.executable, "-P", "-m", "motionkit.plugins._trial", asked]
    no = subprocess.DEVNULL
    process = subprocess.Popen(line, stdin=no, stdout=no, stderr=no, start_new_session=True)
    return _Child(entries, process, results, time.monotonic() + seconds, "build" if build else "import")


def _finish(child: _Child, outcomes: dict[Entry, ImportOutcome]) -> list[Entry]:
    """Read the results of a child; return the entries that it did not reach."""
    code = child.process.poll()
    _kill(child.process)
    text = child.results.read_text(encoding="utf-8") if child.results.exists() else ""
    lines = text.split("\n")[:-1]  # the last one may have been cut
    for entry, line in zip(child.entries, lines, strict=False):
        found = json.loads(line)
        names = {"missing": tuple(found["missing"]), "options": tuple(found["options"])}
        outcomes[entry] = ImportOutcome(**(found | names))
    rest = child.entries[len(lines) :]
    if rest:
        outcomes[rest[0]] = ImportOutcome(f"its {child.what} {_ending(code, child.what)}")
    return rest[1:]


def _ending(code: int | None, what: str) -> str:
    if code is None:
        return f"did not end within {BUILD_SECONDS if what == 'build' else SECONDS:g} seconds"
    if code < 0:
        name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
        return f"ended the process by {name}"
    return f"ended the process with code {code}"


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End a child and what it started."""
    with contextlib.suppress(OSError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    process.wait()


def _main(path: list[str], memory: int, results: str, names: list[tuple[str, str]], build: bool) -> None:
    sys.path[:] = path
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a KeyboardInterrupt comes from the plugin, then
    _limit_memory(memory)
    with Path(results).open("w", encoding="utf-8") as file:
        for kind, name in names:
            file.write(json.dumps(_build(kind, name) if build else _try(kind, name)) + "\n")
            file.flush()
    os._exit(0)  # threads that a plugin has started do not keep the process alive


def _try(kind: str, name: str) -> dict[str, Any]:
    try:
        component = get(kind, name)
        found = {"missing": component.missing(), "options": list(component.options.model_fields)}
    except MotionkitError as error:
        return {"problem": str(error), "missing": [], "options": []}
    return {**found, "gives": gives_of(kind, component), "reads": reads_of(kind, component)}


def _build(kind: str, name: str) -> dict[str, Any]:
    from motionkit.plugins._contract import examine

    problem, note = examine(kind, name)
    return {"problem": problem, "note": note, "missing": [], "options": []}


def _limit_memory(most: int) -> None:
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    except (ImportError, ValueError, OSError):  # Windows; or a lower limit is in force
        return


if __name__ == "__main__":
    _main(*json.loads(sys.argv[1]))
