"""The stages of the motion predictor's training: suggest them, and find faults in a user's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_STAGES = ("stage1_teacher", "stage2_mixed", "stage3_freerun")
_SHARES = (0.3, 0.4, 0.3)
_FREERUN = (0.0, 0.35 * 0.5, 0.65 * 0.5)
_HORIZON = (0.12, 0.18, 0.24)
"""Frames of a free run as parts of the median clip."""

FULL_POSTURE = 0.35
"""Weight of the losses of posture in the last stage."""

FULL_LATENT = 0.3
"""The weight of which the consistency of the latent takes 0.1, 0.4 and 0.8 in the three stages."""

POSTURE = tuple(part * FULL_POSTURE for part in (0.2, 0.65, 1.0))
LATENT = tuple(part * FULL_LATENT for part in (0.1, 0.4, 0.8))
_LIMB = (0.0, 0.05, 0.08)

_LONGEST_HORIZON = 0.5
"""Seconds. On CMU's benchmark, training on roll-outs of a second was worse at every horizon than on half a second."""

LAST_WEIGHT = 0.3
LARGEST_STEP = 0.2
"""Largest rise of the free-run weight that is not warned of.

The guide asks for three things that exclude each other: three stages that begin at 0, a last weight above 0.3, and
rises below 0.15; two of those end below 0.3. Its own example, which `_FREERUN` follows, goes 0, 0.175, 0.325 and so
keeps the first two. A sudden change is what does harm, so the limit lies just above that example's rise.
"""


def suggest_schedule(epochs: int, length: float, window: int, fps: float) -> tuple[list[dict[str, Any]], str]:
    """Return three stages, fewer for fewer epochs, and the reason for their lengths and horizons.

    Args:
        epochs: Epochs of the whole training.
        length: Median length of a clip in frames.
        window: Frames of a training window; free runs stay within it.
        fps: Frames per second.

    Example:
        >>> stages, reason = suggest_schedule(epochs=30, length=75, window=60, fps=60.0)
        >>> [stage["range"] for stage in stages]
        [[1, 9], [10, 21], [22, 30]]
    """
    wanted = [length * part for part in _HORIZON]
    shrink = min(1.0, min(_LONGEST_HORIZON * fps, window - 1) / wanted[-1])
    horizons = [max(1, round(frames * shrink + 1e-9)) for frames in wanted]
    number = min(epochs, 3)
    # With fewer than three epochs there is one stage for each.
    ends = [round(epochs * sum(_SHARES[: stage + 1])) if number == 3 else stage + 1 for stage in range(number)]
    starts = [1, *(end + 1 for end in ends[:-1])]
    stages: list[dict[str, Any]] = [
        {
            "range": [starts[stage], ends[stage]],
            "label": _STAGES[stage],
            "trainer": {
                "freerun_weight": round(_FREERUN[stage], 4),
                "freerun_horizon": horizons[stage],
                "w_latent_consistency": round(LATENT[stage], 4),
            },
            "loss_groups": {
                "core": {"w_fk_pos": round(POSTURE[stage], 4), "w_rot_local": round(POSTURE[stage], 4)},
                "aux": {"w_limb_geo": _LIMB[stage]},
            },
        }
        for stage in range(number)
    ]
    reason = (
        f"30, 40 and 30 % of {epochs} epochs; free runs of 0.12, 0.18, 0.24 of the median {length:g} frames are "
        f"{', '.join(f'{frames:.0f}' for frames in wanted)} frames"
    )
    if shrink < 1.0:
        reason += (
            f", shortened to {', '.join(map(str, horizons))}: at most {_LONGEST_HORIZON:g} s and less than seq_len, "
            "since longer roll-outs made every horizon worse"
        )
    return stages, reason + "."


STAGE_COLUMNS = (
    "stage", "epochs", "freerun_weight", "freerun_horizon", "w_latent_consistency", "w_fk_pos, w_rot_local",
    "w_limb_geo",
)  # fmt: skip


def stage_rows(schedule: Sequence[Mapping[str, Any]]) -> list[tuple[object, ...]]:
    """Return a suggested schedule as the rows of a table, under `STAGE_COLUMNS`."""
    return [
        (
            stage["label"],
            f"{stage['range'][0]} to {stage['range'][1]}",
            stage["trainer"]["freerun_weight"],
            stage["trainer"]["freerun_horizon"],
            stage["trainer"]["w_latent_consistency"],
            stage["loss_groups"]["core"]["w_fk_pos"],
            stage["loss_groups"]["aux"]["w_limb_geo"],
        )
        for stage in schedule
    ]


def schedule_problems(schedule: Sequence[Mapping[str, Any]], epochs: int) -> tuple[str, ...]:
    """Return the faults of a stage schedule, one sentence each.

    Stages follow each other without gap from epoch 1 to the last; the weight and the horizon of free runs never go
    down, the weight ends at 0.3 or more and never rises by more than `LARGEST_STEP` at once.

    Args:
        schedule: Stages with ``range``, ``label`` and ``trainer``.
        epochs: Epochs of the whole training.
    """
    found: list[str] = []
    expected, weight, horizon = 1, 0.0, 0
    for number, stage in enumerate(schedule, start=1):
        label = f"stage {number}"
        try:
            label = str(stage.get("label", label))
            first, last = (int(epoch) for epoch in stage["range"])
            trainer = stage["trainer"]
            next_weight, next_horizon = float(trainer["freerun_weight"]), int(trainer["freerun_horizon"])
        except (AttributeError, KeyError, OverflowError, TypeError, ValueError):
            found.append(f"{label} lacks range, trainer.freerun_weight or trainer.freerun_horizon.")
            continue
        if first != expected:
            found.append(f"{label} begins with epoch {first}; epoch {expected} is next.")
        if last < first:
            found.append(f"{label} ends with epoch {last}, before it begins.")
        if next_weight < weight:
            found.append(f"freerun_weight goes down from {weight:g} to {next_weight:g} in {label}.")
        if next_weight - weight > LARGEST_STEP + 1e-9:
            found.append(f"freerun_weight rises by {next_weight - weight:.3g} in {label}; {LARGEST_STEP} is the most.")
        if next_horizon < horizon:
            found.append(f"freerun_horizon goes down from {horizon} to {next_horizon} in {label}.")
        expected, weight, horizon = last + 1, next_weight, next_horizon
    if schedule and expected != epochs + 1:
        found.append(f"the stages end with epoch {expected - 1}; the training has {epochs}.")
    if schedule and weight < LAST_WEIGHT:
        found.append(f"freerun_weight ends at {weight:g}; {LAST_WEIGHT} or more makes long runs stable.")
    return tuple(found)
