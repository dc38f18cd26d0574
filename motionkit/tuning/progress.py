"""What is said while a search runs: a line for each trial that ends, and how far the running ones are."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from motionkit.page.wording import duration
from motionkit.runs import Run
from motionkit.tracking import last_metrics
from motionkit.tuning.trials import Trials

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

_EVERY = 15.0
"""Seconds without output after which the progress of running trials is printed."""


class Progress:
    """Reports ended trials and the progress of running ones to the user, and the values to metrics.jsonl.

    Args:
        trials: The trials.
        run: The run of the search.
        say: Called with each line.
        steps: Steps of a trial; 0 if unknown.
    """

    def __init__(self, trials: Trials, run: Run, say: Callable[[str], None], steps: int) -> None:
        self._trials, self._run, self._say, self._steps = trials, run, say, steps
        self._spoken = self._begun = time.monotonic()
        self._done = 0
        ended = trials.ended
        self._known = {trial.number for trial in ended}
        for count, trial in enumerate(ended, start=1):
            self._log(count, trial)

    def look(self) -> bool:
        """Report trials that ended since the last call; returns whether there are any."""
        ended = self._trials.ended
        new = [trial for trial in ended if trial.number not in self._known]
        for trial in new:
            self._known.add(trial.number)
            self._done += 1
            self._spoken = time.monotonic()
            self._log(len(ended), trial)
            self._say(self._line(trial, len(ended)))
        return bool(new)

    def tell_running(self) -> None:
        """Report the progress of trials that run on this disk, if nothing was printed for `_EVERY` seconds."""
        now = time.monotonic()
        if now - self._spoken < _EVERY:
            return
        self._spoken = now
        parts, fresh = [], 0
        for trial in self._trials.running:
            at = last_metrics(self._trials.place_of(trial) / "metrics.jsonl").get("step", 0)
            fresh += at if isinstance(at, int) else 0
            parts.append(f"{self._trials.name_of(trial)}: step {at}" + (f" of {self._steps}" if self._steps else ""))
        if not parts:
            return
        left = ""
        if self._steps and fresh:
            done = self._done + fresh / self._steps
            rest = self._trials.total - len(self._trials.ended) - fresh / self._steps
            left = f"  eta {duration(max(0.0, rest) * (now - self._begun) / done)}"
        self._say(f"{', '.join(parts)}{left}")

    def _line(self, trial: FrozenTrial, done: int) -> str:
        total = self._trials.total
        value = f"{trial.value:.4f}" if trial.state.name == "COMPLETE" and trial.value is not None else "no value"
        note = str(trial.user_attrs.get("reason", ""))
        if (best := self._trials.best) is not None:
            note = f"{note}  best {best.value:.4f} (trial {best.number})".lstrip()
        parts = [f"{done:>{len(str(total))}}/{total}", f"{self._trials.name_of(trial)}: {value}"]
        if note:
            parts.append(note)
        if trial.duration is not None:
            parts.append(duration(trial.duration.total_seconds()))
        if done < total:
            parts.append(f"eta {duration((total - done) * (time.monotonic() - self._begun) / self._done)}")
        return "  ".join(parts)

    def _log(self, count: int, trial: FrozenTrial) -> None:
        best = self._trials.best
        if best is not None and best.value is not None and trial.state.name == "COMPLETE" and trial.value is not None:
            self._run.log(count, {"tune/value": trial.value, "tune/best": best.value})
