"""Sampling with a graph: its gradient against the product rule and finite differences, and what it keeps."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from motionkit.rl import DDIM, Chain, Schedule, StepPlan, graph_rollout, rollout

STEPS = StepPlan.build(Schedule.cosine(50), DDIM(0.0), steps=5)


class Gain(nn.Module):
    """``x0_hat = theta x``: the whole sampler is a polynomial in theta."""

    def __init__(self, theta: float) -> None:
        super().__init__()
        self.theta = nn.Parameter(torch.tensor(theta))
        self.calls = 0

    def forward(self, x: Tensor, timestep: Tensor) -> Tensor:
        self.calls += 1
        return self.theta * x


def derivative(theta: float, chain: Chain, length: int) -> tuple[float, float]:
    """Return x_0 and d x_0 / d theta for x_T = 1, by the product rule, in float64."""
    rows = list(zip(STEPS.c_x0.tolist(), STEPS.c_xt.tolist(), strict=True))
    x, slope = 1.0, 0.0
    for position, (c_x0, c_xt) in enumerate(rows):
        own = chain == "all" or (chain == "first" and position < length)
        own |= chain == "last" and position >= len(rows) - length
        slope = (c_x0 * theta + c_xt) * slope + (c_x0 * x if own else 0.0)
        x = (c_x0 * theta + c_xt) * x
    return x, slope


@pytest.mark.parametrize("save_memory", [False, True])
@pytest.mark.parametrize(("chain", "length"), [("all", 0), ("first", 1), ("first", 3), ("last", 1), ("last", 2)])
def test_the_gradient_is_that_of_the_product_rule(chain: Chain, length: int, save_memory: bool) -> None:
    network = Gain(0.7)
    start = torch.ones(2, 3, 1)
    done = graph_rollout(
        network, STEPS, start, lambda t: start, network=network, chain=chain, length=length, save_memory=save_memory
    )
    value, slope = derivative(0.7, chain, length)
    done.x0.mean().backward()
    assert network.theta.grad is not None
    assert float(done.x0.detach().mean()) == pytest.approx(value, rel=1e-6)
    assert float(network.theta.grad) == pytest.approx(slope, rel=1e-5)
    assert network.theta.requires_grad


def test_it_samples_what_the_plain_sampler_does() -> None:
    network = Gain(0.7)
    start = torch.randn(2, 6, 3, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        plain = rollout(network, STEPS, start, lambda t: start, record=False)
    done = graph_rollout(network, STEPS, start, lambda t: start, network=network)
    assert torch.equal(done.x0, plain.x0)


def test_a_deep_network_agrees_with_finite_differences() -> None:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 3)).double()
    start = torch.randn(4, 6, 3)

    def value() -> Tensor:
        done = graph_rollout(lambda x, t: network(x.double()), STEPS, start, lambda t: start, network=network)
        return done.x0.double().square().mean()

    value().backward()
    parameters = list(network.parameters())
    draw = torch.Generator().manual_seed(1)
    for _ in range(3):
        direction = [torch.randn(p.shape, generator=draw, dtype=torch.float64) for p in parameters]
        size = sum(float(d.square().sum()) for d in direction) ** 0.5
        slope = sum(float((p.grad * d).sum()) for p, d in zip(parameters, direction, strict=True) if p.grad is not None)
        ends = []
        for side in (1e-2, -1e-2):
            with torch.no_grad():
                for p, d in zip(parameters, direction, strict=True):
                    p.add_(d, alpha=side / size)
                ends.append(float(value()))
                for p, d in zip(parameters, direction, strict=True):
                    p.sub_(d, alpha=side / size)
        assert slope / size == pytest.approx((ends[0] - ends[1]) / 2e-2, rel=1e-3)


def test_saving_memory_runs_each_step_twice_and_keeps_one() -> None:
    def held(save_memory: bool, steps: int) -> int:
        """Return the bytes that the graph keeps from the forward pass to the backward pass."""
        kept: dict[int, int] = {}

        def pack(tensor: Tensor) -> Tensor:
            storage = tensor.untyped_storage()
            kept[storage.data_ptr()] = storage.nbytes()
            return tensor

        network = nn.Sequential(nn.Linear(8, 256), nn.Tanh(), nn.Linear(256, 8))
        plan = StepPlan.build(Schedule.cosine(50), DDIM(0.0), steps=steps)
        start = torch.randn(4, 16, 8)
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            done = graph_rollout(
                lambda x, t: network(x), plan, start, lambda t: start, network=network, save_memory=save_memory
            )
        done.x0.sum().backward()
        return sum(kept.values())

    few, many = held(True, 5), held(True, 40)
    assert held(False, 40) > 6 * held(False, 5)
    # Only the states between the steps, 2 KB each, are kept for every step.
    assert many - few < 40 * 3 * 4 * 16 * 8 * 4
    assert many < held(False, 40) / 10


def test_the_noisy_steps_are_kept_as_the_plain_sampler_keeps_them() -> None:
    plan = StepPlan.build(Schedule.cosine(50), DDIM(1.0), steps=5, window=[0, 2])
    draw = torch.Generator().manual_seed(0)
    start = torch.randn(2, 3, 4, generator=draw)
    eps = {int(t): torch.randn(2, 3, 4, generator=draw) for t in plan.timesteps}
    network = Gain(0.7)
    kept = graph_rollout(network, plan, start, eps.__getitem__, network=network, record=True)
    with torch.no_grad():
        plain = rollout(network, plan, start, eps.__getitem__)
    assert kept.x0.requires_grad
    assert torch.equal(kept.x0, plain.x0)
    assert kept.trajectory is not None
    assert plain.trajectory is not None
    for name in ("x_t", "eps", "x0_old", "timesteps", "c_x0", "c_xt", "sigma", "sensitivity"):
        one, other = getattr(kept.trajectory, name), getattr(plain.trajectory, name)
        assert not one.requires_grad
        assert torch.equal(one, other), name
    assert graph_rollout(network, plan, start, eps.__getitem__, network=network).trajectory is None
