"""What ``--algorithm auto`` resolves to."""

from __future__ import annotations

from typing import Any

import pytest

from motionkit.errors import MotionkitError
from motionkit.trainers.grpo._auto import decide

BROKEN = "raise RuntimeError('never imported for auto')\n"


@pytest.mark.parametrize(
    ("keys", "rewards", "taken"),
    [
        ((), ("tmr-dense",), "reward-gradient"),
        ((), ("tmr-dense", "physics"), "reward-gradient"),
        (("optim.learning_rate", "rollout.prompts"), ("tmr-dense",), "reward-gradient"),
        (("rollout.group_size",), ("tmr-dense",), "grpo"),
        (("sampler.noise_scale",), ("tmr-dense",), "flow-grpo"),
        (("sampler.noise_scale", "rollout.group_size"), ("tmr-dense",), "flow-grpo"),
        (("sampler.window",), ("tmr-dense",), "grpo"),
        (("objective.chain",), ("tmr-dense",), "reward-gradient"),
        ((), ("tmr-dense", "nosuch"), "reward-gradient"),  # the slot of the reward says that there is none
    ],
)
def test_options_choose_before_rewards_do(keys: tuple[str, ...], rewards: tuple[str, ...], taken: str) -> None:
    found, line = decide("auto", set(keys), {"reward": rewards})
    assert found == taken
    assert line.startswith(f"algorithm {taken} (")


def test_a_name_stays() -> None:
    assert decide("anything", {"rollout.group_size"}, {"reward": ("tmr-dense",)}) == ("anything", "")


def test_options_that_no_algorithm_has_together() -> None:
    with pytest.raises(MotionkitError, match=r"no algorithm has all of objective\.chain, rollout\.group_size"):
        decide("auto", {"objective.chain", "rollout.group_size"}, {"reward": ("tmr-dense",)})


def test_a_broken_package_of_others_is_not_looked_at(site: Any) -> None:
    site.install("odd-rule", "[motionkit.algorithms]\nodd = odd_rule:component\n", odd_rule=BROKEN)
    assert decide("auto", set(), {"reward": ("tmr-dense",)})[0] == "reward-gradient"
