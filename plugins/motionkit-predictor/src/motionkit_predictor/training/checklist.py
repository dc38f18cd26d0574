"""The guide's checklist of a training; each line compares a value with a limit. Imports no torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from motionkit_predictor.training.schedule import LAST_WEIGHT, schedule_problems, too_few_epochs, values_at
from motionkit_predictor.training.settings import GROUPS, SIZES, TrainMplSettings, size_of

_EQUIVALENT = 0.1
"""Weight of the joints' rotations that makes the other key losses optional: positions and turns follow from them."""

_BALANCE = 20.0  # largest ratio of two of the key losses; the guide's bad example has 500, its own config 2.5
_SHOWN = 0.05  # share of the frames from which a gait counts
_EPOCHS = 20


class Check(NamedTuple):
    """A line of the checklist."""

    ok: bool  # whether it is as the guide wants it; a warning otherwise
    text: str  # what was looked at
    value: str  # what decided it


@dataclass(frozen=True)
class DataFacts:
    """What the checklist needs to know of the clips."""

    frames: int  # frames of the training clips
    clips: int  # number of them
    # Share of the training frames by gait; empty if the skeleton has no known feet
    gaits: Mapping[str, float] = field(default_factory=dict)
    contacts: int = 0  # how many of them have known foot contacts
    validation: int = 0  # number of validation clips
    encoder: str = ""  # the encoder that is used; empty for none


def checklist(settings: TrainMplSettings, facts: DataFacts) -> list[Check]:
    """Return the guide's checklist for a training.

    Shares of the groups (65 : 5 : 30) and the ratio of free runs to teacher forcing (below 2) need a training first;
    it logs both.

    Example:
        >>> lines = checklist(TrainMplSettings(), DataFacts(5_000, 40, {"walk": 0.6, "run": 0.4}, 40, 8))
        >>> [line.text for line in lines if not line.ok]
        []
    """
    if not settings.run.epochs:  # a trainer knows them; until then any number shows how values go
        epochs = settings.stages[-1].range[1] if settings.stages else _EPOCHS
        settings = settings.model_copy(update={"run": settings.run.model_copy(update={"epochs": epochs})})
    return [*_losses(settings), *_generality(settings, facts), *_strategy(settings, facts)]


def as_lines(checks: Sequence[Check]) -> list[str]:
    """Return the checklist as text, a line each."""
    return [f"{'ok  ' if check.ok else 'warn'}  {check.text}: {check.value}" for check in checks]


def _losses(settings: TrainMplSettings) -> Iterator[Check]:
    last = values_at(settings, settings.run.epochs - 1)
    weights = {**last.weights, "freerun": last.freerun_weight}
    groups = {group: {name: weights.get(name, 0.0) for name in GROUPS if GROUPS[name] == group} for group in
              ("core", "aux", "long")}  # fmt: skip
    shown = "; ".join(
        f"{group} {', '.join(f'{name} {weight:g}' for name, weight in inside.items() if weight) or 'none'}"
        for group, inside in groups.items()
    )
    defined = all(any(groups[group].values()) for group in ("core", "long"))
    yield Check(defined, "losses by group, in the last epoch", shown)
    key = {name: weights[name] for name in ("fk_pos", "rot_local", "rot_delta")}
    listed = ", ".join(f"{name} {weight:g}" for name, weight in key.items())
    missing = [name for name, weight in key.items() if not weight]
    stands = max(("rot_geo", "rot_local"), key=weights.__getitem__)
    if missing and weights[stands] >= _EQUIVALENT:
        yield Check(True, "key losses", f"{stands} {weights[stands]:g}, from which {', '.join(missing)} follow")
    else:
        balanced = all(key.values()) and max(key.values()) <= _BALANCE * min(key.values())
        why = (
            "" if balanced else f"; a ratio above {_BALANCE:g} drowns one" if all(key.values()) else "; one is missing"
        )
        yield Check(balanced, "key losses", listed + why)
    # The epochs at whose beginning values change.
    moments = [0, *(stage.range[0] - 1 for stage in settings.stages), settings.run.epochs - 1]
    feet = max(values_at(settings, epoch).weights["skate"] for epoch in moments)
    yield Check(feet == 0, "no constraints of the feet", f"loss.skate {feet:g}")


def _generality(settings: TrainMplSettings, facts: DataFacts) -> Iterator[Check]:
    if not facts.encoder:
        value = "no encoder; motionkit pretrain mpl-encoder learns it from foot contacts"
        yield Check(True, "soft period (optional)", value)
    else:
        known = facts.contacts == facts.clips
        value = f"{facts.encoder}, from foot contacts, known in {facts.contacts} of {facts.clips} clips"
        yield Check(known, "soft period", value)
    first, last = values_at(settings, 0), values_at(settings, settings.run.epochs - 1)
    weight = last.freerun_weight
    yield Check(weight >= LAST_WEIGHT, "weight of free runs at the end", f"{weight:g}, {LAST_WEIGHT:g} or more")
    middle = values_at(settings, settings.run.epochs // 2)
    shares = " → ".join(f"{values.teacher:.2g}" for values in (first, middle, last))
    value, falls = f"{shares}, {settings.teacher.mode}", first.teacher >= 0.99 and last.teacher <= 0.01
    if too_few_epochs(settings):
        value, falls = f"none: {settings.run.epochs} epochs are too few for it to go down in", True
    yield Check(falls, "teacher forcing goes down", value)
    interval = settings.train.val_every
    often = "at the end only" if not interval else "every epoch" if interval == 1 else f"every {interval} epochs"
    value = f"{facts.validation} validation clips, {often}; below 2 times the teacher's error is good"
    yield Check(bool(facts.validation), "teacher forcing and free runs are both measured", value)


def _strategy(settings: TrainMplSettings, facts: DataFacts) -> Iterator[Check]:
    stages, size = settings.stages, size_of(facts.frames)
    low, high = SIZES[size].stages
    recommended = f"{low} to {high}" if high < 100 else f"{low} or more"
    if stages:
        filled = []
        for stage in stages:
            now = values_at(settings, stage.range[0] - 1)
            trainer = {"freerun_weight": stage.trainer.get("freerun_weight", settings.freerun.weight),
                       "freerun_horizon": now.freerun_horizon}  # fmt: skip
            filled.append({"range": stage.range, "label": stage.label or f"epoch {stage.range[0]}", "trainer": trainer})
        problems = schedule_problems(filled, settings.run.epochs)
        steps = " → ".join(f"{stage['trainer']['freerun_weight']:g}" for stage in filled)  # type: ignore[index]
        yield Check(not problems, "stages rise evenly", " ".join(problems) or f"freerun_weight {steps}")
        fits = low <= len(stages) <= high
        yield Check(fits, "number of stages", f"{len(stages)}; {recommended} for {facts.frames} frames")
    else:
        free, ramp = settings.freerun, settings.freerun.ramp_epochs or round(0.6 * settings.run.epochs)
        value = f"no stages; free runs grow from {free.first_horizon} to {free.horizon} frames in {ramp} epochs"
        yield Check(free.first_horizon <= free.horizon, "stages rise evenly", value)
        yield Check(True, "number of stages", f"none, a ramp; {recommended} for {facts.frames} frames")
    yield _variety(facts)
    yield _sizes(settings, facts)
    method = settings.adaptive.method
    yield Check(True, "search (optional)", f"adaptive weights: {method}; motionkit tune-bayes searches settings")


def _variety(facts: DataFacts) -> Check:
    if not facts.gaits:
        return Check(False, "variety of motion", "the skeleton has no known feet: gaits are not known")
    shares = sorted(facts.gaits.items(), key=lambda item: -item[1])
    named = ", ".join(f"{gait} {100 * share:.0f} %" for gait, share in shares)
    kinds = sum(share >= _SHOWN for _, share in shares)
    return Check(kinds > 1, "variety of motion", f"{named} of the frames")


def _sizes(settings: TrainMplSettings, facts: DataFacts) -> Check:
    """Compare with the guide's sizes; only what was asked for and does harm is a warning.

    A stronger regularisation does none, and the dropout that train-mpl itself takes for data of this size was measured.
    """
    size = size_of(facts.frames)
    guide = SIZES[size].values
    default_dropout = settings.model.model_copy(update={"dropout": None}).for_frames(facts.frames).dropout
    now = {
        "optim.learning_rate": settings.optim.learning_rate,
        "train.batch_size": float(settings.train.batch_size),
        "train.seq_len": float(settings.train.seq_len),
        "model.dropout": settings.model.for_frames(facts.frames).dropout or 0.0,
        "optim.weight_decay": settings.optim.weight_decay,
    }
    limits = {"optim.learning_rate": 4.0, "train.batch_size": 8.0, "train.seq_len": 2.5}
    bad = [key for key, limit in limits.items() if not 1 / limit <= now[key] / guide[key] <= limit]
    weak = [key for key in ("model.dropout", "optim.weight_decay") if now[key] < guide[key] / 2]
    bad += [key for key in weak if key != "model.dropout" or now[key] != default_dropout]
    text = f"sizes for {facts.frames} frames ({size})"
    if bad:
        listed = ", ".join(f"{key} {now[key]:g}, the guide's {guide[key]:g}" for key in bad)
        return Check(False, text, f"{listed}; --preset {size} takes the guide's")
    return Check(True, text, ", ".join(f"{key.rpartition('.')[2]} {value:g}" for key, value in now.items()))
