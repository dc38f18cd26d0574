"""Suggested settings with their reasons."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from motionkit.clips.profile._edit_json import dump
from motionkit.clips.profile._schedule import LAST_WEIGHT, STAGE_COLUMNS, schedule_problems, stage_rows
from motionkit.clips.profile._suggest import Suggestion
from motionkit.page.elements import details, note, table


def settings(suggestions: Sequence[Suggestion]) -> str:
    """Return the section; empty without suggestions."""
    if not suggestions:
        return ""
    values = {one.key: one.value for one in suggestions}
    single = [(one.key, one.value, one.reason) for one in suggestions if not isinstance(one.value, list)]
    stages = "".join(_stages(one, int(values["epochs"])) for one in suggestions if isinstance(one.value, list))
    text = f'<div class="card"><pre tabindex="0">{escape(dump(values, ""))}</pre></div>'
    return (
        "<h2>Suggested settings for the motion predictor</h2>"
        + table(("setting", "value", "reason"), single, numbers=(1,), kind="reasons")
        + stages
        + details("as JSON", text)
    )


def _stages(schedule: Suggestion, epochs: int) -> str:
    problems = schedule_problems(schedule.value, epochs)
    sound = f"Free-run weights only rise, and end above {LAST_WEIGHT}."
    return (
        f"<h3>{escape(schedule.key)}</h3>"
        + table(STAGE_COLUMNS, stage_rows(schedule.value), numbers=range(1, len(STAGE_COLUMNS)))
        + note(f"{schedule.reason} {' '.join(problems) or sound}")
    )
