"""Environments whose copies are shared by processes: the same bits as without, and no process is left behind."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from motionkit.config import Chosen
from motionkit.errors import MotionkitError
from motionkit_success.collect_settings import RewardCollectSettings
from motionkit_success.environments.base import Environment, Scripted, Stored
from motionkit_success.environments.open import open_environment
from motionkit_success.environments.workers import _CLASSES, Order, Work, WorkerEnvironment, space_document, space_of

SEEDS = np.arange(5, dtype=np.int64) + 100


def chosen(**options: Any) -> Chosen:
    return RewardCollectSettings.model_validate({"env": {"name": "reach", "max_steps": 6, **options}}).env


@pytest.fixture(scope="module")
def shared() -> Iterator[Environment]:
    environment = open_environment(chosen(), 5, workers=2)
    yield environment
    environment.close()
    environment.close()


def processes(environment: Environment) -> list[Any]:
    assert isinstance(environment, WorkerEnvironment)
    return [worker._process for worker in environment._team.workers]  # type: ignore[attr-defined]


def walk(environment: Environment, steps: range, *, look: bool = True) -> list[Any]:
    """Step with fixed actions, restart what is over, and keep all that is seen."""
    seen: list[Any] = []
    for number in steps:
        actions = np.random.default_rng(number).uniform(-1.5, 1.5, (5, 2)).astype(np.float32)
        step = environment.step(actions)
        seen += [step.reward, step.success, step.terminated, step.truncated, environment.states()]
        if look or number % 3 == 0:
            seen.append(environment.frames()["base_camera"])
        if (over := np.flatnonzero(step.done)).size:
            environment.reset(over, SEEDS[over] + number)
            seen += [environment.states(), environment.frames()["base_camera"]]
    return seen


def test_they_show_what_one_process_shows(shared: Environment) -> None:
    alone = open_environment(chosen(), 5)
    assert (shared.num_envs, shared.spec, shared.cameras) == (5, alone.spec, alone.cameras)
    assert (shared.state_size, shared.max_steps, shared.action_space) == (8, 6, alone.action_space)
    assert isinstance(shared, Stored)
    assert isinstance(shared, Scripted)
    for look in (True, False):
        for environment in (alone, shared):
            environment.reset(np.arange(5), SEEDS)
        for one, two in zip(walk(alone, range(20), look=look), walk(shared, range(20), look=look), strict=True):
            assert one.dtype == two.dtype
            np.testing.assert_array_equal(one, two)
        np.testing.assert_array_equal(alone.scripted(), shared.scripted())  # type: ignore[attr-defined]


def test_a_frame_that_was_returned_stays_as_it_was(shared: Environment) -> None:
    shared.reset(np.arange(5), SEEDS)
    first = shared.frames()["base_camera"]
    kept = first.copy()
    shared.step(np.ones((5, 2), np.float32))
    assert not np.array_equal(shared.frames()["base_camera"], kept)
    np.testing.assert_array_equal(first, kept)


def test_a_state_goes_on_with_another_number_of_workers(shared: Environment) -> None:
    assert isinstance(shared, Stored)
    shared.reset(np.arange(5), SEEDS)
    walk(shared, range(4))
    state = shared.get_state()
    rest = walk(shared, range(4, 12))
    other = open_environment(chosen(), 5)
    assert isinstance(other, Stored)
    other.set_state(state)
    shared.set_state(other.get_state())
    for one, two, three in zip(rest, walk(other, range(4, 12)), walk(shared, range(4, 12)), strict=True):
        np.testing.assert_array_equal(one, two)
        np.testing.assert_array_equal(one, three)


def test_a_dead_worker_is_an_error_and_the_others_end() -> None:
    environment = open_environment(chosen(), 4, workers=2)
    ids = [process.pid for process in processes(environment)]
    environment.reset(np.arange(4), SEEDS[:4])
    os.kill(ids[1], signal.SIGKILL)
    with pytest.raises(MotionkitError) as said:
        walk_once(environment)
    assert said.value.code == 1
    assert "--resume" in said.value.fix
    assert not any(map(alive, ids))


def test_processes_end_with_the_environment() -> None:
    environment = open_environment(chosen(), 2, workers=1)
    ids = [process.pid for process in processes(environment)]
    assert all(map(alive, ids))
    os.kill(ids[0], signal.SIGTERM)  # a scheduler's goes to all processes: the run is saved first
    environment.reset(np.arange(2), SEEDS[:2])
    walk_once(environment, 2)
    del environment
    assert not any(map(alive, ids))


def walk_once(environment: Environment, copies: int = 4) -> None:
    environment.step(np.zeros((copies, 2), np.float32))


def alive(number: int) -> bool:
    """Whether a process is there; a dead child that nobody waited for counts."""
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    return True


def test_an_error_in_a_worker_names_its_place() -> None:
    work = Work(Order.of(chosen(), 2))
    assert work.answer("open", ())[0]
    done, error = work.answer("reset", (np.array([7]), np.array([1])))
    assert not done
    assert error["code"] == 1
    assert error["message"] == "the environment reach failed in a worker."
    assert error["why"].startswith("IndexError")
    assert "arm.py:" in error["why"]


def test_objects_of_an_info_stay_in_the_worker() -> None:
    from motionkit_success.environments.workers import _plain

    joints = np.zeros((2, 22, 3))
    info = {"joints": joints, "fps": np.float64(20), "text": "a", "done": True, "object": object(), "list": [1],
            "objects": np.array([object()])}  # fmt: skip
    found = _plain(info)
    assert set(found) == {"joints", "fps", "text", "done"}
    assert found["fps"] == 20.0
    assert found["joints"] is joints


def test_spaces_keep_their_sizes() -> None:
    from gymnasium.spaces import Box, Discrete, MultiDiscrete

    for space in (Box(-1.0, np.array([1.0, np.inf], np.float32), (2,), np.float32), Discrete(4, start=2)):
        assert space_of(space_document(space)) == space
    with pytest.raises(MotionkitError, match="actions are MultiDiscrete"):
        space_document(MultiDiscrete([2, 2]))


def test_what_an_environment_does_not_offer_is_not_offered() -> None:
    offers = {key: (issubclass(kind, Stored), issubclass(kind, Scripted)) for key, kind in _CLASSES.items()}
    assert all(key == said for key, said in offers.items())


@pytest.mark.parametrize(("workers", "backend", "word"), [(6, "processes", "5 copies"), (0, "ray", "without workers")])
def test_what_cannot_be_shared_is_refused(workers: int, backend: Any, word: str) -> None:
    with pytest.raises(MotionkitError, match=word) as said:
        open_environment(chosen(), 5, workers=workers, backend=backend)
    assert said.value.code == 2
    assert "--workers" in said.value.fix


def test_an_environment_that_does_not_open_says_so_and_leaves_nothing() -> None:
    bad = Chosen("environments", "gymnasium", RewardCollectSettings.model_validate(
        {"env": {"name": "gymnasium", "id": "NoSuchThing-v9"}}).env.options)  # fmt: skip
    began = time.monotonic()
    with pytest.raises(MotionkitError, match="NoSuchThing-v9") as said:
        open_environment(bad, 2, workers=1)
    assert said.value.code == 2
    assert time.monotonic() - began < 60
