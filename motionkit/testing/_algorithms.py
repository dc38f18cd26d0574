"""The contract of an algorithm of `grpo`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from motionkit.config import choose_one
from motionkit.motion import MotionBatch
from motionkit.rewards.base import RewardScores
from motionkit.testing._component import check_component
from motionkit.testing._report import Findings
from motionkit.testing._samples import TEXTS
from motionkit.text import Prompt
from motionkit.tracking import definition
from motionkit.trainers.grpo.api import GRPO

_PROMPTS = [Prompt((text,), (40,), key=text) for text in TEXTS[:2]]


class _Height:
    """Mean height of the root: a reward with a gradient."""

    name = "height"

    def score(self, motions: MotionBatch, prompts: Sequence[Prompt]) -> RewardScores:
        height = torch.where(motions.mask, motions.joints[..., 0, 1], 0.0)  # [N, T]
        return RewardScores(total=height.sum(1) / motions.lengths)


def check_algorithm(name: str, *, options: Mapping[str, Any] | None = None) -> None:
    """Check what `grpo` relies on in every algorithm, by two updates of the starter policy.

    Each update changes the trained parameters and returns finite losses under
    metrics that `motionkit.tracking` defines; the same seed gives the same update to the bit.

    Args:
        name: Name of the algorithm.
        options: Its options, by group: ``{"objective": {"inner_epochs": 2}}``.

    Raises:
        AssertionError: Lists all violations, a sentence each.
    """
    check_component("algorithms", name)
    found = Findings(f"algorithm {name!r}")
    engine = _engine(name, options or {})
    rule = engine.algorithm
    found.expect(rule.passes >= 1, f"passes must be at least 1, is {rule.passes}.")
    found.expect(rule.samples >= 1, f"samples must be at least 1, is {rule.samples}.")
    found.close()
    before = _weights(engine)
    metrics = engine.step(_PROMPTS) | engine.step(_PROMPTS)
    for metric, value in metrics.items():
        found.expect(_is_defined(metric), f"The metric {metric!r} is not defined in motionkit.tracking.")
        loss = metric.startswith("loss/")
        found.expect(not loss or math.isfinite(value), f"{metric} is {value} after two updates.")
    after = _weights(engine)
    found.expect(not torch.equal(before, after), "Two updates leave all trained parameters as they were.")
    again = _engine(name, options or {})
    for _ in range(2):
        again.step(_PROMPTS)
    found.expect(torch.equal(_weights(again), after), "The same seed gives other parameters after two updates.")
    found.close()


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
