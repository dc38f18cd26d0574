"""The short audit of a run's own rewards."""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Sequence

import pytest
import torch

from motionkit import load_dataset, load_reward
from motionkit.contracts.reward import Reward, RewardScores
from motionkit.errors import MotionkitError
from motionkit.motion import MotionBatch
from motionkit.text import Prompt
from motionkit.text_to_motion.evaluation.sensitivity.bench import QUICK, Audited
from motionkit.text_to_motion.evaluation.sensitivity.quick import Quick, quick_audit

from ....made.plain import plain

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def data():
    return load_dataset("starter", clips=144, val_clips=144, max_frames=60)


@pytest.fixture(scope="module")
def some(data):
    """The same data with fewer clips, enough to be judged by."""
    found = copy.copy(data)
    found.clips = lambda split: list(data.clips(split))[:32]
    return found


@plain(Reward)
class Drawn:
    """Scores by a random number: the same for no two calls."""

    name = "drawn"

    def score(self, motions: MotionBatch, prompts: Sequence[Prompt]) -> RewardScores:
        return RewardScores(torch.rand(len(prompts)))


@plain(Reward)
class Same:
    name = "same"

    def score(self, motions: MotionBatch, prompts: Sequence[Prompt]) -> RewardScores:
        return RewardScores(torch.full((len(prompts),), 0.25))


class Slow(Same):
    def score(self, motions: MotionBatch, prompts: Sequence[Prompt]) -> RewardScores:
        time.sleep(0.7 * len(prompts))
        return super().score(motions, prompts)


def test_the_starters_reward(data) -> None:
    reward = load_reward("tmr-dense", dataset=data)
    physics = load_reward("physics", r_s=0.1, r_j=24.0)
    begun = time.process_time()
    found = quick_audit(
        data, "val", [Audited("tmr-dense", reward, shipped=True), Audited("physics", physics, 0.1)], device=CPU
    )
    assert time.process_time() - begun < 5.0
    assert isinstance(found, Quick)
    assert len(found.sentences) == 3
    assert found.sentences[0].startswith("tmr-dense does not see: order of events, how often something is done; sees: ")
    assert found.sentences[1].startswith("physics (reads no text) ")
    rows = {row["change"]: row for row in found.document["rows"]}
    assert set(rows) | set(found.document["missing"]) == set(QUICK)
    assert rows["mean-pose"]["n"] == 64
    assert list(found.document["rewards"]) == ["tmr-dense", "physics", "tmr-dense + 0.1 physics"]
    assert found.document["table"]["columns"][3:] == list(found.document["rewards"])
    json.dumps(found.document, allow_nan=False)


def test_rewards_that_cannot_know_what_captions_ask_for_are_an_alarm(some) -> None:
    physics = load_reward("physics", r_s=0.1, r_j=24.0)
    found = quick_audit(some, "val", [Audited("physics", physics)], device=CPU)
    assert isinstance(found, Quick)
    assert found.alarms == ("the reward physics reads no text: it cannot know what captions ask for",)
    same = quick_audit(some, "val", [Audited("same", Same())], device=CPU)
    assert isinstance(same, Quick)
    assert "same returns the same for every clip" in same.sentences[0]
    assert same.alarms[0].startswith("the reward same sees nothing of what captions ask for")


def test_random_numbers_of_a_reward_do_not_move_those_of_the_run(some) -> None:
    torch.manual_seed(3)
    wanted = torch.rand(4)
    torch.manual_seed(3)
    assert isinstance(quick_audit(some, "val", [Audited("drawn", Drawn())], device=CPU), Quick)
    assert torch.equal(torch.rand(4), wanted)


def test_a_run_goes_on_where_nothing_can_be_measured(some) -> None:
    assert "s a clip" in str(quick_audit(some, "val", [Audited("slow", Slow(), own=False)], device=CPU))

    class Unread(Same):
        def score(self, motions: MotionBatch, prompts: Sequence[Prompt]) -> RewardScores:
            raise MotionkitError("these texts are not in the folder.")

    assert quick_audit(some, "val", [Audited("unread", Unread())], device=CPU) == "these texts are not in the folder."

    class Picky(Same):
        """Knows the prompts of a run alone, as one that looks them up does."""

        def score(self, motions: MotionBatch, prompts: Sequence[Prompt]) -> RewardScores:
            raise KeyError(prompts[0].text)

    said = quick_audit(some, "val", [Audited("same", Same()), Audited("picky", Picky(), own=False)], device=CPU)
    assert str(said).startswith("a reward raised KeyError")
    with pytest.raises(KeyError):
        quick_audit(some, "val", [Audited("picky", Picky())], device=CPU)
