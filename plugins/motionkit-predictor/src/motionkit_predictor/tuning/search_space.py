"""The search space of `motionkit tune --bayes` for the predictor's training: the guide's list, with its limits."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

from pydantic import BaseModel

from motionkit.contracts.search import Range, Search
from motionkit_predictor.training.settings import TrainMplSettings
from motionkit_predictor.training.stages import Stage

_COMMON: Mapping[str, Range] = {
    "optim.learning_rate": Range(1e-4, 4e-3, log=True),
    "optim.weight_decay": Range(1e-4, 0.2, log=True),
    "model.width": Range(128, 512, whole=True, step=64),
    "loss.fk_pos": Range(0.0, 2.0),
    "loss.rot_local": Range(0.0, 1.0),
    "loss.rot_log": Range(0.0, 1.0),
}
"""Searched with and without stages."""

_PLAIN: Mapping[str, Range] = {
    "freerun.weight": Range(0.3, 3.0, log=True),
    "freerun.horizon": Range(5, 30, whole=True),
    "freerun.first_horizon": Range(1, 5, whole=True),
}
"""Searched without stages. Free runs of a second or more made every horizon worse when they were tried."""

_LAST_WEIGHT, _MOST_WEIGHT = 0.3, 0.8
"""Least and largest free-run weight of the last stage."""

_FURTHEST = 30.0  # frames of the last stage's free runs, at most
_STARTER = {
    "train.stride": 120, "train.val_stride": 100, "train.val_every": 3, "train.batch_size": 32, "train.shot_batches": 2,
}  # fmt: skip
"""Trials on the starter's clips: about a window of each, so that fifty of them take minutes."""

_STARTER_EPOCHS = 6
"""Epochs of trials on them, if the settings have none; a whole training takes two, of many more windows."""

_STARTER_DROPOUT = 0.02  # default dropout of train-mpl for all of the starter's clips
_BEFORE_PRUNING = 3  # epochs before a trial may be pruned


def search(settings: BaseModel) -> Search:
    """Return the search space; see `motionkit.contracts.search.Search`.

    With stages the free-run weight and horizon of each stage after the first are searched, in ranges that follow each
    other, so that schedules only rise. Losses that the stages set are searched in the stages. The end of teacher
    forcing is an epoch, so it is searched only if the settings fix the number of epochs: trials may have others.
    """
    assert isinstance(settings, TrainMplSettings)
    space = dict(_COMMON)
    starter = settings.data == ("starter",)
    fixed: dict[str, object] = {}
    short: dict[str, object] = {**_STARTER} if starter else {}
    epochs = settings.run.epochs
    if starter and not epochs:
        short["run.epochs"] = _STARTER_EPOCHS
    if starter and settings.model.dropout is None:
        fixed["model.dropout"] = _STARTER_DROPOUT
    # An unset dropout follows the size of the data, which is not known yet.
    if "model.dropout" in fixed or settings.model.dropout is not None:
        space["model.dropout"] = Range(0.0, 0.5)
    if settings.encoder != "none" and settings.loss.latent_consistency:
        space["loss.latent_consistency"] = Range(0.0, 0.45)
    if settings.teacher.mode == "epoch_linear" and epochs > 1:
        space["teacher.end_epoch"] = Range(max(2, round(0.3 * epochs)), epochs, whole=True)
        if not settings.teacher.end_epoch:
            fixed["teacher.end_epoch"] = max(2, round(0.65 * epochs))
    if settings.stages:
        space = {key: limits for key, limits in space.items() if not _staged(key, settings.stages)}
        space |= _of_stages(settings.stages)
    else:
        space |= _PLAIN
    interval = _STARTER["train.val_every"] if starter else settings.train.val_every or epochs or 1
    return Search(
        space, value="heldout.skill.after", watch="mpl/skill", base=fixed, trial=short,
        patience=max(1, round(_BEFORE_PRUNING / interval)),
    )  # fmt: skip


def _of_stages(stages: Sequence[Stage]) -> dict[str, Range]:
    space: dict[str, Range] = {}
    for key, top, integer in (("freerun_weight", _MOST_WEIGHT, False), ("freerun_horizon", _FURTHEST, True)):
        places = [place for place, stage in enumerate(stages) if key in stage.trainer]
        values = [stages[place].trainer[key] for place in places]
        for order, (low, high) in enumerate(_between(values, top)):
            if order == 0 and len(places) > 1:
                continue  # the first stage is where the others begin
            if key == "freerun_weight" and order == len(values) - 1 and values[-1] >= _LAST_WEIGHT:
                low = max(low, _LAST_WEIGHT)
            ends = (math.ceil(low), math.floor(high)) if integer else (low, high)
            space[f"stages.{places[order]}.trainer.{key}"] = Range(ends[0], ends[1], whole=integer)
    for place, stage in list(enumerate(stages))[min(1, len(stages) - 1) :]:
        prefix = f"stages.{place}"
        if "w_latent_consistency" in stage.trainer:
            space[f"{prefix}.trainer.w_latent_consistency"] = Range(0.01, 0.45)
        for group, weights in stage.loss_groups.items():
            for name in ("w_fk_pos", "w_rot_local"):
                if name in weights:
                    space[f"{prefix}.loss_groups.{group}.{name}"] = Range(0.05, 0.8)
    return space


def _between(values: Sequence[float], top: float) -> list[tuple[float, float]]:
    """Return a range around each value that ends half-way to the next, so that drawn values rise as they do."""
    if len(values) < 2:
        return [(value / 2, max(top, value)) for value in values]
    halves = [(value + following) / 2 for value, following in pairwise(values)]
    lows = [values[0], values[0], *halves[1:]]
    highs = [values[0], *halves[1:], max([top, *values])]
    return [(min(low, value), max(high, value)) for low, value, high in zip(lows, values, highs, strict=True)]


def _staged(key: str, stages: Sequence[Stage]) -> bool:
    name = f"w_{key.removeprefix('loss.')}"
    return any(name in weights for stage in stages for weights in stage.loss_groups.values())
