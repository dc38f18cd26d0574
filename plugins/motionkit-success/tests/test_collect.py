"""`motionkit reward-collect`: both classes, quotas, every policy, and a resume to the same episodes."""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from motionkit.cli import get_app
from motionkit.errors import MotionkitError
from motionkit.runs import next_commands, peek
from motionkit_success.collect import RewardCollect
from motionkit_success.collect_settings import RewardCollectSettings
from motionkit_success.environments.arm import open_reach
from motionkit_success.environments.tasks import ReachSettings
from motionkit_success.episodes import open_episodes
from tests.made.training import run_in_parts, run_trainer


def settings(out: Path | None = None, **changes: Any) -> RewardCollectSettings:
    base: dict[str, Any] = {
        "run": {"num_steps": 3, "out": out},
        "env": {"name": "reach", "max_steps": 9},
        "episodes": {"num_envs": 4, "steps": 15},
        "threads": 1,
    }
    if changes.get("policy", "ppo") == "ppo":
        base["objective"] = {"batch_size": 16, "epochs": 1}
    for name, value in changes.items():
        base[name] = {**base[name], **value} if isinstance(value, dict) and name in base else value
    return RewardCollectSettings.model_validate(base)


def collect(out: Path, *, stop_after: int = 0, **changes: Any) -> Mapping[str, Any]:
    _, found = run_trainer(RewardCollect, "reward-collect", settings(out, **changes), out, stop_after=stop_after)
    return dict(found)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Path, Mapping[str, Any]]]:
    """The run that was collected by a policy, one for each."""
    folder = tmp_path_factory.mktemp("runs")

    @cache
    def by(policy: str) -> tuple[Path, Mapping[str, Any]]:
        return folder / policy, collect(folder / policy, policy=policy)

    return by


Runs = Callable[[str], tuple[Path, Mapping[str, Any]]]


@pytest.mark.parametrize("policy", ["ppo", "random", "scripted"])
def test_labels_are_those_of_the_states_that_frames_show(run: Runs, policy: str) -> None:
    place, found = run(policy)
    data = open_episodes(place)
    assert len(data.records) == 4 * (45 // 9)
    assert {record.frames for record in data.records} == {9}
    assert {record.source for record in data.records} == {policy}
    assert data.counts() == {"positive": found["positive"], "negative": found["negative"]}
    # The yellow gripper hides the middle of the green goal in a success: far fewer green pixels than elsewhere.
    pictures = data.read(np.arange(len(data)))["base_camera"].astype(int)
    green = ((pictures[..., 1] > 170) & (pictures[..., 0] < 100)).sum((1, 2))
    if 0 < data.labels.sum() < len(data):
        assert green[data.labels == 1].mean() < green[data.labels == 0].mean()


def test_no_frame_is_one_of_a_reset(run: Runs) -> None:
    """The code of the guide's authors kept the first frame of the next episode with the label of the last one."""
    data = open_episodes(run("scripted")[0])
    environment = open_reach(ReachSettings(max_steps=9))
    for number, record in enumerate(data.records):
        assert record.seed is not None
        environment.reset(np.array([0]), np.array([record.seed]))
        shown, labels = [], ""
        for _ in range(record.frames):
            step = environment.step(environment.scripted())
            shown.append(environment.frames()["base_camera"][0])
            labels += "1" if step.success[0] else "0"
        assert labels == record.labels
        own = np.flatnonzero(data.episode == number)
        assert np.array_equal(data.read(own)["base_camera"], np.stack(shown))


def test_actions_and_states_are_kept_beside_the_frames(run: Runs) -> None:
    data = open_episodes(run("scripted")[0])
    actions, states = data.column("action"), data.column("state")
    environment = open_reach(ReachSettings(max_steps=9), num_envs=1)
    for number, record in enumerate(data.records):
        assert record.seed is not None
        environment.reset(np.array([0]), np.array([record.seed]))
        own = np.flatnonzero(data.episode == number)
        environment.step(environment.scripted())
        for frame in own[:-1]:
            assert np.array_equal(states[frame], environment.states()[0])
            assert np.allclose(actions[frame], environment.scripted()[0])
            environment.step(actions[frame][None])
        assert np.array_equal(states[own[-1]], environment.states()[0])
        assert not actions[own[-1]].any()


def test_a_full_quota_ends_the_run(tmp_path: Path) -> None:
    found = collect(tmp_path / "run", policy="scripted", env={"max_steps": 30}, quota={"positive": 3, "negative": 0},
                    run={"num_steps": 4}, episodes={"num_envs": 4, "steps": 30})  # fmt: skip
    assert found["positive"]["trajectories"] == 3
    assert found["left_out"]["positive"] > 0
    found = collect(tmp_path / "both", policy="random", quota={"positive": 1, "negative": 4}, run={"num_steps": 300},
                    env={"max_steps": 30, "radius": 0.4, "min_distance": 0.41})  # fmt: skip
    assert (found["positive"]["trajectories"], found["negative"]["trajectories"]) == (1, 4)


@pytest.mark.parametrize(("policy", "stop_after"), [("ppo", 1), ("ppo", 2), ("random", 1)])
def test_a_run_that_was_stopped_collects_the_same(run: Runs, tmp_path: Path, policy: str, stop_after: int) -> None:
    chosen = settings(tmp_path / "parts", policy=policy)
    run_in_parts(RewardCollect, "reward-collect", chosen, tmp_path / "parts", stop_after=stop_after)
    one, two = open_episodes(run(policy)[0]), open_episodes(tmp_path / "parts")
    assert one.fingerprint == two.fingerprint
    assert np.array_equal(one.column("action"), two.column("action"))
    assert np.array_equal(one.column("state"), two.column("state"))
    assert two.verify() == []


def test_a_run_whose_worker_died_collects_the_same(run: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shared = settings(tmp_path / "parts", episodes={"num_envs": 4, "steps": 15, "workers": 2})
    steps = itertools.count(1)
    learn = RewardCollect.train

    def train(self: RewardCollect, run: Any) -> Any:
        update, workers = self.learner.update, self.environment._team.workers  # type: ignore[attr-defined]

        def killing() -> dict[str, float]:
            if next(steps) == 3:
                os.kill(workers[1]._process.pid, signal.SIGKILL)
            found: dict[str, float] = update()
            return found

        self.learner.update = killing  # type: ignore[method-assign]
        return learn(self, run)

    with monkeypatch.context() as patched:
        patched.setattr(RewardCollect, "train", train)
        with pytest.raises(MotionkitError, match="worker 2 of 2 died") as said:
            run_trainer(RewardCollect, "reward-collect", shared, tmp_path / "parts")
    assert said.value.code == 1
    assert open_episodes(tmp_path / "parts").verify() == []
    resume = {"resume": tmp_path / "parts", "num_steps": 3}
    again = settings(None, run=resume, episodes={"num_envs": 4, "steps": 15, "workers": 3})
    run_trainer(RewardCollect, "reward-collect", again, tmp_path / "parts")
    assert open_episodes(tmp_path / "parts").fingerprint == open_episodes(run("ppo")[0]).fingerprint


def test_it_goes_on_with_the_actor_it_kept(run: Runs, tmp_path: Path) -> None:
    first = str(run("ppo")[0])
    found = collect(tmp_path / "second", policy=first)
    assert found["negative"]["trajectories"] + found["positive"]["trajectories"] == 20
    assert open_episodes(tmp_path / "second").records[0].source == first


def test_one_class_is_said(tmp_path: Path) -> None:
    found = collect(tmp_path / "run", policy="random", env={"radius": 0.01})
    assert found["positive"]["trajectories"] == 0
    assert "no positive one: a classifier cannot be trained on them alone" in found["verdict"]
    # Frames before a success are failures, so that a classifier can be trained on successful episodes alone.
    shown = collect(tmp_path / "shown", policy="scripted", quota={"positive": 4}, run={"num_steps": 1})
    assert shown["negative"]["trajectories"] == 0
    assert "no negative one: a classifier of these alone has not seen" in shown["verdict"]
    assert next_commands(peek(tmp_path / "shown"))[1] == f"motionkit ppo --env.max-steps 9 --init {tmp_path / 'shown'}"


def test_an_unknown_policy_is_refused() -> None:
    with pytest.raises(MotionkitError, match="best") as said:
        RewardCollect(settings(policy="best")).prepare()
    assert "ppo, random, scripted" in said.value.fix


@pytest.mark.parametrize("policy", ["scripted", "random", "ppo"])
def test_what_a_task_sets_for_learning_is_left_out_where_nothing_is_learned(
    policy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    cli = CliRunner().invoke(get_app(), ["reward-collect", "--env", "push", "--policy", policy, "--dry-run"])
    assert cli.exit_code == 0, cli.output
