"""The memory of a step, forecast from one and two rows, against the tensors that steps make."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

CASES = {
    "LoRA": ("algorithm=grpo", "rollout.group_size=2", "rollout.micro_batch=4"),
    "whole": ("algorithm=grpo", "rollout.group_size=2", "rollout.micro_batch=2", "lora.enabled=false"),
    "reward-gradient": ("algorithm=reward-gradient", "rollout.samples=2", "objective.save_memory=on"),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_step_makes_the_tensors_that_were_forecast(
    case: str,
    precision: str,
    make_checkpoint: Callable[..., Path],
    opened: Callable[..., object],
    bytes_of_a_step: Callable[..., tuple[float, float]],
) -> None:
    middle = {"text_width": 64, "text_slots": 50, "latent": 128, "feedforward": 256, "layers": 4, "heads": 8}
    folder = make_checkpoint("SOMASkeleton30", 30, **middle)
    trainer = opened(folder, middle["text_width"], *CASES[case], f"precision={precision}", "reward=tmr-dense")
    expected, found = bytes_of_a_step(trainer)
    assert expected == pytest.approx(found, rel=0.1)
