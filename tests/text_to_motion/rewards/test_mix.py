"""The mix of rewards: sums, segments, bounds, and one bad sample kept apart."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch

from motionkit.contracts.reward import RewardScores
from motionkit.errors import MotionkitError
from motionkit.motion import HUMANML, MotionBatch
from motionkit.text import Prompt
from motionkit.text_to_motion.rewards.mix import RewardMix
from motionkit.tracking import definition

PROMPTS = [Prompt(("a", "b"), (4, 4), "x"), Prompt(("c",), (8,), "y")]
MOTIONS = MotionBatch(torch.zeros(2, 8, 263), torch.tensor([8, 8]), skeleton=HUMANML, fps=20.0)


class Fixed:
    """Returns what it was given."""

    def __init__(
        self, total: list[float], segments: list[list[float]] | None = None, bounds: tuple[float, float] | None = None
    ) -> None:
        self.name, self.total, self.segments = "fixed", torch.tensor(total), segments
        if bounds is not None:
            self.bounds = bounds

    def score(self, motions: MotionBatch, prompts: Sequence[Prompt]) -> RewardScores:
        segments = None if self.segments is None else torch.tensor(self.segments)
        return RewardScores(self.total, segments=segments, parts={"part": self.total * 2})


def test_totals_and_segments_are_weighted_sums() -> None:
    mix = RewardMix([(Fixed([0.5, 0.4], [[0.2, 0.8], [0.4, 0.0]]), 1.0), (Fixed([1.0, 0.0]), 0.5)])
    scored = mix.score(MOTIONS, PROMPTS)
    torch.testing.assert_close(scored.total, torch.tensor([1.0, 0.4]))
    torch.testing.assert_close(scored.segments, torch.tensor([[0.7, 1.3], [0.4, 0.0]]))
    count = scored.valid.sum(1)
    torch.testing.assert_close(scored.segments.sum(1) / count, scored.total)
    assert scored.metrics["reward/fixed/part"] == pytest.approx(1.0)


def test_bounds_are_those_of_the_sum_or_unknown() -> None:
    known = Fixed([0.0, 0.0], bounds=(-1.0, 1.0))
    assert RewardMix([(known, 1.0), (known, -0.5)]).bounds == (-1.5, 1.5)
    assert RewardMix([(known, 1.0), (Fixed([0.0, 0.0]), 1.0)]).bounds is None


NAN = float("nan")


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (None, "None"),
        ((torch.zeros(2), {}), "a tuple, not RewardScores"),
        (RewardScores(torch.zeros(2, 1)), r"total \[2, 1\]; it must be \[2\]"),
        (RewardScores([0.0, 1.0]), "total as a list; it must be a tensor"),  # type: ignore[arg-type]
        (RewardScores(torch.zeros(2, dtype=torch.int64)), "total of type int64; it must be float32"),
        (RewardScores(torch.zeros(2, device="meta")), "total on meta"),
        (RewardScores(torch.zeros(2), segments=torch.zeros(2, 1)), r"segments \[2, 1\]; it must be \[2, 2\]"),
        (RewardScores(torch.zeros(2), segments=[1]), "segments as a list; it must be a tensor"),  # type: ignore[arg-type]
        (RewardScores(torch.zeros(2), parts={"near": torch.zeros(1)}), r"part 'near' \[1\]; it must be"),
        (RewardScores(torch.zeros(2), parts=3), "parts as a int"),  # type: ignore[arg-type]
    ],
)
def test_what_is_no_score_is_said_with_the_name_of_the_reward(returned: object, message: str) -> None:
    class Odd(Fixed):
        def score(self, motions: MotionBatch, prompts: Sequence[Prompt]) -> RewardScores:
            return returned  # type: ignore[return-value]

    with pytest.raises(MotionkitError, match=rf"the reward 'fixed' \(test_mix.py:\d+\) returned {message}") as error:
        RewardMix([(Odd([0.0, 0.0]), 1.0)]).score(MOTIONS, PROMPTS)
    assert error.value.code == 1
    assert "here [2]" in error.value.why


def test_a_reward_without_any_finite_score_is_left_out_when_asked() -> None:
    good, bad = Fixed([0.5, 0.4], [[0.2, 0.8], [0.4, 0.0]]), Fixed([NAN, float("inf")])
    bad.name = "bad"
    mix = RewardMix([(bad, 2.0), (good, 1.0)])
    kept = mix.score(MOTIONS, PROMPTS)
    assert (kept.finite.any().item(), kept.dead, kept.metrics["reward/left_out"]) == (False, ("bad",), 0.0)
    left = mix.score(MOTIONS, PROMPTS, leave_out=True)
    alone = RewardMix([(good, 1.0)]).score(MOTIONS, PROMPTS)
    assert torch.equal(left.total, alone.total)
    assert torch.equal(left.segments, alone.segments)
    assert (left.dead, left.metrics["reward/left_out"]) == (("bad",), 1.0)
    # With nothing left there is no total: zeros would be a score.
    nothing = RewardMix([(bad, 1.0)]).score(MOTIONS, PROMPTS, leave_out=True)
    assert not nothing.finite.any()


GROUPS = torch.tensor([0, 0, 0, 1, 1, 1])
SIX = [Prompt(("a", "b"), (4, 4), "x")] * 3 + [Prompt(("c",), (8,), "y")] * 3
MOTIONS_SIX = MotionBatch(torch.zeros(6, 8, 263), torch.full((6,), 8), skeleton=HUMANML, fps=20.0)


def named(name: str, total: list[float], segments: list[list[float]] | None = None) -> Fixed:
    reward = Fixed(total, segments)
    reward.name = name
    return reward


def test_normalised_within_groups_a_reward_counts_by_its_weight_whatever_its_scale() -> None:
    near = [0.1, 0.4, 0.2, 0.9, 0.3, 0.3]
    far = [3.0, 1.0, 8.0, -2.0, 5.0, 1.0]
    mix = RewardMix([(named("near", near), 1.0), (named("far", far), 0.5)], normalize="group")
    scored = mix.score(MOTIONS_SIX, SIX)
    within = scored.within(GROUPS)
    expected = []
    for rows in (slice(0, 3), slice(3, 6)):
        a, b = (torch.tensor(values[rows], dtype=torch.float64) for values in (near, far))
        expected.append((a - a.mean()) / a.std() + 0.5 * (b - b.mean()) / b.std())
    torch.testing.assert_close(within.total.double(), torch.cat(expected), rtol=1e-5, atol=1e-6)
    # Without segments both count for each segment; the plain sum is what is reported.
    torch.testing.assert_close(within.segments[:3, 0], within.total[:3])
    torch.testing.assert_close(within.segments[:3, 1], within.total[:3])
    torch.testing.assert_close(scored.total, torch.tensor(near) + 0.5 * torch.tensor(far))
    assert within.metrics == scored.metrics
    big = RewardMix([(named("near", [1000 * value + 7 for value in near]), 1.0), (named("far", far), 0.5)])
    torch.testing.assert_close(big.score(MOTIONS_SIX, SIX).within(GROUPS).total, within.total, rtol=1e-4, atol=1e-5)


def test_segments_are_normalised_column_by_column_and_flat_or_spoilt_samples_stay_out() -> None:
    segments = [[0.0, 2.0], [1.0, 4.0], [2.0, 6.0], [0.5, 0.0], [0.5, 0.0], [0.5, 0.0]]
    reward = named("dense", [1.0, 2.5, 4.0, 0.5, 0.5, 0.5], segments)
    spoilt = named("other", [1.0, NAN, 3.0, 1.0, 2.0, 3.0])
    scored = RewardMix([(reward, 2.0)]).score(MOTIONS_SIX, SIX).within(GROUPS)
    assert scored.segments.tolist() == [[-2.0, -2.0], [0.0, 0.0], [2.0, 2.0], [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]]
    assert scored.total[3:].tolist() == [0.0, 0.0, 0.0], "a group without spread says nothing"
    scored = RewardMix([(reward, 1.0), (spoilt, 1.0)]).score(MOTIONS_SIX, SIX).within(GROUPS)
    assert scored.finite.tolist() == [True, False, True, True, True, True]
    root = 0.5**0.5
    assert scored.total[:3].tolist() == pytest.approx([-2 * root, 0.0, 2 * root]), "mean and spread of the other two"


def test_correlation_is_measured_within_groups() -> None:
    # Across groups the two rise together, within each they oppose.
    first, second = [0.0, 1.0, 2.0, 10.0, 11.0, 12.0], [2.0, 1.0, 0.0, 12.0, 11.0, 10.0]
    mix = RewardMix([(named("a", first), 1.0), (named("b", second), 1.0), (named("flat", [1.0] * 6), 1.0)])
    found = mix.score(MOTIONS_SIX, SIX).correlations(GROUPS)
    assert found["reward/correlation/a/b"] == pytest.approx(-1.0)
    assert found["reward/correlation/a/flat"] != found["reward/correlation/a/flat"]
    assert set(found) == {f"reward/correlation/{pair}" for pair in ("a/b", "a/flat", "b/flat")}
    assert all(definition(name).name == "reward/correlation/<name>/<other>" for name in found)
    assert RewardMix([(named("a", first), 1.0)]).score(MOTIONS_SIX, SIX).correlations(GROUPS) == {}
    rng = torch.Generator().manual_seed(0)
    x, y = (torch.randn(6, generator=rng) for _ in range(2))
    mix = RewardMix([(named("x", x.tolist()), 1.0), (named("y", y.tolist()), 1.0)])
    rows = [torch.cat([v[:3] - v[:3].mean(), v[3:] - v[3:].mean()]) for v in (x, y)]
    value = float(torch.corrcoef(torch.stack(rows))[0, 1])
    assert mix.score(MOTIONS_SIX, SIX).correlations(GROUPS)["reward/correlation/x/y"] == pytest.approx(value, abs=1e-5)


class Mean(Fixed):
    """Mean feature, and what it was given."""

    def __init__(self, name: str, total: float | None = None) -> None:
        self.name, self.total = name, total  # type: ignore[assignment]

    def score(self, motions: MotionBatch, prompts: Sequence[Prompt]) -> RewardScores:
        self.seen = motions
        total = motions.features.mean((1, 2)) + motions.joints.mean((1, 2, 3))
        return RewardScores(total if self.total is None else torch.full_like(total, self.total))


def live() -> MotionBatch:
    features = torch.randn(2, 8, 263, generator=torch.Generator().manual_seed(0)).requires_grad_()
    return MotionBatch(features, torch.tensor([8, 8]), skeleton=HUMANML, fps=20.0)


def test_a_reward_without_gradient_is_scored_without_a_graph_whatever_the_order() -> None:
    open_, closed = Mean("open"), Mean("closed")
    motions = live()
    scored = RewardMix([(closed, 2.0), (open_, 0.5)], gradient=[False, True]).score(motions, PROMPTS)
    assert [term.gradient for term in scored.terms] == [False, True]
    assert open_.seen is motions
    assert not closed.seen.features.requires_grad
    assert not closed.seen.joints.requires_grad
    assert motions.joints.requires_grad, "the joints of the graph are not those of the black box"
    (slope,) = torch.autograd.grad(scored.total.sum(), motions.features, retain_graph=True)
    (alone,) = torch.autograd.grad(0.5 * open_.score(motions, PROMPTS).total.sum(), motions.features)
    torch.testing.assert_close(slope, alone)


def test_without_being_told_a_reward_is_what_its_scores_are() -> None:
    scored = RewardMix([(Mean("open"), 1.0), (Fixed([1.0, 2.0]), 1.0)]).score(live(), PROMPTS)
    assert [term.gradient for term in scored.terms] == [True, False]
    assert RewardMix([(Mean("open"), 1.0), (Mean("closed"), 1.0)]).without_gradient == []
    told = RewardMix([(Mean("open"), 1.0), (Mean("closed"), 1.0)], gradient=[True, False])
    assert told.without_gradient == ["closed"]


def test_parts_add_up_and_are_spoilt_alone() -> None:
    named = Fixed([0.3, 0.4], [[0.1, 0.5], [0.4, 0.0]])
    named.name = "named"
    scored = RewardMix([(Mean("open"), 0.5), (named, 2.0)], gradient=[True, False]).score(live(), PROMPTS)
    able, other = scored.part(gradient=True), scored.part(gradient=False)
    torch.testing.assert_close(able.total + other.total, scored.total)
    torch.testing.assert_close(able.segments + other.segments, scored.segments)
    torch.testing.assert_close(other.total, torch.tensor([0.6, 0.8]))
    assert able.total.requires_grad
    assert not other.total.requires_grad
    # A sample that one part has no score for keeps its score in the other; a reward of nothing but NaN is left out.
    half = Fixed([NAN, 1.0])
    dead = Fixed([NAN, NAN])
    half.name, dead.name = "half", "dead"
    mix = RewardMix([(Mean("open"), 1.0), (half, 1.0), (dead, 1.0)], gradient=[True, False, False])
    scored = mix.score(live(), PROMPTS, leave_out=True)
    assert scored.finite.tolist() == [False, True]
    assert scored.part(gradient=True).finite.tolist() == [True, True]
    assert scored.part(gradient=False).finite.tolist() == [False, True]
    assert scored.part(gradient=False).total.tolist() == [0.0, 1.0]
    nothing = RewardMix([(Mean("open"), 1.0), (dead, 1.0)], gradient=[True, False]).score(live(), PROMPTS)
    assert nothing.part(gradient=False).finite.tolist() == [False, False]
    assert nothing.part(gradient=True).finite.all()
    assert nothing.dead == ("dead",)
