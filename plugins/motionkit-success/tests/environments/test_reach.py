"""`reach`: starts, steps, success, pictures, and its state."""

from __future__ import annotations

import numpy as np

from motionkit_success.environments.arm import BASE, CAMERA, EDGE, LINK, STEP, Reach, elbows
from motionkit_success.environments.tasks import ReachSettings


def started(copies: int = 8, first: int = 0, **options: object) -> Reach:
    environment = Reach(ReachSettings.model_validate(options), num_envs=copies)
    environment.reset(np.arange(copies), np.arange(first, first + copies))
    return environment


def test_a_seed_is_a_start_whatever_the_copy() -> None:
    several, one = started(8), started(1, first=5)
    assert np.array_equal(several.states()[5:6], one.states())
    assert np.array_equal(several.frames()[CAMERA][5:6], one.frames()[CAMERA])
    states = started(500).states()
    assert np.linalg.norm(states[:, 4:], axis=1).min() >= 0.35
    assert np.allclose(states[:, 4:], states[:, 2:4] - states[:, :2])
    assert abs(states[:, :4]).max() <= EDGE


def test_a_step_moves_the_gripper_and_no_more() -> None:
    environment = started(4)
    before = environment.states()
    environment.step(np.array([[1, 0], [0, -1], [5, 0], [0, 0]], np.float32))
    moved = environment.states()[:, :2] - before[:, :2]
    wanted = np.array([[STEP, 0], [0, -STEP], [STEP, 0], [0, 0]], np.float32)
    inside = (abs(before[:, :2] + wanted) <= EDGE).all(axis=1)
    assert inside.any()
    assert np.allclose(moved[inside], wanted[inside], atol=1e-6)
    assert np.array_equal(environment.states()[:, 2:4], before[:, 2:4])


def test_success_is_the_distance_after_the_step() -> None:
    environment = started(32)
    for _ in range(30):
        found = environment.step(environment.scripted())
        distance = np.linalg.norm(environment.states()[:, 4:], axis=1)
        assert np.array_equal(found.success, distance < 0.15)
        assert np.array_equal(found.reward, found.success.astype(np.float32))
    assert found.success.all()
    assert found.truncated.all()
    assert not found.terminated.any()


def test_an_episode_that_is_over_stands_still_until_its_reset() -> None:
    environment = started(2, max_steps=3)
    for _ in range(3):
        found = environment.step(environment.scripted())
    assert found.done.all()
    last = environment.states()
    environment.step(np.ones((2, 2), np.float32))
    assert np.array_equal(environment.states(), last)
    environment.reset(np.array([1]), np.array([77]))
    assert np.array_equal(environment.states()[0], last[0])
    assert not np.array_equal(environment.states()[1], last[1])


def test_it_ends_with_success_where_asked() -> None:
    environment = started(16, terminate_on_success=True)
    ended = np.zeros(16, bool)
    for _ in range(30):
        found = environment.step(environment.scripted())
        ended |= found.terminated
        assert np.array_equal(found.terminated & ~found.success, np.zeros(16, bool))
    assert ended.all()


def test_the_picture_shows_goal_and_gripper() -> None:
    environment = started(40)
    pictures, states = environment.frames()[CAMERA], environment.states()
    assert pictures.shape == (40, 64, 64, 3)
    assert pictures.dtype == np.uint8

    def pixel(places: np.ndarray) -> np.ndarray:
        column = ((places[:, 0] + 1) * 32).astype(int)
        row = ((1 - places[:, 1]) * 32).astype(int)
        return pictures[np.arange(len(places)), row, column].astype(int)

    assert abs(pixel(states[:, :2]) - (240, 205, 60)).max() <= 3
    goal = abs(pixel(states[:, 2:4]) - (60, 190, 80)).max(axis=1)
    assert (goal <= 3).mean() > 0.7  # the arm hides some


def test_the_elbow_keeps_the_links_as_long_as_they_are() -> None:
    gripper = np.random.default_rng(1).uniform(-EDGE, EDGE, (100, 2)).astype(np.float32)
    elbow = elbows(gripper)
    assert np.allclose(np.linalg.norm(elbow - BASE, axis=1), LINK, atol=1e-5)
    assert np.allclose(np.linalg.norm(elbow - gripper, axis=1), LINK, atol=1e-5)


def test_its_state_goes_on_in_another_copy() -> None:
    first = started(4)
    first.step(first.scripted())
    kept = first.get_state()
    second = started(4, first=100)
    second.set_state(kept)
    for _ in range(5):
        a, b = first.step(first.scripted()), second.step(second.scripted())
        assert np.array_equal(a.success, b.success)
    assert np.array_equal(first.frames()[CAMERA], second.frames()[CAMERA])
    assert not np.array_equal(kept["places"], first.get_state()["places"])
