"""Opening the evaluator a user named, the starter's included. Used by the rewards and by evaluation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

import torch

from motionkit.encoders.t2m._load import load_evaluator
from motionkit.encoders.t2m._model import T2MEvaluator
from motionkit.starter import weights_path

STARTER = "starter"


@runtime_checkable
class HasCaptionTokens(Protocol):
    """A dataset, as far as the evaluator's words are concerned."""

    def caption_tokens(self) -> Mapping[str, Sequence[str]]:
        """Return stored ``word/POS`` tokens by caption."""
        ...


def open_evaluator(
    weights: str | Path = STARTER,
    *,
    glove: Path | None = None,
    stats: Path | None = None,
    device: torch.device | str = "cpu",
) -> T2MEvaluator:
    """Open a text-to-motion evaluator by name or path.

    Args:
        weights: ``starter``, or a path; see `motionkit.encoders.t2m._load.load_evaluator`.
        glove: Folder of the ``our_vab_*`` files of a released evaluator.
        stats: Folder with the mean and std of a released evaluator.
        device: Where to put it.

    Raises:
        MotionkitError: It cannot be opened; see `load_evaluator`.
    """
    path = weights_path("evaluator") if str(weights) == STARTER else Path(weights).expanduser()
    return load_evaluator(path, glove=glove, stats=stats, device=device)


def stored_tokens(dataset: object) -> Mapping[str, Sequence[str]]:
    """Return the ``word/POS`` tokens that a dataset stores with its captions; nothing where it stores none."""
    return dataset.caption_tokens() if isinstance(dataset, HasCaptionTokens) else {}
