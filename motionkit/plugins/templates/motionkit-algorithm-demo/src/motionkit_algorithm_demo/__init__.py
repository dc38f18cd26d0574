"""Algorithm 'demo': the light half. It imports no torch, so that listings and help stay quick."""

from __future__ import annotations

from typing import Annotated

from motionkit.config import Cli
from motionkit.plugins import Component
from motionkit.text_to_motion.grpo.algorithms.options import AwmObjective, MatchingOptions
from pydantic import Field


class Objective(AwmObjective):
    """What algorithm 'demo' minimises; options of the same name as those of another algorithm have its meaning."""

    most: Annotated[float, Cli("--objective.most")] = Field(
        2.0, gt=0, description="Largest weight of a sample, either way."
    )


class Options(MatchingOptions):
    """Options of algorithm 'demo'; the groups rollout and sampler are those of algorithms on finished samples."""

    objective: Objective = Objective()


component = Component(
    summary="What algorithm 'demo' does with scored samples, in one line",
    options=Options,
    factory="motionkit_algorithm_demo.algorithm:DemoAlgorithm",
)
