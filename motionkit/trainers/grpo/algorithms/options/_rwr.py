"""Options of the algorithm `rwr`. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from motionkit.trainers.grpo.algorithms.options._matching import MatchingObjective, MatchingOptions
from motionkit.trainers.grpo.algorithms.options._shared import CreditObjective


class RwrObjective(MatchingObjective, CreditObjective):
    """The weighted error on the policy's own samples that is minimised."""

    weights: Literal["softmax", "best"] = Field(
        "softmax", description="softmax: exp(advantage / temperature) within a group; best: its best sample alone."
    )
    temperature: float = Field(0.5, gt=0.0, description="Temperature of the softmax weights, in units of advantages.")

    def idle(self) -> Mapping[str, str]:
        """Return the options that have no effect; see `Group.idle`."""
        found = {} if self.weights == "softmax" else {"temperature": "it acts with objective.weights softmax only"}
        return {**super().idle(), **found}


class RwrOptions(MatchingOptions):
    """Options of the algorithm `rwr`."""

    objective: RwrObjective = RwrObjective()
