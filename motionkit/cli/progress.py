"""Progress on stderr: a bar on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import math
import os
import shutil
import sys
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from motionkit.cli import output

if TYPE_CHECKING:
    from motionkit.training.base import Figure

PLAIN_EVERY = 15.0
SMOOTH = 20
"""Number of steps over which a shown number is averaged, as a single batch is noisy."""

LONG = 60.0
"""Seconds above which a command prints an estimate of its duration at its start."""

_SURE, _MANY = 4.0, 8
"""Least time and number of steps after the first for an estimate of their pace; fewer steps need three times as many
seconds. The first step gives no estimate: it includes the start-up."""

_LAPS = 200
"""Number of last steps for the pace."""


@contextmanager
def bar(
    title: str, total: int | None = None, *, start: int = 0, slow_start: int = 0, sizes: Sequence[float] = ()
) -> Iterator[Callable[..., None]]:
    """Show progress while the block runs, and print an estimate of its duration if that is over a minute.

    Args:
        title: Name of the work.
        total: Number of steps, if known.
        start: Steps done before.
        slow_start: Number of first steps that include a start-up, such as that of worker processes, and are left out of
            the rate.
        sizes: Work of each step in any unit: the time that is left is told by it. Default: all alike.

    Yields:
        ``step(count=1, note="", total=None)``, to be called after each step; a count of 0 restarts the clock of the
        rate, and a total replaces the one before.
    """
    if is_terminal():
        with _rich_bar(title, total, start, _Rate(slow_start, sizes)) as step:
            yield step
    else:
        yield _plain(title, total, start, _Rate(slow_start, sizes), output.say)


def about(seconds: float) -> str:
    """Return an estimated duration in round numbers.

    Example:
        >>> about(74), about(290), about(9000)
        ('70 s', '5 min', '2.5 h')
    """
    if seconds < 90:
        return f"{round(seconds, -1):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


@contextmanager
def follow(run: Any, title: str, figures: Sequence[Figure]) -> Iterator[None]:
    """Show the progress of a run: step, the trainer's figures, steps per second, time left.

    Args:
        run: The open run.
        title: The command.
        figures: The metrics to show; see `motionkit.training.base.Figure`.
    """
    with bar(title, run.total_steps, start=run.start_step) as step:
        last = run.start_step
        seen: dict[str, deque[float]] = {figure.label: deque(maxlen=SMOOTH) for figure in figures}

        def listen(at: int, metrics: Mapping[str, float]) -> None:
            nonlocal last
            for figure in figures:
                values = [metrics[name] for name in figure.metrics if math.isfinite(metrics.get(name, math.nan))]
                if values:
                    if not figure.smooth:
                        seen[figure.label].clear()
                    seen[figure.label].append(sum(values) / len(values))
            present = [figure for figure in figures if seen[figure.label]]
            covered = {label for figure in present for label in figure.instead_of}
            shown = [_shown(figure, seen[figure.label]) for figure in present if figure.label not in covered]
            step(at - last, note="  ".join(shown) if at else "", total=run.total_steps)
            last = at

        def begin() -> None:
            step(0, total=run.total_steps)

        run.listeners.append(listen)
        run.beginning.append(begin)
        try:
            yield
        finally:
            run.listeners.remove(listen)
            run.beginning.remove(begin)


def _shown(figure: Figure, values: Collection[float]) -> str:
    value = sum(values) / len(values)
    if figure.change:
        return f"{figure.label} {round(value, 3) + 0.0:+.3f}"
    return f"{figure.label} {f'{value:.0f}' if figure.count else _four(value)}"


def is_terminal() -> bool:
    """Whether stderr is a terminal that can redraw a line."""
    return sys.stderr.isatty() and os.environ.get("TERM", "") != "dumb"


@contextmanager
def _rich_bar(title: str, total: int | None, start: int, clock: _Rate) -> Iterator[Callable[..., None]]:
    from rich.progress import BarColumn, Progress, TextColumn

    # The bar takes the width that the texts leave: on 80 columns no number is cut.
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=max(6, min(40, shutil.get_terminal_size().columns - 68))),
        TextColumn("{task.fields[count]}  {task.fields[note]}{task.fields[rate]}", markup=False),
    )
    log = _plain(title, total, start, clock.copy(), output.note)
    estimate = _Estimate(title)
    with Progress(*columns, console=output.console(sys.stderr), transient=False) as progress:
        task = progress.add_task(title, total=total, completed=start, note="", rate="", count=_count(start, total))
        at, all_steps = start, total

        def step(count: int = 1, note: str = "", total: int | None = None) -> None:
            nonlocal at, all_steps
            at, all_steps = at + count, total or all_steps
            rate = clock.after(count)
            text = f"{output.printable(note)}  " if note else ""
            shown = f"{rate:.2f}/s{_left(at, all_steps, clock)}" if rate else ""
            estimate.look(at, all_steps, clock)
            progress.update(task, total=all_steps, advance=count, note=text, rate=shown, count=_count(at, all_steps))
            log(count, note=note, total=total)

        yield step


def _plain(title: str, total: int | None, start: int, clock: _Rate, tell: Callable[[str], None]) -> Callable[..., None]:
    begun = printed = time.monotonic()
    # On a terminal the bar prints the estimate; this is its copy in the log.
    estimate = _Estimate(title) if tell is output.say else None
    at, all_steps = start, total

    def step(count: int = 1, note: str = "", total: int | None = None) -> None:
        nonlocal at, printed, all_steps
        at, all_steps = at + count, total or all_steps
        rate = clock.after(count)
        if estimate is not None:
            estimate.look(at, all_steps, clock)
        now = time.monotonic()
        ended = count > 0 and at == all_steps
        if now - printed < PLAIN_EVERY and not ended:
            return
        if ended and now - begun < 2:
            return
        printed = now
        rate = clock.overall() if ended else rate
        speed = f"{rate:.2f}/s{_left(at, all_steps, clock)}" if rate else ""
        parts = [f"{title} {_count(at, all_steps)}", note, speed]
        tell("  ".join(part for part in parts if part))

    return step


class _Estimate:
    """Prints an estimate of a command's duration once the pace is known."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._done = False

    def look(self, at: int, total: int | None, clock: _Rate) -> None:
        """Print the estimate once it is known and long."""
        if self._done or not total or (pace := clock.pace()) is None:
            return
        if (left := clock.work(at, total) * pace) > LONG:
            self._done = True
            output.say(f"{self._title}: about {about(left)}")


class _Rate:
    """Steps per second since the first one, or since the clock was restarted."""

    def __init__(self, slow_start: int = 0, sizes: Sequence[float] = ()) -> None:
        self._sizes, self._before = sizes, [0.0, *accumulate(sizes)]
        self._at = 0  # steps of all, those at which the clock was restarted included
        self._started = self._begun = self._first = self._last = time.monotonic()
        self._done = self._all = 0
        self._laps: deque[tuple[float, float]] = deque(maxlen=_LAPS)  # seconds and work
        self._slow_start, self._skipped = slow_start, 0

    def copy(self) -> _Rate:
        """Return a clock that begins now."""
        return _Rate(self._slow_start, self._sizes)

    def work(self, start: int, end: int) -> float:
        """Return the work of some of the steps: their number, or the sum of their sizes."""
        if not self._sizes:
            return end - start
        return self._before[min(end, len(self._sizes))] - self._before[min(start, len(self._sizes))]

    def after(self, count: int) -> float:
        """Return the rate after `count` more steps; 0 before the second one."""
        now = time.monotonic()
        lap, self._last = now - self._last, now
        work, self._at = self.work(self._at, self._at + count), self._at + count
        self._all += count
        if count == 0:
            self._started, self._all = now, 0
        starting = self._skipped < self._slow_start
        if count == 0 or starting:
            self._begun, self._done = now, 0
            self._laps.clear()
        if count and starting:
            self._skipped, self._first = self._skipped + count, now
            return 0.0
        if count and (self._done or self._slow_start):
            self._laps.append((lap, work))
        elif count:
            self._first = now
        self._done += count
        return self._done / max(now - self._begun, 1e-9) if self._laps else 0.0

    def overall(self) -> float:
        """Return the rate of all steps, their start-up included."""
        return self._all / max(self._last - self._started, 1e-9)

    def lap(self) -> float | None:
        """Return the mean seconds of the last steps but the first, per unit of work; None before the second one."""
        if not self._laps:
            return None
        return sum(seconds for seconds, _ in self._laps) / sum(work for _, work in self._laps)

    def pace(self) -> float | None:
        """Return the current seconds per unit of work; None while there are too few steps.

        The mean of the later half of the steps after the first: the first ones are often slow, on a GPU several of
        them. The slowest of four or more is left out, as it may include a measurement.
        """
        if not self._laps or self._last - self._first < (_SURE if len(self._laps) >= _MANY else 3 * _SURE):
            return None
        laps = list(self._laps)[len(self._laps) // 2 :]
        if len(laps) >= 4:
            laps.remove(max(laps, key=lambda timed: timed[0] / timed[1]))
        return sum(seconds for seconds, _ in laps) / sum(work for _, work in laps)


def _count(at: int, total: int | None) -> str:
    return f"{at:>{len(str(total))}}/{total}" if total else str(at)


def _left(at: int, total: int | None, clock: _Rate) -> str:
    pace = clock.pace() or clock.lap()
    known = total and at < total and pace is not None
    return f"  eta {_clock(clock.work(at, total or 0) * (pace or 0.0))}" if known else ""


def _four(value: float) -> str:
    """Return a number with a nearly constant width."""
    return f"{value:.3f}" if 0.01 <= abs(value) < 100 else f"{value:.3g}"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
