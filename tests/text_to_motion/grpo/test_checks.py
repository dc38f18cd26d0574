"""The check of algorithms passes what is right and finds what is not."""

from __future__ import annotations

from typing import Any

import pytest

from motionkit.text_to_motion.checks import check_algorithm

ALGORITHMS = """
from motionkit.plugins import Component
from motionkit.text_to_motion.grpo.algorithms.options import GrpoOptions
def still(options, **runtime):
    from motionkit.text_to_motion.grpo.algorithms.grpo import grpo
    rule = grpo(options, **runtime)
    update = rule.update
    def stays(batch, scored, number):
        made = update(batch, scored, number)
        made.backward = lambda: False
        made._sums = dict.fromkeys(
            ["loss", "policy", "ratio", "clip_fraction", "logp_current_per_dim", "log_ratio_per_dim"], float("nan")
        )
        return made
    rule.update = stays
    return rule
def odd(options, **runtime):
    from motionkit.text_to_motion.grpo.algorithms.grpo import grpo
    made = grpo(options, **runtime)
    made.samples = 0
    return made
still_component = Component("It never moves.", GrpoOptions, "odd_algorithms:still")
odd_component = Component("It samples nothing.", GrpoOptions, "odd_algorithms:odd")
"""


def test_algorithms(site: Any) -> None:
    check_algorithm("grpo", options={"objective": {"inner_epochs": 2}, "rollout": {"group_size": 2}})
    check_algorithm("reward-gradient")
    for name in ("awm", "nft", "dpo"):
        check_algorithm(name, options={"rollout": {"group_size": 2}})
    entries = "[motionkit.algorithms]\nstill = odd_algorithms:still_component\nodd = odd_algorithms:odd_component\n"
    site.install("odd-algorithms", entries, odd_algorithms=ALGORITHMS)
    with pytest.raises(AssertionError) as caught:
        check_algorithm("still", options={"rollout": {"group_size": 2}})
    assert "loss/policy is nan after two updates" in str(caught.value)
    with pytest.raises(AssertionError, match="samples must be at least 1, is 0"):
        check_algorithm("odd")
