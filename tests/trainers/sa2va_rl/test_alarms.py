"""What is said while self-play goes on, and when."""

from __future__ import annotations

import pytest

from motionkit.trainers.sa2va_rl._alarms import SelfPlayAlarms


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
    assert alarms.look({"regions/cycle_iou": 0.6, "regions/judge_iou": 0.6}) == []
    found = alarms.look({"regions/cycle_iou": 0.72, "regions/judge_iou": judge})
    assert bool(found) == fires


def test_what_was_said_is_not_said_again_after_a_resume() -> None:
    first = SelfPlayAlarms(5)
    look(first, 5)
    again = SelfPlayAlarms(5)
    again.load_state(first.state())
    assert look(first, 10, distinct=0.1) == look(again, 10, distinct=0.1) != []
    third = SelfPlayAlarms(5)
    third.load_state(again.state())
    assert look(third, 10, distinct=0.1) == []
