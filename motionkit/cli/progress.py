"""Progress on stderr: a bar on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from motionkit.cli import output

PLAIN_EVERY = 15.0
SHOWN = ("loss/total", "reward/mean")


@contextmanager
def bar(title: str, total: int | None = None, *, start: int = 0) -> Iterator[Callable[..., None]]:
    """Show progress while the block runs.

    Args:
        title: What is going on.
        total: Number of steps, when it is known.
        start: Steps done before.

    Yields:
        ``step(count=1, note="")``, to be called after each step.
    """
    if is_terminal():
        with _rich_bar(title, total, start) as step:
            yield step
    else:
        yield _plain(title, total, start)


@contextmanager
def follow(run: Any, title: str) -> Iterator[None]:
    """Show the progress of a run: step, loss, reward, steps per second, time left."""
    with bar(title, run.total_steps, start=run.start_step) as step:
        last = run.start_step

        def listen(at: int, metrics: Mapping[str, float]) -> None:
            nonlocal last
            step(at - last, note="  ".join(f"{key} {metrics[key]:.4g}" for key in SHOWN if key in metrics))
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
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TextColumn("{task.fields[note]}", markup=False),
        TextColumn("{task.fields[rate]}"),
        TimeElapsedColumn(),
        TextColumn("eta"),
        TimeRemainingColumn(),
    )
    begun = time.monotonic()
    with Progress(*columns, console=output.console(sys.stderr), transient=False) as progress:
        task = progress.add_task(title, total=total, completed=start, note="", rate="")
        done = 0

        def step(count: int = 1, note: str = "") -> None:
            nonlocal done
            done += count
            rate = done / max(time.monotonic() - begun, 1e-9)
            progress.update(task, advance=count, note=output.printable(note), rate=f"{rate:.2f}/s")

        yield step


def _plain(title: str, total: int | None, start: int) -> Callable[..., None]:
    begun = printed = time.monotonic()
    done = 0

    def step(count: int = 1, note: str = "") -> None:
        nonlocal done, printed
        done += count
        now = time.monotonic()
        at = start + done
        if now - printed < PLAIN_EVERY and at != total:
            return
        if at == total and now - begun < 2:
            return
        printed = now
        rate = done / max(now - begun, 1e-9)
        left = f"  eta {_clock((total - at) / rate)}" if total and rate > 0 else ""
        of = f"{at}/{total}" if total else str(at)
        output.say(f"{title} {of}  {note}  {rate:.2f}/s{left}".replace("    ", "  "))

    return step


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
