"""Which judge a run gets, and that a judge which is a reward is named and asked once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from motionkit import plugins
from motionkit.config import choose_one
from motionkit.contracts.reward import RewardScores
from motionkit.motion import HUMANML, MotionBatch
from motionkit.text import Prompt
from motionkit.text_to_motion.evaluation.judge import open_judge, open_reward

CPU = torch.device("cpu")
OTHER = SimpleNamespace(name="humanml", skeleton=HUMANML, physics_reference=lambda: (0.1, 100.0))
PHYSICS = choose_one("rewards", "physics", {"r_s": 0.1, "r_j": 100.0})


def with_twin(monkeypatch: pytest.MonkeyPatch, twin: str) -> list[tuple[object, object]]:
    """Let the physics reward name a twin."""
    own = plugins.get("rewards", "physics")
    known = plugins.get
    monkeypatch.setattr(
        plugins,
        "get",
        lambda kind, name, **typed: replace(own, twin=twin) if name == "physics" else known(kind, name, **typed),
    )
    return [(PHYSICS, PHYSICS.build(dataset=OTHER, device=CPU))]


def test_a_reward_may_name_its_judge(monkeypatch: pytest.MonkeyPatch) -> None:
    trained = with_twin(monkeypatch, "tmr-cosine")
    judge, why = open_judge(None, OTHER, device=CPU, trained=trained)  # type: ignore[arg-type]
    assert judge is not None
    assert (judge.name, why) == ("tmr-cosine", "")
    chosen = choose_one("rewards", "physics", {"r_s": 0.2, "r_j": 50.0})
    judge, _ = open_judge(chosen, OTHER, device=CPU, trained=trained)  # type: ignore[arg-type]
    assert judge is not None
    assert judge.name == "physics", "what the user chose comes first"


def test_a_twin_that_is_not_there_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    trained = with_twin(monkeypatch, "no-such-reward")
    judge, why = open_judge(None, OTHER, device=CPU, trained=trained)  # type: ignore[arg-type]
    assert judge is None
    assert why.startswith("no-such-reward, which physics names as its twin, cannot be used: ")


def test_a_judge_that_is_a_reward_is_the_same_object_and_named() -> None:
    reward = PHYSICS.build(dataset=OTHER, device=CPU)
    same = choose_one("rewards", "physics", {"r_s": 0.1, "r_j": 100.0})
    judge, why = open_judge(same, OTHER, device=CPU, trained=[(PHYSICS, reward)])  # type: ignore[arg-type]
    assert judge is reward
    assert why == "the judge is the reward physics itself, so it cannot tell whether that is gamed"


def test_a_device_that_is_not_here_is_refused_by_its_flag() -> None:
    from motionkit.errors import MotionkitError

    chosen = choose_one("rewards", "tmr-dense", {"device": "cuda:99"})
    with pytest.raises(MotionkitError, match=r"--reward.tmr-dense.device cuda:99 is not on this machine"):
        open_reward(chosen, OTHER, device=CPU)  # type: ignore[arg-type]
    here = choose_one("rewards", "tmr-dense", {"device": "cpu"})
    assert type(open_reward(here, OTHER, device=CPU)).__name__ == "TmrDense"  # type: ignore[arg-type]


def test_a_judge_that_is_a_reward_is_asked_once() -> None:
    from motionkit import load_dataset, load_policy
    from motionkit.text_to_motion.evaluation.heldout import HeldOut
    from motionkit.text_to_motion.rewards.mix import RewardMix

    class Counting:
        name, calls = "counting", 0

        def score(self, motions: MotionBatch, prompts: Sequence[Prompt]) -> RewardScores:
            self.calls += 1
            total = motions.features[:, 0, 3]
            return RewardScores(total, applies=torch.arange(len(total)) > 0)

    reward, other = Counting(), Counting()
    prompts = load_dataset("starter").prompts("val", k_segments=2)[:2]
    policy = load_policy("starter")
    common = {"samples": 1, "steps": 2, "guidance": 1.0, "rewards": RewardMix([(reward, 1.0)])}
    measured = HeldOut(prompts, judge=reward, **common).measure(policy)  # type: ignore[arg-type]
    assert reward.calls == 1
    judged = measured.quantities["judge"][:, 0]
    assert judged[0] != judged[0], "the judge has nothing to say about the first"
    assert judged[1] == pytest.approx(measured.quantities["reward"][1, 0])
    HeldOut(prompts, judge=other, **common).measure(policy)  # type: ignore[arg-type]
    assert (reward.calls, other.calls) == (2, 1)
