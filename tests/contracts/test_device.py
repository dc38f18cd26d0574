"""The device that a name stands for."""

from __future__ import annotations

import pytest
import torch

from motionkit.contracts.device import resolve_device
from motionkit.errors import MotionkitError


def test_devices_that_are_here() -> None:
    assert resolve_device("cpu") == torch.device("cpu")
    assert resolve_device("auto").type in ("cpu", "cuda", "mps")


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
