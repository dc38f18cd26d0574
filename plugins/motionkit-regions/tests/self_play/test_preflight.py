"""The checks before a run pass on what can be learned from, and each fails on its own fault."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from typer.testing import CliRunner

from motionkit.cli import get_app
from motionkit.training.base import Checked
from motionkit_regions.policy import WordScores
from motionkit_regions.self_play.play import LoopRewards
from motionkit_regions.self_play.settings import Sa2vaRlSettings
from motionkit_regions.self_play.summary import SelfPlayAlarms
from motionkit_regions.self_play.train import Sa2vaRl


def prepared(**changes: Any) -> Sa2vaRl:
    base = {"rollout": {"batch_size": 2, "group_size": 4}, "threads": 1, "check": True}
    trainer = Sa2vaRl(Sa2vaRlSettings.model_validate({**base, **changes}))
    trainer.prepare()
    return trainer


def found(trainer: Sa2vaRl) -> dict[str, Checked]:
    return {one.name: one for one in trainer.check()}


def failed(trainer: Sa2vaRl) -> list[str]:
    return [name for name, one in found(trainer).items() if not one.ok]


def test_all_hold_for_the_built_in_policy_and_nothing_of_it_changes() -> None:
    trainer = prepared()
    before = {name: one.clone() for name, one in trainer.policy.tensors().items()}
    assert failed(trainer) == []
    assert "mask decoder" in found(trainer)["trained parts"].said
    assert all(torch.equal(one, before[name]) for name, one in trainer.policy.tensors().items())
    assert all(parameter.grad is None for parameter in trainer.policy.network.parameters())


def test_pixels_reach_the_mask_decoder() -> None:
    said = found(prepared(loop2={"name": "caption-to-mask", "action": "bernoulli"}))
    assert "mask decoder" in said["gradient of loop2"].said
    assert said["trained parts"].said == "each is reached by a loop"


def _ignores_masks(trainer: Sa2vaRl, plain: Callable[..., WordScores]) -> Callable[..., WordScores]:
    return lambda seen, masks, ids, **more: plain(seen, torch.ones_like(masks), ids, **more)


def _warmer(trainer: Sa2vaRl, plain: Callable[..., WordScores]) -> Callable[..., WordScores]:
    return lambda seen, masks, ids, temperature=1.0, **more: plain(seen, masks, ids, temperature=3.0, **more)


def _without_graph(trainer: Sa2vaRl, plain: Callable[..., WordScores]) -> Callable[..., WordScores]:
    fcs = trainer.policy.network.get_submodule("text_hidden_fcs")

    def scores(*given: Any, **more: Any) -> WordScores:
        one = plain(*given, **more)
        joined: Tensor = one.log_prob.detach() + 0 * one.log_prob + sum(p.sum() for p in fcs.parameters())
        return WordScores(joined, one.entropy, one.mask, one.whole)

    return scores


@pytest.mark.parametrize(
    ("fault", "check"),
    [(_ignores_masks, "mask prompts are read"), (_warmer, "log-probabilities"), (_without_graph, "gradient of loop1")],
)
def test_a_fault_of_the_policy_is_found(fault: Any, check: str, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = prepared()
    monkeypatch.setattr(trainer.policy, "score_words", fault(trainer, trainer.policy.score_words))
    assert check in failed(trainer)


def _not_finite(value: float) -> Any:
    """Scores of which one word of the first region is not finite."""

    def fault(trainer: Sa2vaRl, plain: Callable[..., WordScores]) -> Callable[..., WordScores]:
        def scores(*given: Any, **more: Any) -> WordScores:
            one = plain(*given, **more)
            spoiled = torch.zeros_like(one.log_prob)
            spoiled[0, 0] = value
            whole = None if one.whole is None else one.whole + spoiled[..., None]
            return WordScores(one.log_prob + spoiled, one.entropy, one.mask, whole)

        return scores

    return fault


@pytest.mark.parametrize("value", [torch.nan, -torch.inf])
def test_no_check_passes_on_what_is_not_finite(value: float, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = prepared()
    monkeypatch.setattr(trainer.policy, "score_words", _not_finite(value)(trainer, trainer.policy.score_words))
    checks = found(trainer)
    for name in ("mask prompts are read", "log-probabilities"):
        assert not checks[name].ok
        assert "not finite" in checks[name].said
    assert not checks["gradient of loop1"].ok


def test_a_reward_that_is_not_finite_fails_its_loop() -> None:
    trainer = prepared()
    reward = trainer.rewards["loop1"].rewards["iou"]
    plain = reward.score

    def score(samples: Any, prompts: Any) -> Any:
        scores = plain(samples, prompts)
        total = scores.total.clone()
        total[0] = torch.nan
        return type(scores)(total=total)

    reward.score = score  # type: ignore[method-assign]
    check = found(trainer)["loop1 has something to learn from"]
    assert not check.ok
    assert "1 of 32 rewards are not finite" in check.said


def test_a_meteor_of_nan_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    from motionkit_regions.self_play import preflight

    assert preflight.meteor().ok
    first: list[str] = []

    def score(self: Any, text: str, references: list[str]) -> float:
        first.append(text)
        wanted = preflight._METEOR[(text, references[0])]
        return wanted if len(first) == 1 else float("nan")  # max(0.0, nan) is 0.0

    monkeypatch.setattr(preflight.Meteor, "__call__", score)
    assert not preflight.meteor().ok


def test_the_parts_of_a_reward_are_shown_and_judged() -> None:
    checks = found(prepared())
    said = checks["loop1 has something to learn from"].said
    assert re.match(
        r"cycle IoU 0\.\d{3}, reward \d\.\d{3} \(iou 0\.\d{3}, contrast -?0\.\d{3}, brevity 0\.\d{3}\), ", said
    )
    assert re.search(r"by iou and contrast alone \d+%$", said)
    assert "(meteor 0." in checks["loop2 has something to learn from"].said
    # Masks that are all alike: what is paid for words alone has a spread, and teaches nothing of regions.
    trainer = prepared()
    trainer.policy.draw = lambda seen, prompts: (
        torch.full(  # type: ignore[method-assign]
            (len(prompts), *trainer.policy.mask_size), -1.0
        )
        + 0 * prompts.sum()
    )
    check = found(trainer)["loop1 has something to learn from"]
    assert not check.ok
    assert "cycle IoU 0.000" in check.said
    assert "by iou and contrast alone 100%" in check.said


def test_the_progress_line_shows_the_cycle_iou() -> None:
    assert [figure.label for figure in Sa2vaRl.figures] == ["cycle IoU", "reward", "judge IoU"]
    assert Sa2vaRl.figures[0].metrics == ("loop1/cycle_iou",)


def test_rewards_that_are_all_alike_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = prepared()
    plain = LoopRewards.__call__
    monkeypatch.setattr(
        LoopRewards, "__call__", lambda self, made: (_flat if self.loop == "loop2" else as_it_is)(plain(self, made))
    )
    assert failed(trainer) == ["loop2 has something to learn from"]


def as_it_is(scores: Any) -> Any:
    return scores


def _flat(scores: Any) -> Any:
    return type(scores)(**{**vars(scores), "total": torch.zeros_like(scores.total)})


def test_the_command_prints_a_line_for_each_and_ends_with_1_where_one_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    line = ["sa2va-rl", "--check", "--batch-size", "2", "--group-size", "2"]
    run = CliRunner()
    done = run.invoke(get_app(), line)
    assert done.exit_code == 0, done.stderr
    assert done.stdout.count("ok    ") == 11
    monkeypatch.setattr(Sa2vaRl, "check", lambda self: iter([Checked("a", True, "x"), Checked("b", False, "y")]))
    done = run.invoke(get_app(), line)
    assert (done.exit_code, done.stdout) == (1, "ok    a: x\nfails b: y\n")
    assert "1 of 2 checks failed: b." in done.stderr
    document = json.loads(run.invoke(get_app(), [*line, "--json"]).stdout)
    assert document["checks"] == [{"name": "a", "ok": True, "said": "x"}, {"name": "b", "ok": False, "said": "y"}]
    assert document["error"]["code"] == 1


def fine(**changes: float) -> dict[str, float]:
    base = {"zero_std_frac": 0.2, "reward_mean": 0.5, "distinct": 0.8, "kl_div": 0.05}
    return {f"loop1/{name}": value for name, value in {**base, **changes}.items()}


def look(alarms: SelfPlayAlarms, steps: int, **changes: float) -> list[str]:
    return [text for _ in range(steps) for text in alarms.look(fine(**changes))]


def test_nothing_is_said_of_a_run_that_goes_well() -> None:
    assert look(SelfPlayAlarms(5), 40) == []


def test_rewards_without_variance_are_told_once_with_what_to_do() -> None:
    alarms = SelfPlayAlarms(5)
    assert look(alarms, 4, zero_std_frac=1.0) == []
    (text,) = look(alarms, 20, zero_std_frac=1.0)
    assert "same reward in loop1 for 5 steps (mean 0.5)" in text
    assert "rollout.temperature" in text


def test_one_group_with_variance_is_enough() -> None:
    assert look(SelfPlayAlarms(5), 20, zero_std_frac=0.99) == []


def test_collapse_is_measured_against_the_first_steps() -> None:
    alarms = SelfPlayAlarms(5)
    look(alarms, 5)
    assert look(alarms, 10, distinct=0.4) == []  # half
    assert look(alarms, 10, distinct=0.1, reward_mean=0.8) == []  # the policy has made up its mind, and is paid for it
    (text,) = look(alarms, 10, distinct=0.1)
    assert "fell from 80% to 10% of a step and its reward did not rise" in text


def test_drift() -> None:
    (text,) = look(SelfPlayAlarms(5), 10, kl_div=2.0)
    assert "KL of loop1 to the start is 2" in text


@pytest.mark.parametrize(("judge", "fires"), [(0.55, True), (0.65, False)])
def test_a_judge_that_does_not_follow(judge: float, fires: bool) -> None:
    alarms = SelfPlayAlarms(5)
    alarms.begin({"regions/cycle_iou_greedy": 0.6, "regions/judge_iou_greedy": 0.6}, 200)
    found = alarms.look({"regions/cycle_iou_greedy": 0.72, "regions/judge_iou_greedy": judge})
    assert bool(found) == fires


BEFORE = {"attributes_wrong_greedy": 0.01, "words_greedy": 5.0, "no_target": 0.75}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, ""),
        ({"attributes_wrong_greedy": 0.029, "words_greedy": 5.9, "no_target": 0.73}, ""),  # each within what is allowed
        ({"attributes_wrong_greedy": 0.0, "words_greedy": 3.0, "no_target": 0.9}, ""),  # better, or shorter
        ({"attributes_wrong_greedy": 0.04}, "name 4.0% of the attributes wrongly, 1.0% before"),
        ({"words_greedy": 6.1}, "grew from 5.0 to 6.1 words"),
        ({"no_target": 0.7}, "nothing is drawn of 70% of absent objects, 75% before"),
    ],
)
def test_what_gets_worse_on_watched_regions(changes: dict[str, float], said: str) -> None:
    alarms = SelfPlayAlarms(5)
    alarms.begin({f"regions/{name}": value for name, value in BEFORE.items()}, 200)
    now = {f"regions/{name}": value for name, value in {**BEFORE, **changes}.items()}
    found = alarms.look(now)
    assert len(found) == bool(said)
    assert all(said in text for text in found)
    assert alarms.look(now) == []  # once
    again = SelfPlayAlarms(5)
    again.load_state(alarms.state())
    assert again.look(now) == []


def test_of_few_regions_a_small_change_is_chance() -> None:
    before = {"regions/no_target": 13 / 24}
    for count, fires in ((24, False), (400, True)):
        alarms = SelfPlayAlarms(5)
        alarms.begin(before, count)
        assert bool(alarms.look({"regions/no_target": 12 / 24})) == fires


def test_nothing_is_compared_that_was_not_measured_before_training() -> None:
    alarms = SelfPlayAlarms(5)
    assert alarms.look({f"regions/{name}": value for name, value in BEFORE.items()}) == []
    begun = SelfPlayAlarms(5)
    begun.begin({"regions/words_greedy": 5.0}, 200)  # foreign data: the truth is not known
    resumed = SelfPlayAlarms(5)
    resumed.load_state(begun.state())  # stopped before the first step
    (text,) = resumed.look({"regions/words_greedy": 7.0})
    assert "words" in text


def test_what_was_said_is_not_said_again_after_a_resume() -> None:
    first = SelfPlayAlarms(5)
    look(first, 5)
    again = SelfPlayAlarms(5)
    again.load_state(first.state())
    assert look(first, 10, distinct=0.1) == look(again, 10, distinct=0.1) != []
    third = SelfPlayAlarms(5)
    third.load_state(again.state())
    assert look(third, 10, distinct=0.1) == []
