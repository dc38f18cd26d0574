"""The contract, the equation of motion against closed forms, the picture, and that the task can be done."""

from __future__ import annotations

import math

import numpy as np
import pytest

from motionkit_environment_pendulum import PendulumOptions
from motionkit_environment_pendulum.environment import CAMERA, GRAVITY, ROD, STEP, Pendulum
from motionkit_success.checks import check_environment

COPIES = np.arange(1)


def _at(angle: float, *, speed: float = 0.0, mark: float = 3.0, **options: object) -> Pendulum:
    made = Pendulum(PendulumOptions.model_validate({"max_steps": 1000, **options}))
    made.reset(COPIES, np.array([0]))
    made.set_state(
        {**made.get_state(), "angle": np.array([angle]), "speed": np.array([speed]), "mark": np.array([mark])}
    )
    return made


def test_contract() -> None:
    check_environment("pendulum")


def test_a_small_swing_has_the_period_of_the_formula() -> None:
    made, angles = _at(0.02), []
    for _ in range(100):
        made.step(np.zeros((1, 1)))
        angles.append(made.get_state()["angle"][0])
    signs = np.sign(angles)
    crossings = np.flatnonzero(signs[1:] != signs[:-1])
    # From zero to zero it is half a period, 2 pi sqrt(l / g).
    half = (crossings[-1] - crossings[0]) * STEP / (len(crossings) - 1)
    assert half == pytest.approx(math.pi / math.sqrt(GRAVITY), rel=0.03)


def test_friction_takes_energy_and_nothing_else_does() -> None:
    made = _at(2.0)
    made.step(np.zeros((1, 1)))
    state = made.get_state()
    energy = state["speed"][0] ** 2 / 2 + GRAVITY * (1 - math.cos(state["angle"][0]))
    start = GRAVITY * (1 - math.cos(2.0))
    # A fall from rest loses the friction's work, the integral of f v², which is a hundredth here.
    assert 0.97 * start < energy < start


def test_a_weak_motor_holds_what_it_can_and_no_more() -> None:
    made = _at(math.asin(0.6))
    for _ in range(20):
        made.step(np.ones((1, 1)))
    assert made.get_state()["angle"][0] == pytest.approx(math.asin(0.6), abs=1e-6)
    level = _at(math.pi / 2)
    level.step(np.ones((1, 1)))
    assert level.get_state()["speed"][0] < 0


def test_success_is_where_the_bob_is_on_the_mark() -> None:
    edge = 2 * math.asin(0.15 / (2 * ROD))  # an angle whose chord is the radius
    for away, fulfilled in ((0.9 * edge, True), (1.1 * edge, False)):
        made = _at(0.0, mark=away)
        assert bool(made.step(np.zeros((1, 1))).success[0]) is fulfilled
    assert made.states()[0] == pytest.approx([1, 0, 0, math.cos(1.1 * edge), math.sin(1.1 * edge)], abs=1e-6)


def test_the_picture_shows_bob_and_mark_where_they_are() -> None:
    picture = _at(math.pi / 2, mark=-math.pi / 2).frames()[CAMERA][0]
    middle, column = 32, round((ROD + 1) / 2 * 64)
    assert tuple(picture[middle, column]) == (240, 205, 60)
    assert tuple(picture[middle, 63 - column]) == (60, 190, 80)


def test_the_script_swings_to_nearly_every_mark_and_a_motor_that_pushes_one_way_does_not() -> None:
    made = Pendulum(PendulumOptions(), num_envs=100)

    def succeeded(push: bool) -> float:
        made.reset(np.arange(100), np.arange(100))
        done = np.zeros(100, np.bool_)
        for _ in range(made.max_steps):
            done |= made.step(np.ones((100, 1)) if push else made.scripted()).success
        return float(done.mean())

    assert succeeded(push=False) > 0.95
    assert succeeded(push=True) < 0.7
