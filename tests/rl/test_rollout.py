"""Rollouts: windows, the ODE path, what is recorded, moments on Gaussian data, and the graph through them."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from motionkit.errors import MotionkitError
from motionkit.rl import DDIM, DDPM, Chain, NoiseSource, Schedule, StepPlan, graph_rollout, rollout

SCHEDULE = Schedule.cosine(50)
PROMPTS, SAMPLES = torch.tensor([3, 3, 8]), torch.tensor([0, 1, 0])
SHAPE = (5, 4)


def predict(x: Tensor, timestep: Tensor) -> Tensor:
    return torch.tanh(0.7 * x + 0.01 * timestep.view(-1, 1, 1).float())


def draw(plan: StepPlan, *, record: bool = False) -> Tensor:
    source = NoiseSource(0)
    start = source.start(0, PROMPTS, SAMPLES, SHAPE)
    return rollout(predict, plan, start, source.steps(0, PROMPTS, SAMPLES, SHAPE), record=record).x0


def ode(start: Tensor, steps: list[int]) -> Tensor:
    """DDIM's deterministic sampler, written on its own."""
    x = start
    for i, t in enumerate(steps):
        now = SCHEDULE.alphas_cumprod[t]
        then = SCHEDULE.alphas_cumprod[steps[i + 1]] if i + 1 < len(steps) else torch.ones((), dtype=torch.float64)
        keep = ((1 - then) / (1 - now)).sqrt()
        x = (then.sqrt() - keep * now.sqrt()).item() * predict(x, torch.full((len(x),), t)) + keep.item() * x
    return x


def test_eta_zero_and_an_empty_window_are_the_ode_to_the_bit() -> None:
    start = NoiseSource(0).start(0, PROMPTS, SAMPLES, SHAPE)
    steps = SCHEDULE.spaced(10)
    expected = ode(start, steps)
    for sampler, window in ((DDIM(0.0), None), (DDIM(1.0), ()), (DDIM(0.5), []), (DDPM(), ())):
        assert torch.equal(draw(StepPlan.build(SCHEDULE, sampler, steps=10, window=window)), expected)
    assert not torch.equal(draw(StepPlan.build(SCHEDULE, DDIM(1.0), steps=10, window=[0])), expected)


@pytest.mark.parametrize(("eta", "window"), [(0.0, None), (1.0, ()), (1.0, [9])])
def test_nothing_to_train_is_an_explicit_error(eta: float, window: list[int] | None) -> None:
    plan = StepPlan.build(SCHEDULE, DDIM(eta), steps=10, window=window)
    assert plan.trainable == ()
    with pytest.raises(MotionkitError, match="nothing to train"):
        draw(plan, record=True)


def test_the_last_step_adds_no_noise_and_is_never_scored() -> None:
    for sampler in (DDPM(), DDIM(1.0)):
        plan = StepPlan.build(SCHEDULE, sampler)
        assert plan.trainable == tuple(range(49))
        assert (plan.c_x0[-1], plan.c_xt[-1], plan.sigma[-1], plan.sensitivity[-1]) == (1, 0, 0, 0)


def test_a_window_scores_its_own_steps_only() -> None:
    plan = StepPlan.build(SCHEDULE, DDIM(1.0), steps=10, window=range(2, 5))
    assert plan.trainable == (2, 3, 4)
    source = NoiseSource(0)
    result = rollout(predict, plan, source.start(0, PROMPTS, SAMPLES, SHAPE), source.steps(0, PROMPTS, SAMPLES, SHAPE))
    trajectory = result.trajectory
    assert trajectory is not None
    assert trajectory.x_t.shape == (3, 3, *SHAPE)
    assert trajectory.timesteps.tolist() == plan.timesteps[2:5].tolist()
    for step, t in enumerate(trajectory.timesteps.tolist()):
        assert torch.equal(trajectory.eps[step], source.at(0, PROMPTS, SAMPLES, t, SHAPE))
        assert torch.equal(trajectory.x0_old[step], predict(trajectory.x_t[step], torch.full((3,), t)))
    assert torch.equal(trajectory.x_next[:2], trajectory.x_t[1:])


@pytest.mark.parametrize("graph", [False, True])
def test_recording_changes_nothing_and_the_caller_decides_on_a_graph(graph: bool) -> None:
    plan = StepPlan.build(SCHEDULE, DDIM(1.0), steps=10)
    assert torch.equal(draw(plan), draw(plan, record=True))
    weight = torch.ones((), requires_grad=True)
    source = NoiseSource(0)
    with torch.set_grad_enabled(graph):
        result = rollout(
            lambda x, t: weight * predict(x, t),
            plan,
            source.start(0, PROMPTS, SAMPLES, SHAPE),
            source.steps(0, PROMPTS, SAMPLES, SHAPE),
        )
    assert result.trajectory is not None
    assert not result.trajectory.eps.requires_grad
    kept = (result.x0, result.trajectory.x_t, result.trajectory.x0_old, result.trajectory.x_next)
    assert all(tensor.requires_grad == graph for tensor in kept)


def test_pairs_gather_mixed_steps() -> None:
    plan = StepPlan.build(SCHEDULE, DDIM(1.0), steps=6)
    source = NoiseSource(1)
    result = rollout(predict, plan, source.start(0, PROMPTS, SAMPLES, SHAPE), source.steps(0, PROMPTS, SAMPLES, SHAPE))
    trajectory = result.trajectory
    assert trajectory is not None
    assert trajectory.num_pairs == 15
    rows = trajectory.pairs(torch.tensor([14, 0, 4]))
    assert rows.sample.tolist() == [2, 0, 1]
    assert rows.timestep.tolist() == trajectory.timesteps[[4, 0, 1]].tolist()
    assert torch.equal(rows.x_t, torch.stack([trajectory.x_t[4, 2], trajectory.x_t[0, 0], trajectory.x_t[1, 1]]))
    assert torch.equal(rows.sensitivity, trajectory.sensitivity[[4, 0, 1]])


@pytest.mark.parametrize(("scale", "expected"), [(1.0, 0.955), (0.02, None)])
def test_moments_on_gaussian_data(scale: float, expected: float | None) -> None:
    """With the exact posterior mean of N(0, scale^2) data, the sample std follows a closed-form recursion."""
    plan = StepPlan.build(SCHEDULE, DDPM())
    gain = {}
    for t in range(50):
        ab = SCHEDULE.alphas_cumprod[t].item()
        gain[t] = ab**0.5 * scale**2 / (ab * scale**2 + 1 - ab)
    std = 1.0
    for t, c_x0, c_xt, sigma in zip(
        plan.timesteps.tolist(), plan.c_x0.tolist(), plan.c_xt.tolist(), plan.sigma.tolist(), strict=True
    ):
        std = ((c_x0 * gain[t] + c_xt) ** 2 * std**2 + sigma**2) ** 0.5
    if expected is not None:
        assert std == pytest.approx(expected, abs=2e-3)
    ids, shape = torch.arange(200), (1000, 1)
    source = NoiseSource(5)
    table = torch.tensor([gain[t] for t in range(50)])
    result = rollout(
        lambda x, t: table[t].view(-1, 1, 1) * x,
        plan,
        source.start(0, ids, ids, shape),
        source.steps(0, ids, ids, shape),
        record=False,
    )
    assert result.x0.std().item() == pytest.approx(std, rel=0.01)
    assert result.x0.mean().item() == pytest.approx(0.0, abs=4 * std / 200000**0.5)


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


def test_visited_states_are_those_of_all_steps_scored_ones_first() -> None:
    plan = StepPlan.build(SCHEDULE, DDIM(1.0), steps=5, window=[1, 2])
    source, asked = NoiseSource(0), []

    def record(x: Tensor, timestep: Tensor) -> Tensor:
        asked.append((int(timestep[0]), x.clone()))
        return predict(x, timestep)

    start = source.start(0, PROMPTS, SAMPLES, SHAPE)
    visited = rollout(record, plan, start, source.steps(0, PROMPTS, SAMPLES, SHAPE)).visited
    assert visited.num_pairs == 5 * 3
    x_t, timestep, sample = visited.pairs(torch.arange(15))
    in_order = [asked[place] for place in (1, 2, 0, 3, 4)]
    assert timestep.tolist() == [t for t, _ in in_order for _ in range(3)]
    assert sample.tolist() == [0, 1, 2] * 5
    assert torch.equal(x_t, torch.cat([x for _, x in in_order]))
