"""Progress on stderr: a bar on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from motionkit.cli import output

PLAIN_EVERY = 15.0
SMOOTH = 20
"""Steps that a shown number is the mean of: a single batch says little."""

_SHOWN = {"reward/mean": "reward", "loss/total": "loss"}
"""The one number of the steps that is shown, the first there is; a loss says little where there is a reward."""

_POINTS = {"heldout/reward/delta": "held out", "retrieval/t2m/r3_32": "R@3", "val/loss/diffusion": "val"}
"""The measurement on the way whose last value is shown, the first there is."""


@contextmanager
def bar(title: str, total: int | None = None, *, start: int = 0) -> Iterator[Callable[..., None]]:
    """Show progress while the block runs.

    Args:
        title: What is going on.
        total: Number of steps, when it is known.
        start: Steps done before.

    Yields:
        ``step(count=1, note="")``, to be called after each step; with a count of 0 the clock of the rate starts again.
    """
    if is_terminal():
        with _rich_bar(title, total, start) as step:
            yield step
    else:
        yield _plain(title, total, start, output.say)


@contextmanager
def follow(run: Any, title: str) -> Iterator[None]:
    """Show the progress of a run: step, smoothed reward or loss, last measurement, steps per second, time left."""
    with bar(title, run.total_steps, start=run.start_step) as step:
        last = run.start_step
        recent: deque[float] = deque(maxlen=SMOOTH)
        point = ""

        def listen(at: int, metrics: Mapping[str, float]) -> None:
            nonlocal last, point
            name = next((key for key in _SHOWN if key in metrics), "")
            if name and metrics[name] == metrics[name]:
                recent.append(metrics[name])
            found = next((key for key in _POINTS if key in metrics), "")
            if found:
                sign = "+" if found.endswith("/delta") else ""
                point = f"{_POINTS[found]} {round(metrics[found], 3) + 0.0:{sign}.3f}"
            shown = f"{_SHOWN[name]} {_four(sum(recent) / len(recent))}" if name and recent else ""
            step(at - last, note="  ".join(part for part in (shown, point if at else "") if part))
            last = at

        run.listeners.append(listen)
        try:
            yield
        finally:
            run.listeners.remove(listen)


def is_terminal() -> bool:
    """Whether stderr is a terminal that can redraw a line."""
    return sys.stderr.isatty() and os.environ.get("TERM", "") != "dumb"


@contextmanager
def _rich_bar(title: str, total: int | None, start: int) -> Iterator[Callable[..., None]]:
    from rich.progress import BarColumn, Progress, TextColumn

    # Words first, the bar takes what is left: on 80 columns no number is cut.
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=max(6, min(40, shutil.get_terminal_size().columns - 68))),
        TextColumn("{task.fields[count]}  {task.fields[note]}{task.fields[rate]}", markup=False),
    )
    log = _plain(title, total, start, output.note)
    clock = _Rate()
    with Progress(*columns, console=output.console(sys.stderr), transient=False) as progress:
        task = progress.add_task(title, total=total, completed=start, note="", rate="", count=_count(start, total))
        at = start

        def step(count: int = 1, note: str = "") -> None:
            nonlocal at
            at += count
            rate = clock.after(count)
            text = f"{output.printable(note)}  " if note else ""
            shown = f"{rate:.2f}/s{_left(at, total, rate)}" if rate else ""
            progress.update(task, advance=count, note=text, rate=shown, count=_count(at, total))
            log(count, note=note)

        yield step


def _plain(title: str, total: int | None, start: int, tell: Callable[[str], None]) -> Callable[..., None]:
    begun = printed = time.monotonic()
    clock = _Rate()
    at = start

    def step(count: int = 1, note: str = "") -> None:
        nonlocal at, printed
        at += count
        rate = clock.after(count)
        now = time.monotonic()
        if now - printed < PLAIN_EVERY and at != total:
            return
        if at == total and now - begun < 2:
            return
        printed = now
        parts = [f"{title} {_count(at, total)}", note, f"{rate:.2f}/s{_left(at, total, rate)}" if rate else ""]
        tell("  ".join(part for part in parts if part))

    return step


class _Rate:
    """Steps per second since the first one, or since the clock was started again."""

    def __init__(self) -> None:
        self._begun = time.monotonic()
        self._done = 0

    def after(self, count: int) -> float:
        """Return the rate after `count` more steps; 0 where there were none yet."""
        if count == 0:
            self._begun, self._done = time.monotonic(), 0
        self._done += count
        return self._done / max(time.monotonic() - self._begun, 1e-9)


def _count(at: int, total: int | None) -> str:
    return f"{at:>{len(str(total))}}/{total}" if total else str(at)


def _left(at: int, total: int | None, rate: float) -> str:
    return f"  eta {_clock((total - at) / rate)}" if total and rate > 0 and at < total else ""


def _four(value: float) -> str:
    """Return a number in a width that hardly changes from step to step."""
    return f"{value:.3f}" if 0.01 <= abs(value) < 100 else f"{value:.3g}"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
