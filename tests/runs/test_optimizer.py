"""An optimiser taken apart and put together steps exactly as if nothing had happened."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
import torch
from torch import nn

from motionkit.errors import MotionkitError
from motionkit.runs import flatten_optimizer, restore_optimizer

Maker = Callable[[nn.Module], torch.optim.Optimizer]

MAKERS: dict[str, Maker] = {
    "adamw": lambda net: torch.optim.AdamW(net.parameters(), lr=1e-2, amsgrad=True),
    "groups": lambda net: torch.optim.AdamW(
        [
            {"params": [net.get_parameter("0.weight")], "lr": 3e-2},
            {"params": [net.get_parameter("0.bias")], "weight_decay": 0.0},
        ],
        lr=1e-3,
    ),
    "tensor-lr": lambda net: torch.optim.AdamW(net.parameters(), lr=torch.tensor(1e-2), foreach=False),
    "sgd": lambda net: torch.optim.SGD(net.parameters(), lr=1e-2, momentum=0.9),
    "sgd-plain": lambda net: torch.optim.SGD(net.parameters(), lr=1e-2),
}


def steps(net: nn.Module, optimizer: torch.optim.Optimizer, seed: int) -> None:
    torch.manual_seed(seed)
    for _ in range(3):
        optimizer.zero_grad()
        net(torch.randn(5, 4)).square().sum().backward()
        optimizer.step()


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("kind", MAKERS)
def test_three_and_three_steps_equal_six(kind: str, named: bool) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 3))
    optimizer = MAKERS[kind](net)
    steps(net, optimizer, 1)
    weights = {name: value.clone() for name, value in net.state_dict().items()}
    tensors, state = flatten_optimizer(optimizer, net if named else None)
    tensors, state = {name: value.clone() for name, value in tensors.items()}, json.loads(json.dumps(state))
    steps(net, optimizer, 2)

    other = nn.Sequential(nn.Linear(4, 3))
    other.load_state_dict(weights)
    fresh = MAKERS[kind](other)
    restore_optimizer(fresh, tensors, state, other if named else None)
    steps(other, fresh, 2)
    for name, value in net.state_dict().items():
        assert torch.equal(value, other.state_dict()[name]), name
    assert all(isinstance(group.get("betas", ()), tuple) for group in fresh.param_groups)


def test_names_label_the_tensors() -> None:
    net = nn.Sequential(nn.Linear(4, 3))
    optimizer = torch.optim.AdamW(net.parameters())
    steps(net, optimizer, 1)
    tensors, _ = flatten_optimizer(optimizer, net)
    assert set(tensors) == {
        f"0.{part}/{key}" for part in ("weight", "bias") for key in ("step", "exp_avg", "exp_avg_sq")
    }


def test_another_network_is_refused_by_name() -> None:
    net = nn.Sequential(nn.Linear(4, 3))
    tensors, state = flatten_optimizer(torch.optim.AdamW(net.parameters()), net)
    other = nn.Sequential(nn.Linear(4, 3, bias=False))
    with pytest.raises(MotionkitError, match="does not fit") as caught:
        restore_optimizer(torch.optim.AdamW(other.parameters()), tensors, state, other)
    assert "0.bias" in caught.value.why
    with pytest.raises(MotionkitError, match="AdamW does not fit this SGD"):
        restore_optimizer(torch.optim.SGD(net.parameters()), tensors, state, net)
