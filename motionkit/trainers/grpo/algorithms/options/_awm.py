"""Options of the algorithm `awm`. Imports no torch."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from motionkit.config import Cli
from motionkit.trainers.grpo.algorithms.options._matching import MatchingObjective, MatchingOptions
from motionkit.trainers.grpo.algorithms.options._shared import CreditObjective


class AwmObjective(MatchingObjective, CreditObjective):
    """The weighted error that is minimised."""

    kl_coef: Annotated[float, Cli("--kl-coef")] = Field(
        0.0, ge=0.0, description="Weight of the closed-form KL to the reference, per dimension."
    )


class AwmOptions(MatchingOptions):
    """Options of the algorithm `awm`."""

    objective: AwmObjective = AwmObjective()
