"""The stages of the motion predictor's training: suggest them, find faults in a user's, and values at an epoch."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from motionkit_predictor.training.settings import GROUPS, TrainMplSettings

_STAGES = ("stage1_teacher", "stage2_mixed", "stage3_freerun")
_SHARES = (0.3, 0.4, 0.3)
_FREERUN = (0.0, 0.35 * 0.5, 0.65 * 0.5)
_HORIZON = (0.12, 0.18, 0.24)  # frames of a free run as parts of the median clip

FULL_POSTURE = 0.35
"""Weight of the losses of posture in the last stage."""

FULL_LATENT = 0.3
"""Full weight of latent_consistency; the three stages have 0.1, 0.4 and 0.8 of it."""

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

STAGE_COLUMNS = (
    "stage", "epochs", "freerun_weight", "freerun_horizon", "w_latent_consistency", "w_fk_pos, w_rot_local",
    "w_limb_geo",
)  # fmt: skip

_END = 0.65  # end of teacher forcing by default, as a share of the epochs
_RAMP = 0.6  # end of the ramps of free runs by default, as a share of the epochs


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
    full = [length * part for part in _HORIZON]
    shrink = min(1.0, min(_LONGEST_HORIZON * fps, window - 1) / full[-1])
    horizons = [max(1, round(frames * shrink + 1e-9)) for frames in full]
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
        f"{', '.join(f'{frames:.0f}' for frames in full)} frames"
    )
    if shrink < 1.0:
        reason += (
            f", shortened to {', '.join(map(str, horizons))}: at most {_LONGEST_HORIZON:g} s and less than seq_len, "
            "since longer roll-outs made every horizon worse"
        )
    return stages, reason + "."


def stage_rows(schedule: Sequence[Mapping[str, Any]]) -> list[tuple[object, ...]]:
    """Return a suggested schedule as the rows of a table, under `STAGE_COLUMNS`."""
    rows: list[tuple[object, ...]] = []
    for stage in schedule:
        trainer, groups = stage["trainer"], stage["loss_groups"]
        values = (trainer[key] for key in ("freerun_weight", "freerun_horizon", "w_latent_consistency"))
        epochs = f"{stage['range'][0]} to {stage['range'][1]}"
        rows.append((stage["label"], epochs, *values, groups["core"]["w_fk_pos"], groups["aux"]["w_limb_geo"]))
    return rows


def schedule_problems(schedule: Sequence[Mapping[str, Any]], epochs: int) -> tuple[str, ...]:
    """Return the faults of a stage schedule, one sentence each.

    Stages follow each other without gap from epoch 1 to the last; the weight and the horizon of free runs never go
    down, the weight ends at 0.3 or more and never rises by more than `LARGEST_STEP` at once.

    Args:
        schedule: Stages with ``range``, ``label`` and ``trainer``.
        epochs: Epochs of the whole training.
    """
    problems: list[str] = []
    expected, weight, horizon = 1, 0.0, 0
    for number, stage in enumerate(schedule, start=1):
        label = f"stage {number}"
        try:
            label = str(stage.get("label", label))
            first, last = (int(epoch) for epoch in stage["range"])
            trainer = stage["trainer"]
            next_weight, next_horizon = float(trainer["freerun_weight"]), int(trainer["freerun_horizon"])
        except (AttributeError, KeyError, OverflowError, TypeError, ValueError):
            problems.append(f"{label} lacks range, trainer.freerun_weight or trainer.freerun_horizon.")
            continue
        if first != expected:
            problems.append(f"{label} begins with epoch {first}; epoch {expected} is next.")
        if last < first:
            problems.append(f"{label} ends with epoch {last}, before it begins.")
        if next_weight < weight:
            problems.append(f"freerun_weight goes down from {weight:g} to {next_weight:g} in {label}.")
        if next_weight - weight > LARGEST_STEP + 1e-9:
            problems.append(
                f"freerun_weight rises by {next_weight - weight:.3g} in {label}; {LARGEST_STEP} is the most."
            )
        if next_horizon < horizon:
            problems.append(f"freerun_horizon goes down from {horizon} to {next_horizon} in {label}.")
        expected, weight, horizon = last + 1, next_weight, next_horizon
    if schedule and expected != epochs + 1:
        problems.append(f"the stages end with epoch {expected - 1}; the training has {epochs}.")
    if schedule and weight < LAST_WEIGHT:
        problems.append(f"freerun_weight ends at {weight:g}; {LAST_WEIGHT} or more makes long runs stable.")
    return tuple(problems)


@dataclass(frozen=True)
class Values:
    """Scheduled values at one point of the training."""

    teacher: float  # share of frames that are predicted from the true frame before
    freerun_weight: float  # weight of the loss of free runs
    freerun_horizon: int  # frames of a free run
    weights: Mapping[str, float]  # weight of each loss
    rate: float  # learning rate, as a share of the settings'


def values_at(settings: TrainMplSettings, done: float) -> Values:
    """Return the values after `done` epochs, a whole number at the beginning of an epoch.

    Without stages weight and horizon of free runs rise linearly over `freerun.ramp_epochs`; a stage sets them.
    """
    epoch = min(settings.run.epochs, math.floor(done + 1e-9) + 1)
    stage = next((stage for stage in settings.stages if stage.range[0] <= epoch <= stage.range[1]), None)
    trainer = {} if stage is None else stage.trainer
    run, free = settings.run.epochs, settings.freerun
    rise = 1.0 if stage is not None else min(1.0, done / (free.ramp_epochs or max(1e-9, _RAMP * run)))
    weight = trainer.get("freerun_weight", free.weight) * (free.first_weight + (1 - free.first_weight) * rise)
    horizon = trainer.get("freerun_horizon", free.horizon)
    if stage is None:
        first = min(free.first_horizon, free.horizon)
        horizon = first + (free.horizon - first) * rise
    weights = {name: float(getattr(settings.loss, name)) for name in GROUPS if name != "freerun"}
    if "w_latent_consistency" in trainer:
        weights["latent_consistency"] = trainer["w_latent_consistency"]
    if stage is not None:
        for group in stage.loss_groups.values():
            weights |= {name.removeprefix("w_"): value for name, value in group.items()}
    rate = trainer.get("lr", settings.optim.learning_rate) / settings.optim.learning_rate
    low, high = trainer.get("tf_min", settings.teacher.min), trainer.get("tf_max", settings.teacher.max)
    return Values(teacher_share(settings, done, low, high), weight, max(1, round(horizon)), weights, rate)


def teacher_share(settings: TrainMplSettings, done: float, low: float, high: float) -> float:
    """Return the share of teacher forcing after `done` epochs, between `low` and `high`.

    ``epoch_linear`` goes down by whole epochs, ``step_linear`` with every update. ``inverse_sigmoid`` is
    ``k / (k + exp(t / k))`` of Bengio et al. (NeurIPS 2015), scaled so that it falls from `high` to near `low` at the
    end epoch. ``constant`` stays at `high`.
    """
    teacher = settings.teacher
    if teacher.mode == "constant" or high <= low:
        return high
    first = teacher.start_epoch - 1
    end = _end_epoch(settings) - 1
    at = math.floor(done + 1e-9) if teacher.mode == "epoch_linear" else done
    part = min(1.0, max(0.0, (at - first) / (end - first))) if end > first else float(at >= end)
    if teacher.mode == "inverse_sigmoid":
        # k = 1 and t from -6 to 6: 1 / (1 + exp(t)), stretched to reach both ends.
        ends = 1 / (1 + math.exp(-6.0)), 1 / (1 + math.exp(6.0))
        part = (ends[0] - 1 / (1 + math.exp(12 * part - 6))) / (ends[0] - ends[1])
    return high - (high - low) * part


def too_few_epochs(settings: TrainMplSettings) -> bool:
    """Whether there is no teacher forcing only because there are so few epochs."""
    teacher = settings.teacher
    open_end = teacher.mode == "epoch_linear" and not teacher.end_epoch
    return open_end and teacher.max > 0 and _end_epoch(settings) <= teacher.start_epoch


def _end_epoch(settings: TrainMplSettings) -> int:
    return settings.teacher.end_epoch or max(1, round(_END * settings.run.epochs))
