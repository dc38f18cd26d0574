"""What is said while self-play goes on, and when."""

from __future__ import annotations

import pytest

from motionkit.regions.self_play.summary import SelfPlayAlarms


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
