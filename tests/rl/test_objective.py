"""The objective: gradients by hand, clip regions, known optimum, additivity, the audit and the sentinel."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from motionkit.errors import MotionkitError
from motionkit.rl import (
    DDIM,
    NoiseSource,
    Objective,
    Schedule,
    StepPlan,
    Surrogate,
    Transitions,
    audit_ratio,
    clipped_surrogate,
    group_std,
    leave_one_out,
    length_mask,
    linear_surrogate,
    require_eval,
    rollout,
    roughness,
    segment_bounds,
    segment_frames,
    valid_dims,
)
from motionkit.rl._objective import RatioNorm, frame_sum, ratio_bound

from .toys import kl_nats, log_ratio_nats, transitions

NORMS: tuple[RatioNorm, ...] = ("none", "snr", "guard")
LENGTHS = torch.tensor([6, 4, 5, 6])
IDS = torch.arange(4)
BOUNDS = torch.tensor([[[0, 2], [2, 6]], [[0, 4], [0, 0]], [[0, 3], [3, 5]], [[0, 1], [1, 6]]])


class Denoiser(nn.Module):
    """A small network over ``[M, 6, 3]`` that sees the timestep."""

    def __init__(self, *, dropout: float = 0.0) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.one, self.two, self.drop = nn.Linear(4, 16), nn.Linear(16, 3), nn.Dropout(dropout)
        for parameter in self.parameters():
            nn.init.normal_(parameter, std=0.4, generator=generator)

    def forward(self, x: Tensor, timestep: Tensor) -> Tensor:
        clock = (timestep / 50).view(-1, 1, 1).expand(-1, x.shape[1], 1)
        out: Tensor = self.two(self.drop(torch.tanh(self.one(torch.cat([x, clock], -1)))))
        return out


@torch.no_grad()
def sampled(network: nn.Module, *, seed: int = 0) -> Transitions:
    """Return all pairs of a rollout with a window of four DDIM steps."""
    plan = StepPlan.build(Schedule.cosine(50), DDIM(1.0), steps=10, window=range(2, 6))
    source = NoiseSource(seed)
    start = source.start(0, IDS, IDS, (6, 3))
    trajectory = rollout(network, plan, start, source.steps(0, IDS, IDS, (6, 3))).trajectory
    assert trajectory is not None
    return trajectory.pairs(torch.arange(trajectory.num_pairs))


def pick(rows: Transitions, index: Tensor) -> Transitions:
    return Transitions(**{name: getattr(rows, name)[index] for name in Transitions.__dataclass_fields__})


def gradient(network: nn.Module) -> Tensor:
    parts = [parameter.grad for parameter in network.parameters()]
    assert all(part is not None for part in parts)
    return torch.cat([part.flatten() for part in parts if part is not None])


ADVANTAGE = torch.tensor([1.2, -0.7, 0.4, -0.9])
SEGMENT_ADVANTAGE = torch.tensor([[1.2, -0.3], [-0.7, 0.0], [0.4, 1.1], [-0.9, 0.2]])


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("on_policy", [True, False])
def test_gradient_by_hand_for_a_linear_denoiser(norm: RatioNorm, on_policy: bool) -> None:
    """x0 = W x_t, one row: the gradient is -A f s <eps, d x0 / d W> / sqrt(D) with the step factor f of the norm."""
    generator = torch.Generator().manual_seed(3)
    x_t, eps = (torch.randn(1, 5, 3, generator=generator, dtype=torch.float64) for _ in range(2))
    weight = torch.randn(3, 3, generator=generator, dtype=torch.float64).requires_grad_()
    s, c = torch.tensor([2.5], dtype=torch.float64), torch.tensor([0.3], dtype=torch.float64)
    rows = transitions(x_t, eps, (x_t @ weight).detach(), sensitivity=s, c_x0=c)
    mask = length_mask(torch.tensor([4]), 5)
    objective = Objective(ratio_norm=norm, surrogate=Surrogate(on_policy=on_policy))
    advantage = torch.tensor([-1.7], dtype=torch.float64)
    objective(rows, x_t @ weight, advantage, mask, total=1).loss.backward()
    factor = {"none": 2.5, "snr": 1.0, "guard": 0.3}[norm] / 12**0.5
    by_hand = 1.7 * factor * x_t[0, :4].T @ eps[0, :4]
    assert weight.grad is not None
    torch.testing.assert_close(weight.grad, by_hand, rtol=1e-6, atol=0)


def test_clip_regions_have_exactly_zero_gradient() -> None:
    log_ratio = torch.tensor([0.5, 0.5, -0.5, -0.5, 0.1, -0.1, 0.25], requires_grad=True)
    advantage = torch.tensor([1.0, -1.0, 1.0, -1.0, 1.0, -1.0, 1.0])
    loss = clipped_surrogate(log_ratio, advantage, 0.2, 0.3)
    loss.sum().backward()
    ratio = log_ratio.detach().exp()
    assert log_ratio.grad is not None
    expected = -(ratio * advantage)
    expected[0], expected[3] = 0.0, 0.0
    assert torch.equal(log_ratio.grad[[0, 3]], torch.zeros(2))
    torch.testing.assert_close(log_ratio.grad, expected)
    torch.testing.assert_close(loss.detach()[[0, 3]], torch.tensor([-1.3, 0.8]))


def test_far_ratios_stay_finite_and_can_be_pulled_back() -> None:
    log_ratio = torch.tensor([500.0], requires_grad=True)
    clipped_surrogate(log_ratio, torch.tensor([-1.0]), 0.2, 0.2).sum().backward()
    assert log_ratio.grad is not None
    assert bool(torch.isfinite(log_ratio.grad))
    assert log_ratio.grad.item() > 0


def test_on_policy_linear_and_clipped_surrogates_agree() -> None:
    network = Denoiser()
    rows = sampled(network)
    mask = length_mask(LENGTHS, 6)[rows.sample]
    grads = []
    for on_policy in (True, False):
        network.zero_grad()
        terms = Objective(surrogate=Surrogate(on_policy=on_policy))(
            rows, network(rows.x_t, rows.timestep), ADVANTAGE[rows.sample], mask, total=len(rows)
        )
        terms.loss.backward()
        assert terms.loss.item() == pytest.approx(-ADVANTAGE.mean().item(), abs=1e-6)
        grads.append(gradient(network))
    torch.testing.assert_close(grads[0], grads[1], rtol=1e-5, atol=1e-7)
    log_ratio = torch.zeros(3, requires_grad=True)
    linear_surrogate(log_ratio, torch.tensor([1.0, -2.0, 0.0])).sum().backward()
    assert log_ratio.grad is not None
    assert log_ratio.grad.tolist() == [-1.0, 2.0, 0.0]


def test_legacy_policy_loss_as_recorded(shared: Path) -> None:
    recorded = np.load(shared / "fixtures/mdm/origin_grpo_math.npz")
    groups = torch.arange(12) // int(recorded["group_size"])
    advantage = group_std(torch.from_numpy(recorded["rewards"]), groups).values
    log_ratio = torch.from_numpy(recorded["logp_cur"] - recorded["logp_ref"]).clamp(-np.log(1e4), np.log(1e4))
    loss = clipped_surrogate(log_ratio, advantage, 0.2, 0.2).mean().item()
    assert loss == pytest.approx(float(recorded["policy_loss"]), rel=1e-5)


@pytest.mark.parametrize("on_policy", [True, False])
def test_segments_with_one_advantage_are_the_whole_motion(on_policy: bool) -> None:
    network = Denoiser()
    rows = sampled(network)
    mask = length_mask(LENGTHS, 6)[rows.sample]
    objective = Objective(surrogate=Surrogate(on_policy=on_policy))
    grads = []
    for bounds in (None, BOUNDS):
        network.zero_grad()
        advantage = ADVANTAGE if bounds is None else ADVANTAGE[:, None].expand(4, 2)
        terms = objective(
            rows,
            network(rows.x_t, rows.timestep),
            advantage[rows.sample],
            mask,
            total=len(rows),
            bounds=None if bounds is None else bounds[rows.sample],
        )
        terms.loss.backward()
        grads.append(gradient(network))
    torch.testing.assert_close(grads[0], grads[1], rtol=1e-4, atol=1e-6)


def test_segment_credit_is_frame_weights() -> None:
    network = Denoiser()
    rows = sampled(network)
    mask = length_mask(LENGTHS, 6)[rows.sample]
    objective, grads = Objective(), []
    for segmented in (True, False):
        network.zero_grad()
        x0 = network(rows.x_t, rows.timestep)
        if segmented:
            terms = objective(
                rows, x0, SEGMENT_ADVANTAGE[rows.sample], mask, total=len(rows), bounds=BOUNDS[rows.sample]
            )
            loss = terms.loss
        else:
            # On policy with snr and root: minus <eps, x0 - x0_old> per frame, times that frame's advantage.
            weights = (segment_frames(BOUNDS, 6) * SEGMENT_ADVANTAGE[..., None]).sum(1)[rows.sample]
            frames = frame_sum((x0 - rows.x0_old) * rows.eps, mask) * weights
            loss = -(frames.sum(-1) / valid_dims(mask, x0.shape[-1]).sqrt()).sum() / len(rows)
        loss.backward()
        grads.append(gradient(network))
    torch.testing.assert_close(grads[0], grads[1], rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("on_policy", [True, False])
@pytest.mark.parametrize("segmented", [True, False])
@pytest.mark.parametrize("size", [1, 3])
def test_micro_batches_add_up(on_policy: bool, segmented: bool, size: int) -> None:
    network, reference = Denoiser(), Denoiser()
    rows = sampled(network)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.02)
        x0_reference = reference(rows.x_t, rows.timestep)
    objective = Objective(surrogate=Surrogate(on_policy=on_policy), kl_coef=0.3)
    mask = length_mask(LENGTHS, 6)
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(0))

    def run(chunk: int) -> tuple[Tensor, float, dict[str, float]]:
        network.zero_grad()
        loss, sums = 0.0, dict[str, float]()
        for index in order.split(chunk):
            part = pick(rows, index)
            terms = objective(
                part,
                network(part.x_t, part.timestep),
                (SEGMENT_ADVANTAGE if segmented else ADVANTAGE)[part.sample],
                mask[part.sample],
                total=len(rows),
                bounds=BOUNDS[part.sample] if segmented else None,
                x0_reference=x0_reference[index],
            )
            terms.loss.backward()
            loss += terms.loss.item()
            for name, value in terms.sums.items():
                sums[name] = sums.get(name, 0.0) + value.item()
        return gradient(network), loss, sums

    whole, part = run(len(rows)), run(size)
    assert (part[0] - whole[0]).norm().item() <= 1e-5 * whole[0].norm().item()
    assert part[1] == pytest.approx(whole[1], abs=1e-6)
    for name, value in whole[2].items():
        assert part[2][name] == pytest.approx(value, rel=1e-5, abs=1e-6), name
    assert whole[1] == pytest.approx(whole[2]["policy"] + whole[2]["kl"], rel=1e-5)


def test_loop_over_timesteps_equals_one_flat_forward() -> None:
    network = Denoiser()
    rows = sampled(network)
    mask, objective, grads = length_mask(LENGTHS, 6), Objective(), []
    for loop in (rows.timestep.unique().tolist(), [None]):
        network.zero_grad()
        for t in loop:
            part = rows if t is None else pick(rows, (rows.timestep == t).nonzero().flatten())
            x0 = network(part.x_t, part.timestep)
            terms = objective(part, x0, ADVANTAGE[part.sample], mask[part.sample], total=len(rows))
            terms.loss.backward()
        grads.append(gradient(network))
    assert (grads[0] - grads[1]).norm().item() <= 1e-5 * grads[1].norm().item()


def test_attached_trajectory_has_no_policy_gradient_and_is_refused() -> None:
    """The sentinel: with states that carry the graph, x_next - mean = sigma eps whatever the weights are."""
    weight = torch.full((3, 3), 0.3, dtype=torch.float64, requires_grad=True)
    x_t, eps = (torch.randn(4, 6, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(k)) for k in (0, 1))
    advantage = ADVANTAGE.double()

    def policy_gradient(*, attached: bool) -> Tensor:
        mean = x_t @ weight
        x_next = mean + eps if attached else (mean + eps).detach()
        log_prob = -0.5 * (x_next - x_t @ weight).square().sum((1, 2))
        (grad,) = torch.autograd.grad((advantage * log_prob).sum(), weight)
        return grad

    assert policy_gradient(attached=True).abs().max().item() < 1e-12
    assert policy_gradient(attached=False).norm().item() > 1.0
    rows = transitions(x_t, eps, x_t @ weight)
    with pytest.raises(MotionkitError, match="carries a graph") as caught:
        Objective()(rows, x_t @ weight, advantage, length_mask(LENGTHS, 6), total=4)
    assert caught.value.code == 1


def test_our_rollout_gives_a_gradient_and_is_detached() -> None:
    network = Denoiser()
    rows = sampled(network)
    assert not any(tensor.requires_grad for tensor in (rows.x_t, rows.eps, rows.x0_old, rows.x_next))
    mask = length_mask(LENGTHS, 6)[rows.sample]
    terms = Objective()(rows, network(rows.x_t, rows.timestep), ADVANTAGE[rows.sample], mask, total=len(rows))
    terms.loss.backward()
    assert gradient(network).norm().item() > 1e-3


def test_first_update_has_ratio_one_and_the_audit_says_so() -> None:
    network = Denoiser().eval()
    rows = sampled(network)
    mask = length_mask(LENGTHS, 6)[rows.sample]
    terms = Objective()(rows, network(rows.x_t, rows.timestep), ADVANTAGE[rows.sample], mask, total=len(rows))
    assert terms.log_ratio_per_dim.abs().max().item() <= 1e-6
    assert terms.sums["ratio"].item() == pytest.approx(1.0, abs=1e-6)
    table = audit_ratio(terms.log_ratio_per_dim, rows.sensitivity, rows.timestep)
    assert list(table) == rows.timestep.unique_consecutive().tolist()
    assert max(table.values()) <= 1e-6


def test_dropout_is_caught_twice() -> None:
    network = Denoiser(dropout=0.1)
    with pytest.raises(MotionkitError, match="training mode"):
        require_eval(network)
    require_eval(network.eval())
    network.train()
    rows = sampled(network)
    mask = length_mask(LENGTHS, 6)[rows.sample]
    terms = Objective()(rows, network(rows.x_t, rows.timestep), ADVANTAGE[rows.sample], mask, total=len(rows))
    with pytest.raises(MotionkitError) as caught:
        audit_ratio(terms.log_ratio_per_dim, rows.sensitivity, rows.timestep)
    assert caught.value.code == 1
    assert "dropout" in caught.value.fix


def test_audit_bounds_per_timestep() -> None:
    s = torch.tensor([0.03, 1.0, 3.2, 19.7])
    assert ratio_bound(s).tolist() == pytest.approx([1e-6] * 4)
    assert ratio_bound(s, "bfloat16").tolist() == pytest.approx([1e-4, 1e-4, 1.024e-3, 3.881e-2], rel=1e-3)
    steps = torch.tensor([9, 5, 2, 1])
    audit_ratio(torch.tensor([5e-5, -5e-5, 6e-4, -2e-2]), s, steps, "bfloat16")
    for bad in (5e-2, float("nan"), float("inf")):
        with pytest.raises(MotionkitError, match="timestep 1 "):
            audit_ratio(torch.tensor([0.0, 0.0, 0.0, bad]), s, steps, "bfloat16")


def bandit_gradient(*, baseline: str, group: int) -> float:
    """Gradient of E[-(x - 1)^2], x ~ N(theta, 1), theta = 0, by the objective; the truth is 2."""
    count = 1_200_000
    eps = torch.randn(count, 1, 1, generator=torch.Generator().manual_seed(group), dtype=torch.float64)
    theta = torch.zeros((), dtype=torch.float64, requires_grad=True)
    rows = transitions(torch.zeros_like(eps), eps, torch.zeros_like(eps))
    reward = -(eps.view(-1, group) - 1).square()
    if baseline == "mean":
        advantage = (reward - reward.mean(1, keepdim=True)).flatten()
    else:
        few = 48  # the vectorised statistics hold one row per group: enough groups to compare, then the same formula
        ids = torch.arange(few * group) // group
        checked = leave_one_out(reward[:few].flatten(), ids, scale="none", clip=None).values
        advantage = ((reward - reward.mean(1, keepdim=True)) * group / (group - 1)).flatten()
        torch.testing.assert_close(checked.double(), advantage[: few * group], rtol=1e-5, atol=1e-6)
    mask = torch.ones(count, 1, dtype=torch.bool)
    terms = Objective(ratio_norm="none")(rows, theta.expand(count, 1, 1), advantage, mask, total=count)
    terms.loss.backward()
    assert theta.grad is not None
    return -theta.grad.item()


@pytest.mark.parametrize("group", [2, 4])
def test_leave_one_out_is_unbiased_and_the_mean_baseline_is_not(group: int) -> None:
    assert bandit_gradient(baseline="leave-one-out", group=group) == pytest.approx(2.0, rel=0.01)
    assert bandit_gradient(baseline="mean", group=group) == pytest.approx(2.0 * (1 - 1 / group), rel=0.01)

    def expected_reward(theta: float) -> float:
        eps = torch.randn(1_000_000, generator=torch.Generator().manual_seed(9), dtype=torch.float64)
        return -(theta + eps - 1).square().mean().item()

    difference = (expected_reward(1e-3) - expected_reward(-1e-3)) / 2e-3
    assert difference == pytest.approx(2.0, rel=0.02)


def test_known_optimum_with_kl() -> None:
    """Reward -k (x - c)^2 / 2, prior N(0, 1), coefficient beta: the best mean is k c / (k + beta)."""
    k, c, beta = 1.0, 1.0, 0.5
    theta = torch.zeros((), requires_grad=True)
    optimizer = torch.optim.SGD([theta], lr=0.05)
    source, ids = NoiseSource(0), torch.arange(1024)
    objective = Objective(ratio_norm="none", kl_coef=beta)
    mask = torch.ones(1024, 1, dtype=torch.bool)
    path = []
    for step in range(400):
        eps = source.at(step, ids, ids, 0, (1, 1))
        old = theta.detach().expand(1024, 1, 1)
        rows = transitions(torch.zeros_like(eps), eps, old)
        reward = -0.5 * k * (rows.x_next[:, 0, 0] - c).square()
        advantage = leave_one_out(reward, ids // 128, scale="none").values
        terms = objective(
            rows, theta.expand(1024, 1, 1), advantage, mask, total=1024, x0_reference=torch.zeros_like(eps)
        )
        optimizer.zero_grad()
        terms.loss.backward()
        optimizer.step()
        path.append(theta.item())
    assert sum(path[-100:]) / 100 == pytest.approx(k * c / (k + beta), abs=0.03)


@pytest.mark.parametrize("on_policy", [True, False])
def test_constant_reward_leaves_the_parameters_alone_to_the_bit(on_policy: bool) -> None:
    network = Denoiser()
    before = [parameter.clone() for parameter in network.parameters()]
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-2, weight_decay=0.0)
    for step in range(2):
        rows = sampled(network, seed=step)
        result = leave_one_out(torch.full((4,), 0.7), torch.tensor([0, 0, 1, 1]))
        assert result.zero_variance.item() == 2
        mask = length_mask(LENGTHS, 6)[rows.sample]
        x0 = network(rows.x_t, rows.timestep)
        terms = Objective(surrogate=Surrogate(on_policy=on_policy))(
            rows, x0, result.values[rows.sample], mask, total=len(rows)
        )
        optimizer.zero_grad()
        terms.loss.backward()
        optimizer.step()
    for parameter, old in zip(network.parameters(), before, strict=True):
        assert torch.equal(parameter, old)


@pytest.mark.parametrize("norm", NORMS)
def test_normalised_ratio_away_from_the_old_policy(norm: RatioNorm) -> None:
    """The exact log-ratio, then divided by s (snr), or with its mean taken out and times sigma (guard)."""
    rows = sampled(Denoiser())
    mask = length_mask(LENGTHS, 6)[rows.sample]
    x0 = rows.x0_old + 0.03 * torch.randn(rows.x_t.shape, generator=torch.Generator().manual_seed(0))
    exact = log_ratio_nats(x0, rows.x0_old, rows.eps, rows.sensitivity, mask)
    if norm == "snr":
        exact = exact / rows.sensitivity
    if norm == "guard":
        shift = kl_nats(x0, rows.x0_old, rows.sensitivity, mask)
        exact = rows.sigma * (exact + shift)
    ratio = (exact / (mask.sum(1) * 3).sqrt()).exp()
    objective = Objective(ratio_norm=norm, surrogate=Surrogate(0.9, 9.0, on_policy=False))
    terms = objective(rows, x0, torch.ones(len(rows)), mask, total=len(rows))
    assert terms.loss.item() == pytest.approx(-ratio.mean().item(), rel=1e-6)
    assert terms.sums["ratio"].item() == pytest.approx(ratio.mean().item(), rel=1e-6)
    assert abs(ratio.mean().item() - 1) > 1e-5


def test_segments_end_with_the_motion() -> None:
    """A segment that claims padding owns only its valid frames."""
    network = Denoiser()
    rows = sampled(network)
    mask = length_mask(LENGTHS, 6)[rows.sample]
    x0, advantage = network(rows.x_t, rows.timestep), SEGMENT_ADVANTAGE[rows.sample]
    longer = BOUNDS.clone()
    longer[1, 0, 1] = longer[2, 1, 1] = 6
    one, other = (
        Objective(surrogate=Surrogate(on_policy=False))(
            rows, x0 + 0.1, advantage, mask, total=len(rows), bounds=bounds[rows.sample]
        )
        for bounds in (BOUNDS, longer)
    )
    assert torch.equal(one.loss, other.loss)


def test_roughness_sees_trembling_and_not_a_drift() -> None:
    mask = torch.tensor([[True] * 8, [True] * 5 + [False] * 3])
    time = torch.arange(8.0)[None, :, None].expand(2, 8, 3)
    assert torch.equal(roughness(0.3 + 0.1 * time, mask).round(decimals=6), torch.zeros(2))
    trembling = 0.5 * torch.tensor([1.0, -1.0] * 4)[None, :, None].expand(2, 8, 3).clone()
    trembling[1, 5:] = torch.nan
    torch.testing.assert_close(roughness(trembling, mask), torch.full((2,), 4.0))


def test_bounds_of_samples_with_fewer_segments_are_padded_with_nothing() -> None:
    bounds = segment_bounds([[(0, 2), (2, 6)], [(0, 4)], [(0, 3), (3, 5)], [(0, 1), (1, 6)]])
    assert torch.equal(bounds, BOUNDS)
    assert segment_frames(bounds, 6)[1].sum(-1).tolist() == [4, 0]


def test_measured_quantities() -> None:
    """Log-probabilities, KL, ratio and clip fraction of `Terms` against their own formulas."""
    network, reference = Denoiser(), Denoiser()
    rows = sampled(network)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.05)
        x0, x0_reference = network(rows.x_t, rows.timestep), reference(rows.x_t, rows.timestep)
    mask = length_mask(LENGTHS, 6)[rows.sample]
    advantage = ADVANTAGE[rows.sample]
    objective = Objective(surrogate=Surrogate(0.01, 0.01, on_policy=False))
    sums = objective(rows, x0, advantage, mask, total=len(rows), x0_reference=x0_reference).sums

    def log_prob(prediction: Tensor) -> float:
        each = torch.distributions.Normal(rows.mean(prediction), rows.sigma.view(-1, 1, 1)).log_prob(rows.x_next)
        return ((each * mask[..., None]).sum((1, 2)) / (mask.sum(1) * 3)).mean().item()

    assert sums["logp_current_per_dim"].item() == pytest.approx(log_prob(x0), rel=1e-4)
    assert sums["logp_reference_per_dim"].item() == pytest.approx(log_prob(x0_reference), rel=1e-4)
    moved = ((x0 - rows.x0_old) * mask[..., None]).flatten(1)
    along = (moved * torch.where(mask[..., None], rows.eps, 0).flatten(1)).sum(1)
    ratio = ((along - 0.5 * rows.sensitivity * moved.square().sum(1)) / (mask.sum(1) * 3) ** 0.5).exp()
    assert sums["ratio"].item() == pytest.approx(ratio.mean().item(), rel=1e-5)
    stopped = ((ratio > 1.01) & (advantage > 0)) | ((ratio < 0.99) & (advantage < 0))
    assert 0 < stopped.float().mean().item() < 1
    assert sums["clip_fraction"].item() == pytest.approx(stopped.float().mean().item(), abs=1e-6)
    kl = 0.5 * rows.sensitivity**2 * ((x0 - x0_reference).square().sum(-1) * mask).sum(1)
    assert sums["kl_nats"].item() == pytest.approx(kl.mean().item(), rel=1e-4)
    assert sums["kl_per_dim"].item() == pytest.approx((kl / (mask.sum(1) * 3)).mean().item(), rel=1e-4)
    assert sums["kl"].item() == 0.0


def test_bad_use_is_refused() -> None:
    network = Denoiser()
    rows = sampled(network)
    mask, x0 = length_mask(LENGTHS, 6)[rows.sample], network(rows.x_t, rows.timestep)
    advantage, of_segments = ADVANTAGE[rows.sample], SEGMENT_ADVANTAGE[rows.sample]
    for call, word in (
        (lambda: Objective(ratio_norm="sqrt"), "ratio_norm"),  # type: ignore[arg-type]  # what a typo does
        (lambda: Surrogate(clip_low=1.5), "clip_low"),
        (lambda: Objective(kl_coef=0.1)(rows, x0, advantage, mask, total=len(rows)), "reference"),
        (lambda: Objective()(rows, x0, of_segments, mask, total=len(rows)), "do not fit together"),
    ):
        with pytest.raises(MotionkitError, match=word):
            call()
