"""The values that hold at a point of the training: settings, stages, ramps and teacher forcing. Imports no torch."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from motionkit.trainers.train_mpl._settings import GROUPS, TrainMplSettings
from motionkit.trainers.train_mpl._stages import Stage

_END = 0.65
"""Where teacher forcing ends by default, as a part of the epochs."""

_RAMP = 0.6
"""Where the ramps of free runs end by default, as a part of the epochs."""


@dataclass(frozen=True)
class Values:
    """What holds at one point.

    Attributes:
        teacher: Share of frames that are predicted from the true frame before.
        freerun_weight: Weight of the loss of free runs.
        freerun_horizon: Frames of a free run.
        weights: Weight of each loss.
        rate: Learning rate, as a share of the settings' own.
    """

    teacher: float
    freerun_weight: float
    freerun_horizon: int
    weights: Mapping[str, float]
    rate: float


def values_at(settings: TrainMplSettings, done: float) -> Values:
    """Return the values after `done` epochs, a whole number at the beginning of an epoch.

    Without stages weight and horizon of free runs rise evenly over `freerun.ramp_epochs`. In a stage they are the
    stage's own.
    """
    stage = _stage(settings, done)
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
    """Whether there is no teacher forcing only because the epochs are so few; nobody asked for none."""
    teacher = settings.teacher
    open_end = teacher.mode == "epoch_linear" and not teacher.end_epoch
    return open_end and teacher.max > 0 and _end_epoch(settings) <= teacher.start_epoch


def _end_epoch(settings: TrainMplSettings) -> int:
    return settings.teacher.end_epoch or max(1, round(_END * settings.run.epochs))


def _stage(settings: TrainMplSettings, done: float) -> Stage | None:
    epoch = min(settings.run.epochs, math.floor(done + 1e-9) + 1)
    return next((stage for stage in settings.stages if stage.range[0] <= epoch <= stage.range[1]), None)
