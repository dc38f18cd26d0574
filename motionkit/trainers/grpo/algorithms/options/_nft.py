"""Options of the algorithm `nft`. Imports no torch."""

from __future__ import annotations

from pydantic import Field

from motionkit.trainers.grpo.algorithms.options._matching import MatchingObjective, MatchingOptions
from motionkit.trainers.grpo.algorithms.options._shared import CreditObjective


class NftObjective(MatchingObjective, CreditObjective):
    """The errors of an implicit better and an implicit worse policy that are minimised."""

    nft_beta: float = Field(1.0, gt=0.0, description="How far the implicit policies lie from the one that samples.")


class NftOptions(MatchingOptions):
    """Options of the algorithm `nft`."""

    objective: NftObjective = NftObjective()
