"""Layers of several steps against plain ones: the same outputs and gradients."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

from motionkit_predictor.network.unrolled import UnrolledLinear, unrolled


def model() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(UnrolledLinear(5, 7), nn.Tanh(), UnrolledLinear(7, 5, bias=False)).double()


def run(network: nn.Module, rows: Tensor, steps: int, gathered: int) -> list[Tensor]:
    """Each step reads the one before; every other one is cut off from it."""
    made = []
    with unrolled(network, gathered):
        for step in range(steps):
            rows = network(rows.detach() if step % 2 else rows)
            made.append(rows)
    return made


@pytest.mark.parametrize("gathered", [6, 4, 9])  # as many steps as there are, fewer, more
def test_outputs_and_gradients_are_those_of_plain_layers(gathered: int) -> None:
    one, other = model(), model()
    rows = torch.randn(3, 1, 5, dtype=torch.float64)
    found = []
    for network, inside in ((one, gathered), (other, 0)):
        start = rows.clone().requires_grad_()
        made = run(network, start, 6, inside)
        torch.stack(made).square().sum().backward()
        found.append([torch.stack(made), start.grad, *(parameter.grad for parameter in network.parameters())])
    for mine, theirs in zip(*found, strict=True):
        assert mine is not None
        assert theirs is not None
        assert torch.allclose(mine, theirs, rtol=1e-12, atol=1e-14)


def test_the_graph_can_be_asked_twice_and_in_part() -> None:
    """As adaptive weights do: gradients of single losses for the last layer, then those of all for all layers."""
    one, other = model(), model()
    rows = torch.randn(3, 5, dtype=torch.float64)
    found = []
    for network, inside in ((one, 4), (other, 0)):
        made = run(network, rows, 4, inside)
        last = [torch.autograd.grad(step.sum(), network[2].weight, retain_graph=True)[0] for step in made]
        sum(step.square().sum() for step in made).backward()
        found.append([*last, *(parameter.grad for parameter in network.parameters())])
    for mine, theirs in zip(*found, strict=True):
        assert torch.allclose(mine, theirs, rtol=1e-12, atol=1e-14)


def test_other_calls_are_plain() -> None:
    network = model()
    twin = copy.deepcopy(network)
    rows = torch.randn(2, 5, dtype=torch.float64)
    with unrolled(network, 3):
        total = network(rows).sum() + network(rows[:1]).sum()  # rows of another number
    (total + network(rows).sum()).backward()
    (2 * twin(rows).sum() + twin(rows[:1]).sum()).backward()
    for mine, theirs in zip(network.parameters(), twin.parameters(), strict=True):
        assert mine.grad is not None
        assert theirs.grad is not None
        assert torch.allclose(mine.grad, theirs.grad)


def test_without_a_graph_nothing_is_kept() -> None:
    network = model()
    with torch.no_grad(), unrolled(network, 2):
        assert not network(torch.randn(2, 5, dtype=torch.float64)).requires_grad
    network[0].requires_grad_(False)
    with unrolled(network, 2):
        network(torch.randn(2, 5, dtype=torch.float64)).sum().backward()
    assert network[0].weight.grad is None
    assert network[2].weight.grad is not None


def test_names_are_those_of_linear_layers() -> None:
    assert list(model().state_dict()) == ["0.weight", "0.bias", "2.weight"]
