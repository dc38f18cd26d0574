"""`motionkit ppo --mine`: rounds in which the classifier learns from the policy's own frames."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from motionkit.errors import MotionkitError
from motionkit_success.actor import load_actor
from motionkit_success.classifier import load_classifier, save_classifier
from motionkit_success.environments.arm import Reach
from motionkit_success.environments.tasks import ReachSettings
from motionkit_success.episodes import Collector, open_episodes
from motionkit_success.evaluation.data import Split
from motionkit_success.ppo.mining import HardBatches, Joined, divide
from motionkit_success.ppo.settings import PpoSettings
from motionkit_success.ppo.train import PpoTrainer
from motionkit_success.train import RewardTrain
from motionkit_success.train_settings import RewardTrainSettings
from tests.made.training import metric_lines, run_in_parts, run_trainer


def collect(folder: Path, *, episodes: int = 12, steps: int = 6, seed: int = 0, first: int = 0) -> Path:
    """Write episodes of `reach`, half of them scripted and so with successes."""
    environment = Reach(ReachSettings(max_steps=steps, size=16, radius=0.4, min_distance=0.41), num_envs=1)
    random = np.random.default_rng(seed)
    with Collector(folder, cameras=environment.cameras, environment=environment.spec) as collector:
        for number in range(episodes):
            environment.reset(np.array([0]), np.array([first + number]))
            for _ in range(steps):
                drawn = random.uniform(-1, 1, (1, 2)).astype(np.float32)
                step = environment.step(environment.scripted() if number % 2 else drawn)
                collector.add(environment.frames(), step.success, step.done, seeds=[first + number])
    return folder


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of reward-train on a few episodes."""
    folder = tmp_path_factory.mktemp("trained")
    settings = RewardTrainSettings.model_validate(
        {"run": {"out": folder / "T", "num_steps": 10}, "data": {"path": [str(collect(folder / "C"))]},
         "train": {"batch_size": 16}, "threads": 1}
    )  # fmt: skip
    run_trainer(RewardTrain, "reward-train", settings, folder / "T")
    return folder / "T"


def settings(trained: Path, out: Path | None = None, **changes: Any) -> PpoSettings:
    base: dict[str, Any] = {
        "run": {"num_steps": 4, "out": out},
        "env": {"name": "reach", "max_steps": 6, "size": 16, "radius": 0.4, "min_distance": 0.41},
        "reward": {"success-classifier": {"weight": 1.0, "checkpoint": str(trained)}},
        "episodes": {"num_envs": 4, "steps": 15},
        "objective": {"batch_size": 20, "epochs": 1},
        "heldout": {"episodes": 4, "watched": 4, "every": 0},
        "mine": {"rounds": 2, "steps": 8, "batch_size": 16},
        "threads": 1,
    }
    return PpoSettings.model_validate(base | changes)


def train(trained: Path, out: Path, *, stop_after: int = 0, **changes: Any) -> Mapping[str, Any]:
    _, found = run_trainer(PpoTrainer, "ppo", settings(trained, out, **changes), out, stop_after=stop_after)
    return dict(found)


@pytest.fixture(scope="module")
def whole(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Mapping[str, Any]]:
    out = tmp_path_factory.mktemp("runs") / "whole"
    return out, train(trained, out)


def test_rounds_keep_the_policys_frames_and_a_classifier_that_learned_from_them(
    trained: Path, whole: tuple[Path, Mapping[str, Any]]
) -> None:
    out, found = whole
    rounds = found["mining"]["rounds"]
    assert [one["step"] for one in rounds] == [1, 2]  # of 4 updates: after a third, and after two
    mined = open_episodes(out / "mined")
    assert mined.verify() == []
    # 60 steps an update of 4 copies, 6 of an episode: 2 whole ones of each copy in the first, and so on.
    assert rounds[0]["frames"] == 48
    assert rounds[1]["frames"] == 120
    assert {record.frames for record in mined.records} == {6}
    assert {record.source for record in mined.records} == {f"on-policy, round {n}" for n in (1, 2, 3)}
    before, after = load_classifier(trained), load_classifier(out)
    assert before.fingerprint() != after.fingerprint()
    assert after.card.step == before.card.step + 16
    assert after.card.checks
    own = before.trained_on.items
    assert after.trained_on.complete
    # Episodes that ended after the last round were not learned from.
    assert after.trained_on.items - own == {record.content for record in mined.records[: int(rounds[1]["episodes"])]}
    logged = metric_lines(out)
    assert [("mining/precision" in line) for line in logged] == [True, True, False, False]
    assert [table["title"].split(":")[0] for table in found["table"]][-1] == "Mining"


@pytest.mark.parametrize("stop_after", [1, 2, 3])
def test_a_run_that_was_stopped_ends_in_the_same_bits(
    trained: Path, whole: tuple[Path, Mapping[str, Any]], tmp_path: Path, stop_after: int
) -> None:
    out, parts = whole[0], tmp_path / "parts"
    run_in_parts(PpoTrainer, "ppo", settings(trained, parts), parts, stop_after=stop_after)
    one, two = load_actor(out), load_actor(parts)
    assert all(torch.equal(one.tensors()[name], two.tensors()[name]) for name in one.tensors())
    first, second = load_classifier(out), load_classifier(parts)
    assert first.fingerprint() == second.fingerprint()
    assert first.card == second.card
    assert open_episodes(out / "mined").fingerprint == open_episodes(parts / "mined").fingerprint
    assert metric_lines(out) == metric_lines(parts)


@pytest.mark.parametrize(
    ("alone", "changes", "word"),
    [
        (True, {}, "trained on"),
        (False, {"reward": {"env": {"weight": 1.0}}}, "classifier"),
        (False, {"mine": {"rounds": 4}}, "4 updates"),
    ],
)
def test_what_mining_needs_is_said(
    trained: Path, tmp_path: Path, alone: bool, changes: dict[str, Any], word: str
) -> None:
    if alone:
        save_classifier(tmp_path / "alone", load_classifier(trained))
    with pytest.raises(MotionkitError, match=word) as said:
        PpoTrainer(settings(tmp_path / "alone" if alone else trained, **changes)).prepare()
    assert said.value.code == 2
    assert said.value.fix


def test_data_that_changed_are_refused(tmp_path: Path) -> None:
    data = collect(tmp_path / "C")
    made = RewardTrainSettings.model_validate(
        {"run": {"out": tmp_path / "T", "num_steps": 2}, "data": {"path": [str(data)]}, "threads": 1}
    )
    run_trainer(RewardTrain, "reward-train", made, tmp_path / "T")
    PpoTrainer(settings(tmp_path / "T")).prepare()
    collect(data, episodes=2, first=90)
    with pytest.raises(MotionkitError, match="has changed"):
        PpoTrainer(settings(tmp_path / "T")).prepare()


def test_frames_of_two_sets_by_a_slow_version(tmp_path: Path) -> None:
    one, two = (open_episodes(collect(tmp_path / name, episodes=4, first=9 * place)) for place, name in enumerate("ab"))
    joined = Joined([one, two])
    assert len(joined) == len(one) + len(two)
    index = np.random.default_rng(0).permutation(len(joined))
    slow = [
        (one if number < len(one) else two).read(np.array([number if number < len(one) else number - len(one)]))
        for number in index
    ]
    assert np.array_equal(joined.read(index)["base_camera"], np.concatenate([each["base_camera"] for each in slow]))
    assert np.array_equal(joined.labels, np.concatenate([one.labels, two.labels]))


def test_no_frame_is_for_two_things_and_test_episodes_are_left_alone(tmp_path: Path) -> None:
    collected, mined = (
        open_episodes(collect(tmp_path / name, first=20 * place, seed=place)) for place, name in enumerate("ab")
    )
    split = Split.of(collected, val=0.2, test=0.2, seed=0)
    parts = divide(collected, split, mined, known=8, val_share=0.25)
    assert not set(parts.train) & set(parts.val)
    held = set(split.frames(collected, split.test))
    assert not held & {*parts.train, *parts.val, *parts.fresh}
    assert {*parts.train, *parts.val} | held == set(range(len(collected) + len(mined)))
    # The episodes of earlier rounds keep their part, and are not measured again.
    assert parts.fresh.tolist() == [len(collected) + frame for frame in np.flatnonzero(mined.episode >= 8)]
    early = divide(collected, split, mined.chosen(range(8)), known=0, val_share=0.25)
    assert set(early.val) <= set(parts.val)
    assert set(early.train) <= set(parts.train)


def test_mined_copies_of_test_episodes_are_not_learned_from(tmp_path: Path) -> None:
    collected, mined = (open_episodes(collect(tmp_path / name)) for name in "ab")
    split = Split.of(collected, val=0.2, test=0.2, seed=0)
    parts = divide(collected, split, mined, known=0, val_share=0.25)
    joined = Joined([collected, mined])
    seen = {joined.read(np.array([frame]))["base_camera"].tobytes() for frame in (*parts.train, *parts.val)}
    held = split.frames(collected, split.test)
    assert not seen & {joined.read(np.array([frame]))["base_camera"].tobytes() for frame in held}


def test_negatives_are_drawn_by_how_wrong_the_classifier_is() -> None:
    labels = torch.tensor([1.0, 0.0, 0.0, 0.0, 1.0])
    said = torch.tensor([0.9, 0.95, 0.0, 0.2, 0.1])
    batches = HardBatches(np.arange(10, 15), labels, said, size=400, floor=0.05, name="a")
    drawn = np.concatenate([batches(step) for step in range(60)])
    share = {number: float((drawn == 10 + number).mean()) for number in range(5)}
    assert share[0] + share[4] == pytest.approx(0.25)
    assert share[0] == pytest.approx(0.125, abs=0.01)
    for number, weight in ((1, 1.0), (2, 0.05), (3, 0.25)):
        assert share[number] == pytest.approx(0.75 * weight / 1.3, abs=0.012)
    assert np.array_equal(batches(3), batches(3))
    assert not np.array_equal(batches(3), batches(4))
