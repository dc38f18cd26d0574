"""Averages: their formula, and that swapping them in leaves no trace (test 21 of the RL sheet)."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from motionkit.errors import MotionkitError
from motionkit.nn import EMA


def _move(module: nn.Module, amount: float) -> None:
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(amount)


def test_average_follows_the_formula() -> None:
    module = nn.Linear(1, 1, bias=False)
    nn.init.constant_(module.weight, 1.0)
    ema = EMA(module.named_parameters(), 0.75)
    _move(module, 1.0)
    ema.update()
    _move(module, 1.0)
    ema.update()
    assert ema.tensors()["weight"].item() == pytest.approx(0.75 * (0.75 * 1 + 0.25 * 2) + 0.25 * 3)


def test_warmup_forgets_the_start() -> None:
    module = nn.Linear(1, 1, bias=False)
    ema = EMA(module.named_parameters(), 0.999, warmup=True)
    nn.init.constant_(module.weight, 5.0)
    for _ in range(50):
        ema.update()
    assert ema.tensors()["weight"].item() == pytest.approx(5.0, abs=1e-3)


def test_weights_come_back_bit_for_bit() -> None:
    torch.manual_seed(0)
    module = nn.Linear(5, 3)
    ema = EMA(module.named_parameters(), 0.9)
    _move(module, 0.123)
    ema.update()
    live = {name: value.clone() for name, value in module.state_dict().items()}
    average = {name: value.clone() for name, value in ema.tensors().items()}

    def interrupted() -> None:
        with ema.applied():
            assert all(torch.equal(module.state_dict()[name], average[name]) for name in average)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        interrupted()
    assert not torch.equal(live["weight"], average["weight"])
    assert all(torch.equal(module.state_dict()[name], live[name]) for name in live)
    assert all(torch.equal(ema.tensors()[name], average[name]) for name in average)


def test_optimizer_keeps_training_the_live_weights() -> None:
    module = nn.Linear(2, 1)
    ema = EMA(module.named_parameters(), 0.5)
    optimizer = torch.optim.SGD(module.parameters(), lr=1.0)
    with ema.applied():
        pass
    before = module.weight.detach().clone()
    module(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    assert torch.allclose(module.weight, before - 1.0)


def test_restore_refuses_another_model() -> None:
    ema = EMA(nn.Linear(2, 1).named_parameters(), 0.5)
    with pytest.raises(MotionkitError, match="bias"):
        ema.load({"weight": torch.zeros(1, 2)})
    with pytest.raises(MotionkitError, match="shape"):
        ema.load({"weight": torch.zeros(1, 3), "bias": torch.zeros(1)})
