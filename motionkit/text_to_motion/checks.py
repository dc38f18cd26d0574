"""The contract of algorithms of `grpo`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from motionkit.config import choose_one
from motionkit.contracts.reward import RewardScores
from motionkit.motion import MotionBatch
from motionkit.testing import TEXTS, Findings, check_component
from motionkit.text import Prompt
from motionkit.text_to_motion.grpo.api import GRPO
from motionkit.tracking import definition

_PROMPTS = [Prompt((text,), (40,), key=text) for text in TEXTS[:2]]


class _Height:
    """Mean height of the root: a reward with a gradient."""

    name = "height"

    def score(self, motions: MotionBatch, prompts: Sequence[Prompt]) -> RewardScores:
        height = torch.where(motions.mask, motions.joints[..., 0, 1], 0.0)  # [N, T]
        return RewardScores(total=height.sum(1) / motions.lengths)


def check_algorithm(name: str, *, options: Mapping[str, Any] | None = None) -> None:
    """Check what `grpo` relies on in every algorithm, by two updates of the starter policy.

    Each update changes the trained parameters and returns finite losses under metrics that `motionkit.tracking`
    defines; the same seed gives a bitwise equal update.

    Args:
        name: Name of the algorithm.
        options: Its options, by group: ``{"objective": {"inner_epochs": 2}}``.

    Raises:
        AssertionError: Lists all violations, a sentence each.
    """
    check_component("algorithms", name)
    findings = Findings(f"algorithm {name!r}")
    engine = _engine(name, options or {})
    rule = engine.algorithm
    findings.expect(rule.passes >= 1, f"passes must be at least 1, is {rule.passes}.")
    findings.expect(rule.samples >= 1, f"samples must be at least 1, is {rule.samples}.")
    findings.close()
    before = _weights(engine)
    metrics = engine.step(_PROMPTS) | engine.step(_PROMPTS)
    for metric, value in metrics.items():
        findings.expect(_is_defined(metric), f"The metric {metric!r} is not defined in motionkit.tracking.")
        loss = metric.startswith("loss/")
        findings.expect(not loss or math.isfinite(value), f"{metric} is {value} after two updates.")
    after = _weights(engine)
    findings.expect(not torch.equal(before, after), "Two updates leave all trained parameters as they were.")
    again = _engine(name, options or {})
    for _ in range(2):
        again.step(_PROMPTS)
    findings.expect(torch.equal(_weights(again), after), "The same seed gives other parameters after two updates.")
    findings.close()


def _engine(name: str, options: Mapping[str, Any]) -> GRPO:
    policy = choose_one("policies", "mdm", {"checkpoint": "starter"}).build()
    return GRPO(policy, _Height(), algorithm=choose_one("algorithms", name, options), seed=0)


def _weights(engine: GRPO) -> Tensor:
    """Return all trained parameters as one vector."""
    return torch.cat([parameter.detach().flatten() for _, parameter in engine.learner.trained])


def _is_defined(metric: str) -> bool:
    try:
        definition(metric)
    except KeyError:
        return False
    return True
