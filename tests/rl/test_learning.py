"""The whole loop on a toy: it learns, and it does not when the advantages carry no information."""

from __future__ import annotations

from functools import cache

import pytest
import torch

from motionkit.rl import (
    DDPM,
    NoiseSource,
    Objective,
    Rollout,
    Schedule,
    StepPlan,
    leave_one_out,
    length_mask,
    rollout,
    shuffled,
)

from .toys import EightModes

SEEDS = (0, 1, 2)
SCHEDULE = Schedule.cosine(50)
STEPS = StepPlan.build(SCHEDULE, DDPM())
IDS = torch.arange(192)
GROUPS = IDS // 16


@cache
def train(control: str, seed: int) -> tuple[float, float]:
    """Return the mean reward of 192 samples before and after 20 updates, drawn with the same noise."""
    policy = EightModes(SCHEDULE, seed=seed)
    noise = NoiseSource(seed)
    optimizer = torch.optim.SGD(policy.parameters(), lr=0.2)
    objective = Objective(ratio_norm="snr")

    @torch.no_grad()
    def sample(step: int, *, record: bool) -> Rollout:
        start = noise.start(step, GROUPS, IDS, (1, 2))
        return rollout(policy, STEPS, start, noise.steps(step, GROUPS, IDS, (1, 2)), record=record)

    before = policy.reward(sample(-1, record=False).x0).mean().item()
    for step in range(20):
        drawn = sample(step, record=True)
        assert drawn.trajectory is not None
        reward = policy.reward(drawn.x0) * (-1 if control == "flipped" else 1)
        advantage = leave_one_out(reward, GROUPS).values
        if control == "shuffled":
            advantage = shuffled(advantage, seed, step)
        rows = drawn.trajectory.pairs(torch.arange(drawn.trajectory.num_pairs))
        mask = length_mask(torch.ones(len(rows)), 1)
        terms = objective(rows, policy(rows.x_t, rows.timestep), advantage[rows.sample], mask, total=len(rows))
        optimizer.zero_grad()
        terms.loss.backward()
        optimizer.step()
    return before, policy.reward(sample(-1, record=False).x0).mean().item()


@pytest.mark.parametrize("seed", SEEDS)
def test_reward_improves(seed: int) -> None:
    before, after = train("real", seed)
    assert before == pytest.approx(-1.36, abs=0.15)
    assert after > -0.15


def test_shuffled_advantages_go_nowhere() -> None:
    """The control: a random walk, whose mean over the seeds stays within 0.1 and whose members stay within 0.2."""
    changes = torch.tensor([after - before for before, after in (train("shuffled", seed) for seed in SEEDS)])
    assert changes.mean().abs().item() < 0.1
    assert changes.abs().max().item() < 0.2
    gains = torch.tensor([after - before for before, after in (train("real", seed) for seed in SEEDS)])
    assert (gains - changes).min().item() > 1.0


@pytest.mark.parametrize("seed", SEEDS)
def test_flipped_reward_gets_worse(seed: int) -> None:
    before, after = train("flipped", seed)
    assert after < before - 0.5
