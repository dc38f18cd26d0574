"""Which judge a run gets, and the figures of rewards before training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch

from motionkit import load_dataset, load_policy, plugins
from motionkit.config import choose_one
from motionkit.contracts.reward import RewardScores
from motionkit.motion import HUMANML, MotionBatch
from motionkit.text import Prompt
from motionkit.text_to_motion.evaluation.judge import Calibration, RewardFigures, calibrate, open_judge, open_reward
from motionkit.text_to_motion.evaluation.real_motions import real_motions
from motionkit.text_to_motion.rewards.mix import RewardMix

from ...made.plain import plain_dataset

CPU = torch.device("cpu")
OTHER = plain_dataset(name="humanml", skeleton=HUMANML, physics_reference=lambda: (0.1, 100.0))
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


NAN = float("nan")


class Says:
    """Gives the samples their scores in order; reference motions get 0.9."""

    def __init__(self, name: str, scores: list[float], *, applies: bool = True) -> None:
        self.name, self.scores, self.applies = name, scores, applies

    def score(self, motions: MotionBatch, prompts: Sequence[Prompt]) -> RewardScores:
        if len(motions) == 5:
            return RewardScores(torch.full((5,), 0.9))
        applies = torch.full((len(motions),), self.applies)
        return RewardScores(torch.tensor(self.scores), applies=applies)


@pytest.fixture(scope="module")
def found() -> Calibration:
    dataset, policy = load_dataset("starter"), load_policy("starter")
    real = real_motions(dataset, "val", 5, device=torch.device("cpu"))
    assert real is not None
    assert [prompt.length for prompt in real[1]] == real[0].lengths.tolist()
    rewards = [
        (Says("steps", [0.0, 1.0, 2.0, 10.0, 12.0, 14.0]), 1.0),
        (Says("small", [0.01, 0.02, 0.03, 0.01, 0.02, 0.03]), 0.5),
        (Says("tied", [1.0, 1.0, 1.0, 2.0, 2.0, 3.0]), 1.0),
        (Says("flat", [0.5, 0.5, 0.5, 0.7, 0.7, 0.7]), 1.0),
        (Says("spoilt", [NAN, 1.0, 3.0, NAN, NAN, 1.0]), 1.0),
        (Says("silent", [NAN] * 6, applies=False), 1.0),
    ]
    prompts = dataset.prompts("val", k_segments=2)[:2]
    return calibrate(policy, prompts, RewardMix(rewards), real, samples=3, steps=[40, 0], guidance=1.0)


def test_figures_are_those_of_the_scores(found: Calibration) -> None:
    rows = {row.name: row for row in found.rewards}
    steps = rows["steps"]
    assert (steps.mean, steps.group_std, steps.ties, steps.real) == (6.5, 1.5, 0.0, pytest.approx(0.9))
    assert steps.std == pytest.approx(float(torch.tensor([0.0, 1, 2, 10, 12, 14]).std()))
    assert rows["small"].effect == pytest.approx(0.5 * 0.01)
    assert rows["tied"].ties == pytest.approx(4 / 6)
    assert (rows["flat"].ties, rows["flat"].group_std) == (1.0, 0.0)
    assert rows["flat"].std > 0.1
    assert rows["spoilt"].group_std == pytest.approx(2**0.5), "the group with one score is left out"
    assert rows["silent"].applies == 0.0
    assert rows["silent"].mean != rows["silent"].mean
    assert rows["silent"].document()["mean"] is None


def test_one_that_drowns_another_ties_and_flat_ones_are_named(found: Calibration) -> None:
    said = found.warnings()
    assert any(text.startswith("the reward steps drowns small: weight x spread within a group is 1.5 against 0.005;")
               and "--reward small=150 would make them equal" in text for text in said)  # fmt: skip
    assert any(text.startswith("67% of the pairs of samples of one prompt have the same tied") for text in said)
    assert any(text.startswith("the reward flat is the same for all samples of a prompt") for text in said)
    assert len(said) == 3
    normalized = Calibration(found.rewards, found.samples, found.prompts, normalized=True)
    assert not any("drowns" in text for text in normalized.warnings())
    even = [RewardFigures(name, 1.0, 0.5, 0.1, spread, 0.0, 0.9, 1.0) for name, spread in (("a", 0.1), ("b", 0.02))]
    assert Calibration(tuple(even), 8, 16).warnings() == []


def test_the_table_has_a_row_per_reward(found: Calibration) -> None:
    table, lines = found.table(), found.lines()
    assert table["title"] == "Rewards before training: 2 prompts x 3 samples"
    assert len(lines) == 2 + len(found.rewards)
    assert lines[2].split() == ["steps", "1", "6.5", "6.19", "1.5", "1.5", "0%", "0.9"]
    assert lines[-1].split() == ["silent", "1", "n/a", "n/a", "n/a", "n/a", "n/a", "0.9"]


def test_a_composite_clip_is_asked_for_what_it_shows() -> None:
    dataset = load_dataset("starter")
    clip = dataset.clips("val")[0]
    prompt = Prompt(("first", "second"), (10, 10), clip.key)
    real = real_motions(dataset, "val", 1, device=torch.device("cpu"), prompts=[prompt])
    assert real is not None
    assert real[1] == [prompt]
