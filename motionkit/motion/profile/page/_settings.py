"""Suggested settings with their reasons."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from motionkit.motion.profile._edit_json import dump
from motionkit.motion.profile._schedule import LAST_WEIGHT, schedule_problems
from motionkit.motion.profile._suggest import Suggestion
from motionkit.motion.profile.page._elements import details, note, table

_COLUMNS = (
    "stage", "epochs", "freerun_weight", "freerun_horizon", "w_latent_consistency", "w_fk_pos, w_rot_local",
    "w_limb_geo",
)  # fmt: skip


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
    rows = [
        (
            stage["label"],
            f"{stage['range'][0]} to {stage['range'][1]}",
            stage["trainer"]["freerun_weight"],
            stage["trainer"]["freerun_horizon"],
            stage["trainer"]["w_latent_consistency"],
            stage["loss_groups"]["core"]["w_fk_pos"],
            stage["loss_groups"]["aux"]["w_limb_geo"],
        )
        for stage in schedule.value
    ]
    problems = schedule_problems(schedule.value, epochs)
    sound = f"Free-run weights only rise, and end above {LAST_WEIGHT}."
    return (
        f"<h3>{escape(schedule.key)}</h3>"
        + table(_COLUMNS, rows, numbers=range(1, len(_COLUMNS)))
        + note(f"{schedule.reason} {' '.join(problems) or sound}")
    )
