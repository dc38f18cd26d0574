"""What became of one input: read, refused, or an escape."""

from __future__ import annotations

import os
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from motionkit.errors import MotionkitError

from .watch import Watch

LONGEST_MESSAGE = 25_000
"""Characters of an error; more is not a message but a flood."""

_NO_MEMORY = ("can't allocate memory", "cannot allocate memory", "bad allocation", "bad_alloc", "Unable to allocate")


@dataclass(frozen=True)
class Verdict:
    """What became of one input.

    Attributes:
        kind: ``read``, ``refused`` or ``escape``.
        what: The error, or what was done that must not be.
        trace: Where, for an escape.
        seconds: CPU time it took.
        peak: Largest resident memory of the process meanwhile, in bytes.
    """

    kind: str
    what: str
    trace: str
    seconds: float
    peak: int


def judge(read: Callable[[Path], object], folder: Path, watch: Watch, memory: int) -> Verdict:
    """Read an input and say what became of it.

    Args:
        read: The reading call.
        folder: The input.
        watch: Sees what it does.
        memory: Bytes of resident memory that it may not exceed.
    """
    unraisable: list[str] = []
    sys.unraisablehook = lambda found: unraisable.append(f"unraisable {found.exc_value!r}")
    watch.seen.clear()
    _forget_peak()
    started = time.process_time()
    kind, what, trace = "read", "", ""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            watch.on = True
            read(folder)
    except MotionkitError as error:
        watch.on = False
        kind, what = "refused", f"{error.message} {error.why} {error.fix}"
        if (cause := _hidden(error)) is not None:
            kind, what, trace = "escape", f"refused only after {cause!r}"[:500], _trace(cause)
        elif len(what) > LONGEST_MESSAGE:
            kind, what, trace = "escape", f"a message of {len(what)} characters: {what[:200]}", _trace(error)
    except BaseException as error:  # SystemExit and KeyboardInterrupt are escapes too
        watch.on = False
        kind, what, trace = "escape", f"{type(error).__name__}: {str(error)[:300]}", _trace(error)
    finally:
        watch.on = False
    seconds, peak = time.process_time() - started, _peak()
    if watch.seen or unraisable:
        kind, what = "escape", "; ".join(dict.fromkeys([*watch.seen[:3], *unraisable[:3]]))
    elif kind != "escape" and peak > memory:
        kind, what = "escape", f"{peak / 1e6:.0f} MB of memory; {what[:200]}"
    return Verdict(kind, what[:1000], trace, seconds, peak)


def _hidden(error: BaseException) -> BaseException | None:
    """Return the error of too little memory behind a refusal: it means that memory was asked for before a look."""
    for cause in _chain(error):
        if isinstance(cause, MemoryError) and not _is_parser(cause):
            return cause
        if any(word in str(cause)[:2000] for word in _NO_MEMORY):
            return cause
    return None


def _is_parser(error: MemoryError) -> bool:
    """Whether it is Python's parser that gave up on a text that is nested too deep: it calls that a MemoryError."""
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    return last is not None and Path(last.tb_frame.f_code.co_filename).name == "ast.py"


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    waiting = [error]
    while waiting:
        found = waiting.pop()
        if id(found) not in seen:
            seen.add(id(found))
            yield found
            waiting += [cause for cause in (found.__cause__, found.__context__) if cause is not None]


def _trace(error: BaseException) -> str:
    """Return the innermost frames; a recursion has thousands."""
    lines = traceback.format_tb(error.__traceback__)
    return "".join(lines[-8:])[-4000:]


def _forget_peak() -> None:
    try:
        with open("/proc/self/clear_refs", "w") as file:  # noqa: PTH123 - no path of the reader's
            file.write("5")
    except OSError:
        pass  # then the peak is that of the whole process so far


def _peak() -> int:
    try:
        with open("/proc/self/status") as file:  # noqa: PTH123
            return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM"))
    except (OSError, StopIteration):
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def address_space() -> int:
    """Return the bytes of address space that this process has taken."""
    with Path("/proc/self/statm").open() as file:
        return int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
