"""What a run of `motionkit ppo` comes to, in a table and a sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from motionkit.trainers.ppo._alarm import SuccessAlarm


def success_table(rows: Sequence[tuple[str, Mapping[str, Any]]]) -> dict[str, Any]:
    """Return the table of rates before and after."""
    count = rows[0][1]["n"]
    lines = [
        [name, f"{one['before']:.1%}", f"{one['after']:.1%}", " to ".join(f"{end:.1%}" for end in one["after_ci95"])]
        for name, one in rows
    ]
    return {
        "title": f"Episodes with success, {count} deterministic episodes from starts not used in training",
        "columns": ["", "before", "after", "95 % interval"],
        "rows": lines,
        "numbers": [1, 2],
    }


def verdict(success: Mapping[str, Any], alarm: SuccessAlarm) -> str:
    """Return the run's result in a sentence."""
    low, _ = success["ci95"]
    before, after = success["before"], success["after"]
    if low > 0:
        said = f"the policy learned the task: true success rose from {before:.0%} to {after:.0%}."
    elif after < before:
        said = f"the policy got worse: true success fell from {before:.0%} to {after:.0%}."
    else:
        said = f"true success went from {before:.0%} to {after:.0%}, which is no more than chance."
    if alarm.fired_at:
        true, predicted = alarm.at
        said += f" The alarm fired in step {alarm.fired_at}: {true:.0%} true, {predicted:.0%} predicted success."
    return said
