"""What a run of `motionkit ppo` comes to, in a sentence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from motionkit.trainers.ppo._alarm import SuccessAlarm

_LEARNED = 0.5
"""Success from which it is said so."""


def verdict(success: Mapping[str, Any], alarm: SuccessAlarm) -> str:
    """Return the run's result in a sentence."""
    low, _ = success["ci95"]
    before, after = success["before"], success["after"]
    if low > 0:
        head = "the policy learned the task: " if after >= _LEARNED else ""
        said = f"{head}true success rose from {before:.0%} to {after:.0%}."
    elif after < before:
        said = f"the policy got worse: true success fell from {before:.0%} to {after:.0%}."
    else:
        said = f"true success went from {before:.0%} to {after:.0%}, which is no more than chance."
    if alarm.fired_at:
        true, predicted = alarm.at
        said += f" The alarm fired in step {alarm.fired_at}: {true:.0%} true, {predicted:.0%} predicted success."
    return said
