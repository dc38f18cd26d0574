"""The alarm fires when true and predicted success part, and only then."""

from __future__ import annotations

import pytest

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


@pytest.mark.parametrize(
    ("seen", "missed", "false", "fires", "why"),
    [
        (0, 50, 0, True, ""),
        (0, 22, 0, True, "sees fewer than half"),
        (18, 15, 40, True, "takes for successes"),
        (0, 3, 3, False, ""),  # too few to tell
        (10, 15, 3, False, ""),  # 10 of 25 seen
    ],
)
def test_what_fires_and_what_does_not(seen: int, missed: int, false: int, fires: bool, why: str) -> None:
    alarm = SuccessAlarm(0.2, 200)
    told = [(True, True)] * seen + [(True, False)] * missed + [(False, True)] * false
    alarm.add(told + [(False, False)] * (200 - len(told)))
    assert alarm.check(1) is fires
    assert why in alarm.why


def test_old_episodes_are_forgotten() -> None:
    alarm = SuccessAlarm(0.2, 50)
    alarm.add([(False, True)] * 50)
    alarm.add([(True, True)] * 50)
    assert alarm.rates == (1.0, 1.0)
    assert not alarm.check(1)


def test_it_goes_on_after_a_resume() -> None:
    alarm = SuccessAlarm(0.2, 40)
    alarm.add([(False, True)] * 40)
    alarm.check(7)
    again = SuccessAlarm(0.2, 40)
    again.load_state(alarm.state())
    assert (again.fired_at, again.at, again.rates) == (7, (0.0, 1.0), (0.0, 1.0))
    again.add([(True, True)] * 10)
    assert again.rates == (0.25, 1.0)
