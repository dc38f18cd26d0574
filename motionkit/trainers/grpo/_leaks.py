"""Prompts that are measured must not be the ones, nor come from the motions, that are trained on."""

from __future__ import annotations

from collections.abc import Sequence

from motionkit.datasets.motions import shared_motions
from motionkit.errors import MotionkitError
from motionkit.text import Prompt
from motionkit.trainers.grpo._settings import GrpoSettings


def refuse_one_split(settings: GrpoSettings) -> None:
    """Refuse to measure on the split that is trained on.

    Raises:
        MotionkitError: ``prompts.split`` and ``heldout.split`` are one, and something is to be measured.
    """
    split = settings.prompts.split
    if settings.heldout.prompts == 0 or split != settings.heldout.split:
        return
    raise MotionkitError(
        f"prompts.split and heldout.split are both {split}.",
        why="what is measured would be what was trained on, not held out.",
        fix="--set heldout.split=test, or --set prompts.split=train, or --set heldout.prompts=0 to measure nothing.",
    )


def shared_sources(trained: Sequence[Prompt], asked: Sequence[Prompt], settings: GrpoSettings) -> list[str]:
    """Return the motions that prompts of both sides come from, mirrored or not; sorted.

    Raises:
        MotionkitError: There are some, and ``heldout.allow_shared`` is off.
    """
    names = [{name for prompt in prompts for name in prompt.source_ids} for prompts in (trained, asked)]
    shared = shared_motions(*names)
    if shared and not settings.heldout.allow_shared:
        raise MotionkitError(
            f"the {settings.prompts.split} and the {settings.heldout.split} prompts of {settings.dataset.label} share "
            f"{len(shared)} of {len(names[1])} motions, such as {shared[0]}.",
            why="what is measured would partly be what was trained on, not held out.",
            fix="make splits that share no motion, or --set heldout.prompts=0 to measure nothing; "
            "--set heldout.allow_shared=true measures all the same and notes it in the run.",
        )
    return shared


def describe_shared(shared: Sequence[str]) -> str:
    """Return the warning of a run that is measured on motions it trains on."""
    return (
        f"{len(shared)} motion(s), such as {shared[0]}, are trained on and measured on (heldout.allow_shared): the "
        "held-out figures are too good."
    )
