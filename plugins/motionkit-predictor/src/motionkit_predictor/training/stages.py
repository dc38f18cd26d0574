"""Stages of the predictor's training, in the shape of the guide's ``freerun_stage_schedule``. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import Field, model_validator

from motionkit.config import Group
from motionkit.errors import nearest

TRAINER_KEYS: Mapping[str, str] = {
    "freerun_weight": "freerun.weight",
    "freerun_horizon": "freerun.horizon",
    "w_latent_consistency": "loss.latent_consistency",
    "tf_max": "teacher.max",
    "tf_min": "teacher.min",
    "lr": "optim.learning_rate",
}
"""Values that a stage may set, and the settings that they replace in its epochs."""


class Stage(Group):
    """Epochs with values of their own."""

    range: tuple[int, int]  # first and last epoch, counted from 1
    label: str = ""  # its name for users
    trainer: dict[str, float] = Field(default_factory=dict)  # values by the names in `TRAINER_KEYS`
    # Weights of losses by group (core, aux, long), each named ``w_`` and the loss
    loss_groups: dict[str, dict[str, float]] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _fits(self) -> Stage:
        first, last = self.range
        if not 1 <= first <= last:
            raise ValueError(f"range {first}, {last} is not a range of epochs")
        if unknown := sorted(self.trainer.keys() - TRAINER_KEYS.keys()):
            raise ValueError(f"trainer has no {unknown[0]}; it has {', '.join(TRAINER_KEYS)}")
        return self


def refuse_gaps(stages: Sequence[Stage], epochs: int) -> None:
    """Refuse stages that leave epochs out or overlap."""
    expected = 1
    for number, stage in enumerate(stages, start=1):
        label = stage.label or f"stage {number}"
        if stage.range[0] != expected:
            kind = "overlaps the stage before" if stage.range[0] < expected else "leaves epochs out"
            raise ValueError(f"{label} begins with epoch {stage.range[0]} and {kind}; epoch {expected} is next")
        expected = stage.range[1] + 1
    if stages and expected != epochs + 1:
        last = stages[-1].label or f"stage {len(stages)}"
        raise ValueError(
            f"the stages end with epoch {expected - 1}, the training with epoch {epochs}; set run.epochs (--epochs) to "
            f"{expected - 1}, or the end of {last} to {epochs}"
        )


def refuse_unknown_losses(stages: Sequence[Stage], known: Sequence[str]) -> None:
    """Refuse weights in ``loss_groups`` that belong to no loss."""
    for stage in stages:
        for group, weights in stage.loss_groups.items():
            for name in weights:
                if name.removeprefix("w_") not in known:
                    near = nearest(name.removeprefix("w_"), known, 3)
                    raise ValueError(
                        f"{stage.label or stage.range}: loss_groups.{group} has {name}, which is not a loss; "
                        f"{'near names: ' if near else 'known: '}{', '.join(f'w_{loss}' for loss in near or known)}"
                    )
