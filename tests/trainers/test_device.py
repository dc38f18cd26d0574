"""Devices, seeds, threads, precision."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from motionkit.config import TrainerSettings
from motionkit.errors import MotionkitError
from motionkit.trainers._device import autocast, describe_device, resolve_device, seed_everything, set_up


def test_devices_that_are_here() -> None:
    assert resolve_device("cpu") == torch.device("cpu")
    assert resolve_device("auto").type in ("cpu", "cuda", "mps")
    assert "threads" in describe_device(torch.device("cpu"))


@pytest.mark.parametrize("device", ["cuda:99", "99"])
def test_a_device_that_is_not_here_is_refused_with_those_that_are(device: str) -> None:
    with pytest.raises(MotionkitError, match="not on this machine") as caught:
        resolve_device(device)
    assert caught.value.code == 2
    assert "cpu" in caught.value.why


def test_a_name_that_is_no_device_is_refused() -> None:
    with pytest.raises(MotionkitError, match="not a device"):
        resolve_device("gpu")


def test_a_cuda_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert [str(resolve_device(name)) for name in ("auto", "cuda", "1")] == ["cuda:0", "cuda:0", "cuda:1"]
    with pytest.raises(MotionkitError, match="not on this machine"):
        resolve_device("cuda:2")


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
