"""What a reward is given and what it returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from torch import Tensor

from motionkit.motion import MotionBatch
from motionkit.text import Prompt


@dataclass(frozen=True)
class RewardScores:
    """Scores of N samples.

    Attributes:
        total: ``[N]`` float32, the reward itself. NaN marks a sample that cannot be scored; it never spreads.
        segments: ``[N, K]`` per-segment scores whose mean over a sample's own segments is `total`
            (columns past a sample's last segment are 0), or None when the reward has no segments.
        parts: Named ``[N]`` tensors worth logging, such as ``positive`` and ``negative``.
    """

    total: Tensor
    segments: Tensor | None = None
    parts: Mapping[str, Tensor] = field(default_factory=dict)


class Reward(Protocol):
    """Scores a batch of motions against the prompts they were made for.

    Attributes:
        name: Name in metrics: ``reward/<name>/mean``.

    A reward with a limited range may also have ``bounds: tuple[float, float]``, its lowest and highest total: a run
    whose reward sits at one end says so. One whose options name a place may have ``inputs: Mapping[str, str]``, a
    fingerprint of what was found there by the name of the option, so that a run can be resumed after it has moved.
    """

    name: str

    def score(self, motions: MotionBatch, prompts: Sequence[Prompt]) -> RewardScores:
        """Score N motions, all in one pass. ``prompts[i]`` belongs to motion i and may repeat.

        A reward that gives no motion a finite score stops a run that has just begun; later on it is left out of the
        step.
        """
        ...
