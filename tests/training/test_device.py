"""Devices, seeds, threads, precision."""

from __future__ import annotations

import random

import numpy as np
import torch

from motionkit.training.device import autocast, describe_device, seed_everything, set_up
from motionkit.training.settings import TrainerSettings


def test_a_device_in_words() -> None:
    assert "threads" in describe_device(torch.device("cpu"))


def test_the_same_seed_draws_the_same() -> None:
    def draw() -> list[float]:
        return [random.random(), float(np.random.rand()), float(torch.rand(1))]

    seed_everything(2**40)
    first = draw()
    assert draw() != first
    seed_everything(2**40)
    assert draw() == first


def test_set_up_applies_the_shared_settings() -> None:
    before = torch.get_num_threads()
    try:
        assert set_up(TrainerSettings(device="cpu", seed=4, threads=2)) == torch.device("cpu")
        assert torch.get_num_threads() == 2
        assert float(torch.rand(1)) == float(torch.rand(1, generator=torch.Generator().manual_seed(4)))
    finally:
        torch.set_num_threads(before)


def test_bf16_is_for_the_body_only() -> None:
    layer, x = torch.nn.Linear(2, 2), torch.ones(1, 2)
    with autocast(torch.device("cpu"), "bf16"):
        assert layer(x).dtype == torch.bfloat16
    with autocast(torch.device("cpu"), "fp32"):
        assert layer(x).dtype == torch.float32
