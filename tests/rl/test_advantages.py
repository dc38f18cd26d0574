"""Advantages: invariances, flat groups, invalid scores, segments, the shuffled control, the recorded legacy numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from motionkit.errors import MotionkitError
from motionkit.rl import (
    ADVANTAGES,
    categorical,
    global_std,
    group_std,
    leave_one_out,
    mix_credit,
    segment_frames,
    shuffled,
)

REWARDS = torch.rand(24, generator=torch.Generator().manual_seed(0))
GROUPS = torch.arange(24) // 6


def test_slow_versions() -> None:
    for group in range(4):
        r = REWARDS[group == GROUPS].double()
        others = torch.stack([torch.cat([r[:i], r[i + 1 :]]).mean() for i in range(6)])
        raw = leave_one_out(REWARDS, GROUPS, scale="none", clip=None).values[group == GROUPS]
        torch.testing.assert_close(raw.double(), r - others, rtol=1e-6, atol=1e-7)
        scaled = leave_one_out(REWARDS, GROUPS, std_floor=0.1, clip=None).values[group == GROUPS]
        spread = (REWARDS.double().var() + 0.01).sqrt()
        torch.testing.assert_close(scaled.double(), (r - others) / spread, rtol=1e-6, atol=1e-7)
        white = group_std(REWARDS, GROUPS, std_floor=0.2).values[group == GROUPS]
        torch.testing.assert_close(white.double(), (r - r.mean()) / (r.var() + 0.04).sqrt(), rtol=1e-6, atol=1e-7)
        batch = global_std(REWARDS, GROUPS).values[group == GROUPS]
        torch.testing.assert_close(batch.double(), (r - r.mean()) / REWARDS.double().std(), rtol=1e-6, atol=1e-7)


def test_legacy_group_advantages_as_recorded(shared: Path) -> None:
    recorded = np.load(shared / "fixtures/mdm/origin_grpo_math.npz")
    groups = torch.arange(12) // int(recorded["group_size"])
    result = group_std(torch.from_numpy(recorded["rewards"]), groups)
    torch.testing.assert_close(result.values, torch.from_numpy(recorded["advantages"]), rtol=0, atol=3e-7)
    assert (result.zero_variance.item(), result.groups.item()) == (1, 3)


@pytest.mark.parametrize("kind", ADVANTAGES)
def test_affine_rewards_and_order_within_groups(kind: str) -> None:
    make = ADVANTAGES[kind]
    base = make(REWARDS.double(), GROUPS, clip=None).values
    for scale, offset in ((3.0, -7.0), (1e-3, 0.5)):
        found = make(scale * REWARDS.double() + offset, GROUPS, clip=None).values
        # Dr. GRPO divides by nothing, so it keeps the units of the reward.
        torch.testing.assert_close(found, scale * base if kind == "dr-grpo" else base, rtol=0, atol=1e-6)
    order = torch.cat([g * 6 + torch.randperm(6, generator=torch.Generator().manual_seed(g)) for g in range(4)])
    torch.testing.assert_close(make(REWARDS[order], GROUPS).values, make(REWARDS, GROUPS).values[order])
    assert make(REWARDS, GROUPS).values.view(4, 6).sum(1).abs().max().item() < 1e-5


@pytest.mark.parametrize("kind", ADVANTAGES)
@pytest.mark.parametrize("constant", [0.1, 0.7, 1 / 3])
def test_a_flat_group_is_counted_and_gets_exactly_zero(kind: str, constant: float) -> None:
    rewards = REWARDS.clone()
    rewards[6:12] = constant
    result = ADVANTAGES[kind](rewards, GROUPS)
    assert bool((result.values[6:12] == 0).all())
    assert bool((result.values[:6] != 0).any())
    assert result.zero_variance.item() == 1
    rounding = constant * (1 + 1e-7 * torch.rand(24, dtype=torch.float64))
    assert bool((ADVANTAGES[kind](rounding, GROUPS).values == 0).all())
    constant_batch = ADVANTAGES[kind](torch.full((24,), constant), GROUPS)
    assert bool((constant_batch.values == 0).all())
    assert constant_batch.zero_variance.item() == 4


def test_the_same_caption_twice_stays_two_groups() -> None:
    """Group ids are what counts, and they need be neither sorted nor dense."""
    ids = torch.tensor([40, 40, -3, -3, 7, 7])
    rewards = torch.tensor([0.0, 1.0, 5.0, 6.0, 0.0, 1.0])
    values = leave_one_out(rewards, ids, scale="none").values
    assert values.tolist() == [-1.0, 1.0, -1.0, 1.0, -1.0, 1.0]


@pytest.mark.parametrize("kind", ADVANTAGES)
def test_nan_rewards_touch_one_sample_only(kind: str) -> None:
    rewards = REWARDS.clone()
    rewards[3] = torch.nan
    values = ADVANTAGES[kind](rewards, GROUPS).values
    keep = torch.arange(24) != 3
    assert values[3] == 0
    torch.testing.assert_close(values[keep], ADVANTAGES[kind](rewards[keep], GROUPS[keep]).values)


def test_clip_and_single_sample_groups() -> None:
    rewards = torch.tensor([0.0] * 99 + [1.0])
    values = group_std(rewards, torch.zeros(100, dtype=torch.int64)).values
    assert values.max().item() == 5.0
    alone = leave_one_out(torch.tensor([0.3, 0.9]), torch.tensor([0, 1]))
    assert alone.values.tolist() == [0.0, 0.0]
    assert alone.zero_variance.item() == 2


@pytest.mark.parametrize("kind", ADVANTAGES)
def test_segments_are_columns_with_their_own_baseline(kind: str) -> None:
    scores = torch.rand(24, 3, generator=torch.Generator().manual_seed(1))
    valid = torch.ones(24, 3, dtype=torch.bool)
    valid[6:12, 2] = False  # the second prompt has two segments
    scores[6:12, 2] = 99.0
    result = ADVANTAGES[kind](scores, GROUPS, valid=valid)
    assert bool((result.values[6:12, 2] == 0).all())
    assert (result.zero_variance.item(), result.groups.item()) == (0, 11)
    if kind == "group-std":
        for column in range(3):
            rows = valid[:, column]
            expected = group_std(scores[rows, column], GROUPS[rows]).values
            torch.testing.assert_close(result.values[rows, column], expected)
    shifted = ADVANTAGES[kind](scores + torch.tensor([0.0, 4.0, -2.0]), GROUPS, valid=valid, clip=None)
    direction = torch.nn.functional.cosine_similarity(shifted.values.flatten(), result.values.flatten(), dim=0)
    assert direction.item() == pytest.approx(1.0, abs=1e-5)


def test_bad_shapes_are_refused() -> None:
    for groups, given in ((GROUPS[:3], {}), (GROUPS, {"valid": torch.ones(3, dtype=torch.bool)})):
        with pytest.raises(MotionkitError, match="do not fit"):
            group_std(REWARDS, groups, **given)


def test_shuffling_permutes_and_is_a_function_of_seed_and_step() -> None:
    values = torch.arange(24.0)
    mixed = shuffled(values, 0, 0)
    assert sorted(mixed.tolist()) == values.tolist()
    assert torch.equal(mixed, shuffled(values, 0, 0))
    assert not torch.equal(mixed, shuffled(values, 0, 1))
    assert not torch.equal(mixed, shuffled(values, 1, 0))
    assert (mixed == values).float().mean().item() < 0.3


def test_shuffling_segments_keeps_rows_whole_and_absent_segments_empty() -> None:
    valid = torch.ones(24, 3, dtype=torch.bool)
    valid[::3, 2] = False
    values = torch.arange(72.0).view(24, 3) * valid
    mixed = shuffled(values, 0, 0, valid=valid)
    assert not torch.equal(mixed, values)
    assert bool((mixed[~valid] == 0).all())
    assert sorted(map(tuple, mixed.tolist())) == sorted(map(tuple, values.tolist()))


def test_credit_reaches_the_frames_of_its_segment() -> None:
    bounds = torch.tensor([[[0, 2], [2, 5]], [[0, 3], [0, 0]]])
    owned = segment_frames(bounds, 6)
    assert owned.int().tolist() == [[[1, 1, 0, 0, 0, 0], [0, 0, 1, 1, 1, 0]], [[1, 1, 1, 0, 0, 0], [0] * 6]]
    segments, total = torch.tensor([[1.0, -2.0], [3.0, 0.0]]), torch.tensor([0.5, -1.0])
    assert mix_credit(segments, total, 0.5).tolist() == [[0.75, -0.75], [1, -0.5]]
    assert torch.equal(mix_credit(segments, total, 1.0), total[:, None].expand(2, 2))
    with pytest.raises(MotionkitError, match="share"):
        mix_credit(segments, total, 1.5)


def test_frequencies_are_the_probabilities() -> None:
    logits = torch.tensor([0.5, -1.0, 2.0, -torch.inf])
    drawn = categorical(logits.expand(100_000, 4), torch.linspace(0, 1, 100_001)[:-1])
    assert torch.allclose(torch.bincount(drawn, minlength=4) / 100_000, logits.softmax(0), atol=2e-5)


def test_a_class_without_a_chance_is_never_drawn() -> None:
    logits = torch.tensor([[-torch.inf, 1.0, -torch.inf]]).repeat(3, 1)
    assert categorical(logits, torch.tensor([0.0, 0.5, 1.0])).tolist() == [1, 1, 1]


def test_a_row_does_not_depend_on_the_others() -> None:
    logits, uniform = torch.randn(64, 11), torch.rand(64)
    alone = [int(categorical(logits[row : row + 1], uniform[row : row + 1])) for row in range(64)]
    assert categorical(logits, uniform).tolist() == alone
