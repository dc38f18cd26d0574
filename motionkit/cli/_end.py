"""What a trainer's command prints when its run has ended: result, reward curve, page, commands to type next."""

from __future__ import annotations

from motionkit.cli import output
from motionkit.page.html import duration
from motionkit.runs import logging_into, next_commands, peek
from motionkit.tracking import binned, headline, other_results, read_metrics, results, series, sparkline
from motionkit.training.execute import Outcome

_BLOCKS = 24
_CURVES = {"reward/mean": "reward", "loss/total": "loss"}


def show_end(outcome: Outcome, *, as_json: bool) -> None:
    """Print the tables on stdout, the rest on stderr, and all of it into log.txt."""
    with logging_into(outcome.directory):
        output.tables(outcome.table, logged=True)
        if not as_json:
            output.tables(outcome.table)
            if outcome.status == "done":
                _tell(outcome)
        output.say(f"{outcome.status}: {outcome.directory} ({_time(outcome)})")
        if as_json:
            return
        if outcome.page is not None:
            output.say(f"page: {outcome.page}")
        if outcome.status == "done":
            for line in output.as_next(next_commands(peek(outcome.directory))):
                output.say(line, whole=True)


def _tell(outcome: Outcome) -> None:
    if sentence := headline(results(outcome.document.get("heldout")), other_results(outcome.document)):
        output.say(sentence)
    lines = list(read_metrics(outcome.directory / "metrics.jsonl"))
    for name, label in _CURVES.items():
        points = series(lines, name)
        if len(points) >= 2:
            means = binned(points, _BLOCKS)
            first, *_, last = (value for _, value in means)
            each = round(len(points) / len(means))
            what = f"in training, per {each} steps" if each > 1 else "in training"
            output.say(f"{label} {first:.3f} {sparkline([value for _, value in means])} {last:.3f}  {what}")
            return


def _time(outcome: Outcome) -> str:
    seconds = outcome.document.get("seconds")
    steps = outcome.document.get("steps")
    return f"{steps} steps, {duration(float(seconds))}" if isinstance(seconds, (int, float)) else f"{steps} steps"
