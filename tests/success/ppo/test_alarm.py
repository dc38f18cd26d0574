"""The alarm fires when true and predicted success part, and only then."""

from __future__ import annotations

from motionkit.success.ppo.train import SuccessAlarm


def test_it_fires_once_and_keeps_when() -> None:
    alarm = SuccessAlarm(0.2, 100)
    alarm.add([(False, True)] * 10)
    assert not alarm.check(1)  # too few episodes to tell
    alarm.add([(True, True)] * 90)
    assert not alarm.check(2)
    alarm.add([(False, True)] * 30)
    assert alarm.check(3)
    assert alarm.check(4)
    assert alarm.fired_at == 3
    assert alarm.at == (0.7, 1.0)


def test_old_episodes_are_forgotten() -> None:
    alarm = SuccessAlarm(0.2, 50)
    alarm.add([(False, True)] * 50)
    alarm.add([(True, True)] * 50)
    assert alarm.rates == (1.0, 1.0)
    assert not alarm.check(1)


def test_a_reward_that_misses_success_is_seen_too() -> None:
    alarm = SuccessAlarm(0.2, 100)
    alarm.add([(True, False)] * 50)
    assert alarm.check(1)


def test_rare_success_that_is_not_seen_fires_without_a_gap() -> None:
    alarm = SuccessAlarm(0.2, 200)
    alarm.add([(False, False)] * 178 + [(True, False)] * 22)
    assert alarm.check(1)
    assert "sees fewer than half" in alarm.why


def test_predicted_success_of_other_episodes_fires_at_equal_rates() -> None:
    alarm = SuccessAlarm(0.2, 200)
    alarm.add([(True, True)] * 18 + [(False, True)] * 40 + [(True, False)] * 15 + [(False, False)] * 127)
    assert alarm.check(1)
    assert "takes for successes" in alarm.why


def test_few_errors_do_not_fire() -> None:
    alarm = SuccessAlarm(0.2, 200)
    alarm.add([(True, False)] * 3 + [(False, True)] * 3 + [(False, False)] * 100)  # too few to tell
    assert not alarm.check(1)
    alarm.add([(True, True)] * 10 + [(True, False)] * 12)  # 10 of 25 seen
    assert not alarm.check(2)


def test_it_goes_on_after_a_resume() -> None:
    alarm = SuccessAlarm(0.2, 40)
    alarm.add([(False, True)] * 40)
    alarm.check(7)
    again = SuccessAlarm(0.2, 40)
    again.load_state(alarm.state())
    assert (again.fired_at, again.at, again.rates) == (7, (0.0, 1.0), (0.0, 1.0))
    again.add([(True, True)] * 10)
    assert again.rates == (0.25, 1.0)
