"""The memory of a step, forecast from one and two rows, against the tensors that steps make."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from motionkit.config import choose_one
from motionkit.text_to_motion.grpo.forecast import forecast
from motionkit.text_to_motion.grpo.settings import EmaSettings
from motionkit.text_to_motion.grpo.step import GRPO
from motionkit.text_to_motion.rewards.mix import RewardMix
from motionkit.text_to_motion.settings import LoraSettings
from motionkit.training.memory import Alive

from .toy import PROMPTS, Height, make_policy

SHAPE: Mapping[str, Any] = {"layers": 8, "latent_dim": 128, "num_heads": 4, "ff_size": 512, "patch_size": 1}
OPTIONS: Mapping[str, dict[str, Any]] = {
    "grpo": {"rollout": {"group_size": 4, "micro_batch": 8}},
    "flow-grpo": {"rollout": {"group_size": 4, "micro_batch": 8}},
    "awm": {"rollout": {"group_size": 4}},
    "dpo": {"rollout": {"group_size": 4}},
    "nft": {"rollout": {"group_size": 4}},
    "easytune": {},
    "reward-gradient": {"objective": {"save_memory": "off"}},
    "mixed": {"rollout": {"group_size": 4}},
}


def made(algorithm: str, options: Mapping[str, Any], *, lora: bool = True, precision: str = "fp32") -> GRPO:
    return GRPO(
        make_policy(**SHAPE),
        RewardMix([(Height(), 1.0)], gradient=[True]),
        algorithm=choose_one("algorithms", algorithm, options),
        lora=LoraSettings(enabled=lora),
        ema=EmaSettings(decay=0.9),
        precision=precision,
    )


def compare(grpo: GRPO) -> tuple[float, float]:
    """Return the bytes that the second step of the longest prompts makes, forecast and counted."""
    prompts = [PROMPTS[3], PROMPTS[3]]
    expected = forecast(grpo, prompts, len(prompts) * grpo.algorithm.samples)
    grpo.step(prompts)
    with Alive() as alive:
        grpo.step(prompts)
    there = {"weights", "reference", "average", "rewards"}
    before = sum(size for part, size in expected.parts.items() if part in there)
    moments = 2 / 3 * expected.parts["gradients and AdamW"]
    return expected.peak - before - moments, alive.most


@pytest.mark.parametrize("algorithm", OPTIONS)
def test_a_step_makes_the_tensors_that_were_forecast(algorithm: str) -> None:
    expected, found = compare(made(algorithm, OPTIONS[algorithm]))
    assert expected == pytest.approx(found, rel=0.1)


@pytest.mark.parametrize(
    ("algorithm", "lora", "precision"),
    [("grpo", False, "bf16"), ("reward-gradient", False, "fp32"), ("reward-gradient", True, "bf16")],
)
def test_of_all_weights_and_in_bfloat16(algorithm: str, lora: bool, precision: str) -> None:
    again = {} if algorithm == "grpo" else {"objective": {"save_memory": "on"}}
    expected, found = compare(made(algorithm, OPTIONS[algorithm] | again, lora=lora, precision=precision))
    assert expected == pytest.approx(found, rel=0.1)


def test_what_is_there_before_a_step() -> None:
    parts = forecast(made("grpo", OPTIONS["grpo"], lora=False), PROMPTS, 8).parts
    trained = sum(parameter.nbytes for parameter in make_policy(**SHAPE).network.parameters())
    assert parts["gradients and AdamW"] == 3 * trained
    assert parts["average"] == parts["reference"] == trained
    assert parts["weights"] >= trained
    adapted = forecast(made("grpo", OPTIONS["grpo"]), PROMPTS, 8)
    assert adapted.parts["reference"] == 0
    assert adapted.parts["average"] < trained / 4
    assert adapted.seconds > 0
    assert " MB (weights 10." in str(adapted)
