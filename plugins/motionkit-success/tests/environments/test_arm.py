"""`reach` with an arm: its joints, its links, and what it shows."""

from __future__ import annotations

import numpy as np
import pytest

from motionkit_success.checks import check_environment
from motionkit_success.environments import canvas
from motionkit_success.environments.arm import (
    BASE,
    CAMERA,
    CHANGE,
    EDGE,
    LIMITS,
    LINK,
    SPEED,
    Arm,
    Reach,
    elbows,
    joints_of,
    open_reach,
    places_of,
)
from motionkit_success.environments.tasks import ReachSettings


def started(copies: int = 8, first: int = 0, **options: object) -> Arm:
    environment = Arm(ReachSettings.model_validate(options), num_envs=copies)
    environment.reset(np.arange(copies), np.arange(first, first + copies))
    return environment


@pytest.mark.parametrize("kind", ["arm", "point"])
def test_it_is_an_environment(kind: str) -> None:
    check_environment("reach", options={"kind": kind}, steps=30)


def test_the_joints_of_a_place_put_the_gripper_there() -> None:
    draw = np.random.default_rng(0)
    gripper = draw.uniform(-EDGE, EDGE, (500, 2)).astype(np.float32)
    joints = joints_of(gripper)
    elbow, found = places_of(joints)
    assert np.allclose(found, gripper, atol=1e-5)
    assert np.allclose(elbow, elbows(gripper), atol=1e-5)
    assert (joints > LIMITS[0]).all()
    assert (joints < LIMITS[1]).all()
    # Forward kinematics by complex numbers, one joint after the other.
    first = complex(*BASE) + LINK * np.exp(1j * joints[:, 0])
    second = first + LINK * np.exp(1j * (joints[:, 0] + joints[:, 1]))
    assert np.allclose(np.stack([second.real, second.imag], axis=1), gripper, atol=1e-5)


def test_a_start_is_that_of_a_point_and_at_rest() -> None:
    arm, point = started(32), Reach(ReachSettings(), num_envs=32)
    point.reset(np.arange(32), np.arange(32))
    assert np.allclose(places_of(arm._joints)[1], point.states()[:, :2], atol=1e-5)
    assert np.array_equal(arm.states()[:, 6:], point.states()[:, 2:4])
    assert not arm.states()[:, 4:6].any()
    assert abs(arm.frames()[CAMERA].astype(int) - point.frames()[CAMERA]).max() <= 2


def test_a_step_changes_velocities_by_no_more_than_it_may_and_moves_by_them() -> None:
    environment = started(64)
    draw = np.random.default_rng(1)
    for _ in range(30):
        joints, speeds = environment._joints.copy(), environment._speeds.copy()
        actions = draw.uniform(-2, 2, (64, 2)).astype(np.float32)
        environment.step(actions)
        free = ((environment._joints > LIMITS[0]) & (environment._joints < LIMITS[1])).all(axis=1)
        wanted = actions.clip(-1, 1) * SPEED
        gap = wanted - speeds
        expected = np.where(abs(gap) <= CHANGE, wanted, speeds + np.sign(gap) * CHANGE)
        assert free.sum() > 20
        assert np.allclose(environment._speeds[free], expected[free], atol=1e-6)
        assert np.allclose(environment._joints[free], (joints + expected)[free], atol=1e-6)
        assert abs(environment._speeds).max() <= SPEED + 1e-6


def test_a_joint_goes_on_when_its_target_is_zero_and_comes_to_rest() -> None:
    environment = started(4)
    environment._joints[:] = (0.5, 1.5)
    environment._speeds[:] = 0.15
    moved = []
    for _ in range(4):
        before = environment._joints.copy()
        environment.step(np.zeros((4, 2), np.float32))
        moved.append(float((environment._joints - before)[0, 0]))
    assert moved == pytest.approx([0.09, 0.03, 0, 0], abs=1e-6)


def test_a_joint_stops_at_its_limit() -> None:
    environment = started(8)
    for _ in range(30):
        environment.step(np.ones((8, 2), np.float32))
    assert np.allclose(environment._joints, LIMITS[1])
    assert not environment._speeds.any()


def test_the_way_to_the_goal_is_not_in_the_state() -> None:
    environment = started(6)
    states = environment.states()
    assert states.shape == (6, 8)
    assert np.allclose(states[:, 0] ** 2 + states[:, 2] ** 2, 1, atol=1e-6)
    assert np.allclose(states[:, 1] ** 2 + states[:, 3] ** 2, 1, atol=1e-6)
    environment._places[:, 1] = 0.25
    again = environment.states()
    assert np.array_equal(again[:, :6], states[:, :6])
    assert (again[:, 6:] == 0.25).all()


def test_the_script_stops_on_the_goal_and_random_actions_rarely_meet_it() -> None:
    environment = started(200)
    for _ in range(30):
        last = environment.step(environment.scripted()).success
    assert last.all()
    assert abs(environment._speeds).max() < 0.02
    environment = started(320)
    draw, success = np.random.default_rng(0), np.zeros(320, bool)
    for _ in range(30):
        success |= environment.step(draw.uniform(-1, 1, (320, 2))).success
    assert 0.03 < success.mean() < 0.12


def test_its_state_goes_on_in_another_copy() -> None:
    first, second = started(4), started(4, first=100)
    for _ in range(3):
        first.step(np.ones((4, 2), np.float32))
    second.set_state(first.get_state())
    for number in range(5):
        actions = np.random.default_rng(number).uniform(-1, 1, (4, 2))
        first.step(actions)
        second.step(actions)
    assert np.array_equal(first.states(), second.states())
    assert np.array_equal(first.frames()[CAMERA], second.frames()[CAMERA])


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize(
    "options", [{"kind": "arm"}, {"kind": "point", "distractor": False}, {"kind": "arm", "size": 33}]
)
def test_a_picture_shows_what_is_there_and_nothing_of_the_ones_before(
    options: dict[str, object], kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What stands still is kept from picture to picture; a new environment draws all of it."""
    if not kept:
        monkeypatch.setattr(canvas, "_MOST_KEPT", 0)
    settings, draw, seen = ReachSettings.model_validate(options), np.random.default_rng(0), set()
    first = open_reach(settings, num_envs=40)
    first.reset(np.arange(40), np.arange(40))
    for number in range(8):
        first.step(draw.uniform(-1, 1, (40, 2)).astype(np.float32))
        if number % 3 == 1:  # some begin anew
            first.reset(np.arange(number, 20), 100 * number + np.arange(number, 20))
        second = open_reach(settings, num_envs=40)
        second.set_state(first.get_state())
        pictures = first.frames()[CAMERA]
        assert np.array_equal(pictures, second.frames()[CAMERA])
        seen |= {picture.tobytes() for picture in pictures}
    assert len(seen) > 250  # of 320; some arms hardly move
