"""Options of the algorithm `dpo`. Imports no torch."""

from __future__ import annotations

from pydantic import Field

from motionkit.trainers.grpo.algorithms.options._matching import MatchingObjective, MatchingOptions
from motionkit.trainers.grpo.algorithms.options._shared import SegmentObjective


class DpoObjective(MatchingObjective, SegmentObjective):
    """The preference of a group's best sample to its worst that is learnt."""

    dpo_beta: float = Field(
        5.0, gt=0.0, description="Beta of DPO: a larger one keeps the policy closer to the reference."
    )
    min_gap: float = Field(0.0, ge=0.0, description="Pairs whose rewards differ by no more than this are left out.")


class DpoOptions(MatchingOptions):
    """Options of the algorithm `dpo`."""

    objective: DpoObjective = DpoObjective()
