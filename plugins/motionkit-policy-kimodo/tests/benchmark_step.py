"""Seconds and memory of a step of 8 prompts x 8 motions of 5 s at the released size, on a card; else of a tiny one.

Run as ``pytest -s plugins/motionkit-policy-kimodo/tests/benchmark_step.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.benchmarks.gpu_timing import device, row

RELEASED = {"text_width": 4096, "text_slots": 50, "latent": 1024, "feedforward": 2048, "layers": 16, "heads": 8}
TINY = {"text_width": 16, "text_slots": 3, "latent": 16, "feedforward": 32, "layers": 1, "heads": 2}
CASES = {
    "grpo, LoRA": ("algorithm=grpo", "rollout.group_size=8"),
    "reward-gradient, LoRA": ("algorithm=reward-gradient", "rollout.samples=8"),
}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("case", CASES)
def test_step(
    case: str, make_checkpoint: Callable[..., Path], opened: Callable[..., Any], request: pytest.FixtureRequest
) -> None:
    card = torch.cuda.is_available()
    sizes = RELEASED if card else TINY
    folder = make_checkpoint("SOMASkeleton30", 30, **sizes)
    words = [*CASES[case], "rollout.prompts=8", f"device={device()}", "precision=bf16"]
    if card:
        words += ["reward=kimodo-tmr", f"reward.weights={request.getfixturevalue('released_tmr')}"]
    else:
        words += ["reward=tmr-dense", "rollout.prompts=1", "sampler.train_timesteps=3"]
    trainer, number = opened(folder, sizes["text_width"], *words), count()
    name = f"Kimodo's step, {case}" + ("" if card else " (tiny)")
    print(f"\n{row(name, lambda: trainer.grpo.step(trainer.cursor.at(next(number))))}")  # noqa: T201
