"""Prompts that are measured must not be the ones, nor come from the motions, that are trained on."""

from __future__ import annotations

from collections.abc import Sequence

from motionkit.datasets.overlap import shared_motions
from motionkit.errors import MotionkitError
from motionkit.text import Prompt


def refuse_one_split(trained: str, measured: str) -> None:
    """Refuse to measure on the split that is trained on.

    Args:
        trained: ``prompts.split``.
        measured: ``heldout.split``.

    Raises:
        MotionkitError: They are one.
    """
    if trained != measured:
        return
    raise MotionkitError(
        f"prompts.split and heldout.split are both {trained}.",
        why="what is measured would be what was trained on, not held out.",
        fix="--set prompts.split=train, or --set heldout.prompts=0 to measure nothing.",
    )


def shared_sources(trained: Sequence[Prompt], asked: Sequence[Prompt], *, allowed: bool, what: str) -> list[str]:
    """Return the motions that prompts of both sides come from, mirrored or not; sorted.

    Args:
        trained: Prompts that are trained on.
        asked: Prompts that are measured.
        allowed: ``heldout.allow_shared``.
        what: Names both sides in the message, such as ``the train and the val prompts of humanml``.

    Raises:
        MotionkitError: There are some, and they are not allowed.
    """
    names = [{name for prompt in prompts for name in prompt.source_ids} for prompts in (trained, asked)]
    shared = shared_motions(*names)
    if shared and not allowed:
        raise MotionkitError(
            f"{what} share {len(shared)} of {len(names[1])} motions, such as {shared[0]}.",
            why="what is measured would partly be what was trained on, not held out.",
            fix="make splits that share no motion, or --set heldout.prompts=0 to measure nothing; "
            "--set heldout.allow_shared=true measures all the same and notes it in the run.",
        )
    return shared


def describe_shared(shared: Sequence[str]) -> str:
    """Return the warning of a run that is measured on motions it trains on."""
    return (
        f"{len(shared)} motion(s), such as {shared[0]}, are both trained on and measured (heldout.allow_shared); "
        "held-out scores will be optimistic."
    )
