"""Memory of a step of 8 prompts x 8 motions of 5 s at the released size, in bfloat16 and with random weights.

    pytest -s plugins/motionkit-policy-kimodo/tests/benchmark_memory.py

It prints the forecasts, and how much the tensors of a step of two motions differ from theirs. Each case is best run by
itself (`-k whole`): it takes about ten minutes of a core and up to 12 GB.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from motionkit.text_to_motion.grpo.forecast import forecast

CASES = {
    "LoRA": ("algorithm=grpo", "rollout.group_size=2", "rollout.micro_batch=16"),
    "whole": ("algorithm=grpo", "rollout.group_size=2", "rollout.micro_batch=16", "lora.enabled=false"),
    "reward-gradient": ("algorithm=reward-gradient", "rollout.samples=2"),
}


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("case", CASES)
def test_released_size(
    case: str,
    make_checkpoint: Callable[..., Path],
    opened: Callable[..., Any],
    bytes_of_a_step: Callable[..., tuple[float, float]],
    released_tmr: Path,
) -> None:
    released = {"text_width": 4096, "text_slots": 50, "latent": 1024, "feedforward": 2048, "layers": 16, "heads": 8}
    folder = make_checkpoint("SOMASkeleton30", 30, **released)
    rewards = ("reward=kimodo-tmr", f"reward.weights={released_tmr}")
    trainer = opened(folder, released["text_width"], *CASES[case], "precision=bf16", *rewards)
    expected, found = bytes_of_a_step(trainer)
    print(f"\n{case}: {forecast(trainer.grpo, trainer.cursor.prompts, 64)}")  # noqa: T201
    print(f"{case}: a step of 2 motions made {found / 1e9:.2f} GB, forecast {expected / 1e9:.2f} GB")  # noqa: T201
    assert expected == pytest.approx(found, rel=0.1)
