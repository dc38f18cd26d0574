"""Rewards as third parties write them: asynchronous, slow, on another device, or without an opinion on some samples."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Sequence

import pytest
import torch

from motionkit.contracts.reward import FrameBatch, RewardScores, TextBatch, moved, rows
from motionkit.errors import MotionkitError
from motionkit.motion import HUMANML, MotionBatch
from motionkit.testing import check_reward
from motionkit.text import Prompt
from motionkit.text_to_motion.rewards.ask import Elsewhere, ask
from motionkit.text_to_motion.rewards.mix import RewardMix

PROMPTS = [Prompt(("a", "b"), (4, 4)), Prompt(("c",), (8,)), Prompt(("a", "b", "c"), (3, 3, 2)), Prompt(("d",), (6,)),
           Prompt(("e", "f"), (4, 3))]  # fmt: skip
NAN = float("nan")


def motions() -> MotionBatch:
    features = torch.randn(5, 8, 263, generator=torch.Generator().manual_seed(0))
    lengths = torch.tensor([prompt.length for prompt in PROMPTS])
    return MotionBatch(features, lengths, skeleton=HUMANML, fps=20.0)


class Height:
    """Mean height of the root, and of each segment's frames."""

    name = "height"

    def score(self, motions: MotionBatch, prompts: Sequence[Prompt]) -> RewardScores:
        total = torch.where(motions.mask, motions.features[..., 3], 0.0).sum(1) / motions.lengths
        counts = torch.tensor([len(prompt.segments) for prompt in prompts])
        valid = torch.arange(int(counts.max())) < counts[:, None]
        return RewardScores(total, segments=torch.where(valid, total[:, None], 0.0), parts={"twice": 2 * total})


class Server(Height):
    """Answers after a while, all samples at once."""

    name = "server"

    async def score(self, motions: MotionBatch, prompts: Sequence[Prompt]) -> RewardScores:  # type: ignore[override]
        async def one(value: float) -> float:
            await asyncio.sleep(0.05 * (1 + value % 1))  # later samples may be ready first
            return value

        found = super().score(motions, prompts)
        total = torch.tensor(await asyncio.gather(*(one(value) for value in found.total.tolist())))
        return RewardScores(total, segments=found.segments, parts=found.parts)


class Slow(Height):
    """Takes a while for each sample."""

    name, threads = "slow", 5

    def __init__(self) -> None:
        self.calls: list[int] = []
        self.seen: set[int] = set()

    def score(self, motions: MotionBatch, prompts: Sequence[Prompt]) -> RewardScores:
        self.calls.append(len(motions))
        self.seen.add(threading.get_ident())
        assert not torch.is_grad_enabled()
        time.sleep(0.1 * len(motions))
        return super().score(motions, prompts)


@pytest.mark.parametrize("reward", [Server(), Slow()])
def test_slow_rewards_give_the_scores_of_a_plain_one_in_order(reward: Height) -> None:
    plain, found = Height().score(motions(), PROMPTS), ask(reward, motions(), PROMPTS)
    assert torch.equal(found.total, plain.total)
    assert plain.segments is not None
    assert found.segments is not None
    assert torch.equal(found.segments, plain.segments)
    assert torch.equal(found.parts["twice"], plain.parts["twice"])
    check_reward(reward)


def test_samples_are_shared_among_threads_and_rewards_wait_side_by_side() -> None:
    slow, other = Slow(), Server()
    mix = RewardMix([(slow, 1.0), (Height(), 0.5), (other, 2.0)])
    begun = time.perf_counter()
    scored = mix.score(motions(), PROMPTS)
    took = time.perf_counter() - begun
    assert (slow.calls, len(slow.seen)) == ([1] * 5, 5)
    assert threading.get_ident() not in slow.seen
    assert took < 0.45, "five samples of 0.1 s one after the other take 0.5 s"
    torch.testing.assert_close(scored.total, 3.5 * Height().score(motions(), PROMPTS).total)
    assert [term.name for term in scored.terms] == ["slow", "height", "server"]
    assert not any(term.gradient for term in scored.terms)


def test_an_asynchronous_reward_works_inside_a_running_loop() -> None:
    async def notebook() -> RewardScores:
        return ask(Server(), motions(), PROMPTS)

    assert torch.equal(asyncio.run(notebook()).total, Height().score(motions(), PROMPTS).total)


def test_faults_of_slow_rewards_are_named_like_those_of_others() -> None:
    class Bad(Server):
        async def score(self, motions: MotionBatch, prompts: Sequence[Prompt]) -> RewardScores:  # type: ignore[override]
            return (await super().score(motions, prompts)).total  # type: ignore[return-value]

    class Short(Slow):
        def score(self, motions: MotionBatch, prompts: Sequence[Prompt]) -> RewardScores:
            return RewardScores(super().score(motions, prompts).total[:0])

    class Failing(Server):
        async def score(self, motions: MotionBatch, prompts: Sequence[Prompt]) -> RewardScores:  # type: ignore[override]
            raise ConnectionError("no answer")

    for reward, word in ((Bad(), r"'server' \(test_asking.py:\d+\) returned a Tensor"), (Short(), r"total \[0\]")):
        with pytest.raises(MotionkitError, match=word):
            ask(reward, motions(), PROMPTS)
    with pytest.raises(ConnectionError, match="no answer"):
        RewardMix([(Slow(), 1.0), (Failing(), 1.0)]).score(motions(), PROMPTS)


class Some(Height):
    """Applies to some samples; what stands at the others is nonsense."""

    name = "some"

    def __init__(self, total: list[float], applies: list[bool], segments: list[list[float]] | None = None) -> None:
        self.scores = RewardScores(
            torch.tensor(total),
            segments=None if segments is None else torch.tensor(segments),
            parts={"part": torch.tensor(total)},
            applies=torch.tensor(applies),
        )

    def score(self, motions: MotionBatch, prompts: Sequence[Prompt]) -> RewardScores:
        return self.scores


class Fixed(Height):
    """Always the same."""

    name = "fixed"

    def score(self, motions: MotionBatch, prompts: Sequence[Prompt]) -> RewardScores:
        return RewardScores(torch.tensor([0.1, 0.2, 0.3, 0.4, 0.5]))


def test_a_reward_that_does_not_apply_adds_nothing_and_nan_stays_a_fault() -> None:
    some = Some([1.0, NAN, NAN, 2.0, float("inf")], [True, False, True, True, False])
    scored = RewardMix([(Fixed(), 1.0), (some, 10.0)]).score(motions(), PROMPTS)
    assert scored.total.tolist() == pytest.approx([10.1, 0.2, 0.0, 20.4, 0.5])
    assert scored.finite.tolist() == [True, True, False, True, True]
    assert scored.segments[4].tolist() == pytest.approx([0.5, 0.5, 0.0])
    assert scored.metrics["reward/some/mean"] == pytest.approx(1.5)
    assert scored.metrics["reward/some/part"] == pytest.approx(1.5)
    assert scored.metrics["reward/some/applies"] == pytest.approx(0.6)
    assert "reward/fixed/applies" not in scored.metrics


def test_a_reward_that_applies_to_nothing_is_not_dead() -> None:
    nothing = Some([NAN] * 5, [False] * 5)
    scored = RewardMix([(Fixed(), 1.0), (nothing, 1.0)]).score(motions(), PROMPTS)
    assert scored.dead == ()
    assert scored.finite.all()
    dead = RewardMix([(Fixed(), 1.0), (Some([NAN] * 5, [True] + [False] * 4), 1.0)]).score(motions(), PROMPTS)
    assert dead.dead == ("some",)
    from motionkit.text_to_motion.grpo.measurements import RewardAlarms

    line = {"reward/mean": 0.3, "reward/min": 0.1, "reward/max": 0.5}
    assert RewardAlarms().look(scored.metrics | line) == []
    assert "gave no sample a finite score" in RewardAlarms().look(dead.metrics | line)[0]


def test_within_a_group_a_reward_that_does_not_apply_is_neither_good_nor_bad() -> None:
    groups = torch.tensor([0, 0, 0, 0, 0])
    some = Some([1.0, 99.0, 3.0, 2.0, 99.0], [True, False, True, True, False], [[1.0, 5.0, 0.0]] * 5)
    scored = RewardMix([(some, 1.0)]).score(motions(), PROMPTS).within(groups)
    assert scored.total.tolist() == pytest.approx([-1.0, 0.0, 1.0, 0.0, 0.0])
    mix = RewardMix([(some, 1.0), (Fixed(), 1.0)]).score(motions(), PROMPTS)
    both = torch.tensor([[1.0, 3.0, 2.0], [0.1, 0.3, 0.4]])
    expected = float(torch.corrcoef(both)[0, 1])
    assert mix.correlations(groups)["reward/correlation/some/fixed"] == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize(
    ("applies", "said"),
    [
        (torch.ones(5), "float32"),
        (torch.ones(4, dtype=torch.bool), r"applies \[4\]"),
        ([True] * 5, "a list"),
        (torch.ones(5, dtype=torch.bool, device="meta"), "meta"),
    ],
)
def test_applies_is_checked(applies: object, said: str) -> None:
    some = Some([1.0] * 5, [True] * 5)
    some.scores = RewardScores(torch.zeros(5), applies=applies)  # type: ignore[arg-type]
    with pytest.raises(MotionkitError, match=said):
        RewardMix([(some, 1.0)]).score(motions(), PROMPTS)


def test_infinity_is_no_score() -> None:
    class Infinite(Height):
        name = "infinite"

        def score(self, motions: MotionBatch, prompts: Sequence[Prompt]) -> RewardScores:
            return RewardScores(torch.tensor([1.0, float("inf"), 2.0, float("-inf"), 3.0]))

    scored = RewardMix([(Infinite(), 1.0), (Fixed(), 1.0)]).score(motions(), PROMPTS)
    assert scored.finite.tolist() == [True, False, True, False, True]
    assert scored.metrics["reward/infinite/mean"] == 2.0
    assert bool(scored.segments.isfinite().all())


def test_the_contract_lets_a_reward_have_no_opinion() -> None:
    class Long(Height):
        """Speaks of prompts of several actions only."""

        def score(self, motions: MotionBatch, prompts: Sequence[Prompt]) -> RewardScores:
            applies = torch.tensor([len(prompt.segments) > 1 for prompt in prompts])
            total = torch.where(applies, super().score(motions, prompts).total, torch.nan)
            return RewardScores(total, applies=applies)

    class Wrong(Height):
        def score(self, motions: MotionBatch, prompts: Sequence[Prompt]) -> RewardScores:
            total = super().score(motions, prompts).total
            return RewardScores(total, applies=torch.ones(len(total), dtype=torch.int64))

    check_reward(Long())

    with pytest.raises(AssertionError, match="applies of type int64"):
        check_reward(Wrong())


def test_records_are_cut_and_moved_whatever_they_hold() -> None:
    batch = motions()
    assert moved(batch, torch.device("cpu")) is batch
    far = moved(batch, torch.device("meta"))
    assert (far.features.device.type, far.lengths.device.type, far.fps) == ("meta", "meta", 20.0)
    text = TextBatch(["a", "b"], [["x"], ["y", "z"]])
    assert moved(text, torch.device("meta")).device.type == "meta"
    assert rows(text, [1]).references == [["y", "z"]]
    frames = FrameBatch(torch.zeros(3, 2, 4, 4, 3, dtype=torch.uint8), torch.tensor([2, 1, 2]))
    assert moved(frames, torch.device("meta")).frames.device.type == "meta"
    assert rows(frames, [2, 1]).lengths.tolist() == [2, 1]


class Far(Height):
    """Only scores what is on its own device."""

    name, bounds = "far", (0.0, 2.0)

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def score(self, motions: MotionBatch, prompts: Sequence[Prompt]) -> RewardScores:
        assert motions.features.device == self.device
        total = torch.where(motions.mask, motions.features[..., 3], 0.0).sum(1) / motions.lengths
        return RewardScores(total, parts={"twice": 2 * total}, applies=torch.ones_like(total, dtype=torch.bool))


DEVICES = ["cpu", pytest.param("cuda:0", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU"))]


@pytest.mark.parametrize("device", DEVICES)
def test_a_reward_elsewhere_scores_with_gradients_across_devices(device: str) -> None:
    reward = Elsewhere(Far(torch.device(device)), torch.device(device))
    assert (reward.name, reward.bounds) == ("far", (0.0, 2.0))
    batch = motions()
    batch.features.requires_grad_()
    scored = RewardMix([(reward, 1.0)]).score(batch, PROMPTS)
    torch.testing.assert_close(scored.total, Height().score(batch, PROMPTS).total)
    assert scored.total.device.type == "cpu"
    (slope,) = torch.autograd.grad(scored.total.sum(), batch.features)
    assert float(slope[..., 3].sum()) == pytest.approx(5.0)
    assert torch.equal(ask(Elsewhere(Server(), torch.device("cpu")), motions(), PROMPTS).total, scored.total.detach())
