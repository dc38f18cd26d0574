"""Traps in the code behind the reward-model guide that no other file of tests guards against."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from motionkit_success.classifier import Card, SuccessClassifier, load_classifier, save_classifier
from motionkit_success.environments.arm import Reach
from motionkit_success.environments.tasks import ReachSettings
from motionkit_success.episodes import Collector
from motionkit_success.ppo.settings import PpoSettings
from motionkit_success.ppo.train import PpoTrainer
from motionkit_success.train import RewardTrain
from motionkit_success.train_settings import RewardTrainSettings
from tests.made.training import run_trainer


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve episodes of `reach`, every second with successes."""
    folder = tmp_path_factory.mktemp("data")
    environment = Reach(ReachSettings(max_steps=6, size=16, radius=0.4, min_distance=0.41), num_envs=1)
    with Collector(folder, cameras=environment.cameras) as collector:
        for number in range(12):
            environment.reset(np.array([0]), np.array([number]))
            for _ in range(6):
                away = -environment.scripted()
                step = environment.step(environment.scripted() if number % 2 else away)
                collector.add(environment.frames(), step.success, step.done, seeds=[number])
    return folder


def trained(data: Path, out: Path, **changes: Any) -> list[float]:
    """Train a classifier; return the learning rates of the steps."""
    base: dict[str, Any] = {
        "run": {"out": out, "num_steps": 4}, "data": {"path": [str(data)]}, "train": {"batch_size": 16}, "threads": 1,
    }  # fmt: skip
    made = RewardTrainSettings.model_validate(base | changes)
    run_trainer(RewardTrain, "reward-train", made, out)
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return [line["optim/learning_rate"] for line in lines]


def test_a_run_shorter_than_its_interval_is_saved(data: Path, tmp_path: Path) -> None:
    """The guide's code saves every 1000 steps and never at the end."""
    trained(data, tmp_path / "run", checkpoint={"every": 1000})
    assert load_classifier(tmp_path / "run").card.step > 0
    assert (tmp_path / "run/classifier/model.safetensors").is_file()


def test_the_rate_falls_slowly_and_to_nothing_at_the_end_alone(data: Path, tmp_path: Path) -> None:
    """With a least rate of 0, that of the guide's code is 0 right after the warm-up."""
    rates = trained(
        data, tmp_path / "run", run={"out": tmp_path / "run", "num_steps": 12},
        optim={"warmup_steps": 3, "learning_rate": 2e-3}, train={"batch_size": 16, "final_rate": 0.0},
    )  # fmt: skip
    peak = 2e-3
    assert rates[2] == pytest.approx(peak)
    assert all(rate > 0 for rate in rates[:-1])
    assert rates[7] == pytest.approx(peak * 0.5 * (1 + np.cos(np.pi * 5 / 9)))
    assert rates[-1] == pytest.approx(0, abs=1e-12)


def test_the_seed_counts(data: Path, tmp_path: Path) -> None:
    for name, seed in (("one", 1), ("again", 1), ("two", 2)):
        trained(data, tmp_path / name, seed=seed)
    one, again, two = (load_classifier(tmp_path / name).fingerprint() for name in ("one", "again", "two"))
    assert one == again != two


def test_a_dark_batch_is_not_brightened() -> None:
    """The guide's model divides by 255 only where a batch has a value above 1, so that a black picture is another one
    alone than beside others."""
    torch.manual_seed(0)
    made = SuccessClassifier.make(Card(architecture="small", cameras={"camera": (16, 16)}))
    dark = torch.randint(0, 2, (1, 16, 16, 3), dtype=torch.uint8)
    bright = torch.full((1, 16, 16, 3), 255, dtype=torch.uint8)
    alone = made.probabilities({"camera": dark})
    beside = made.probabilities({"camera": torch.cat([dark, bright])})
    assert torch.allclose(alone[0], beside[0], atol=1e-6)
    assert not torch.allclose(beside[0], beside[1], atol=1e-6)


def test_the_policy_is_paid_by_the_classifier(tmp_path: Path) -> None:
    """The guide's stage 3 loads the reward model, and pays what the environment says."""
    torch.manual_seed(0)
    made = SuccessClassifier.make(Card(architecture="small", cameras={"base_camera": (16, 16)}))
    save_classifier(tmp_path / "model", made)
    options = {"checkpoint": str(tmp_path / "model"), "output": "continuous"}
    settings: dict[str, Any] = {
        "env": {"name": "reach", "size": 16, "radius": 0.01}, "episodes": {"num_envs": 3, "steps": 4}, "threads": 1,
        "reward": {"success-classifier": options},
    }  # fmt: skip
    trainer = PpoTrainer(PpoSettings.model_validate(settings))
    trainer.prepare()
    trainer.env.reset()
    for _ in range(4):
        _, rewards, _, _ = trainer.env.step(np.ones((3, 2), np.float32))
        shown = {name: torch.from_numpy(value) for name, value in trainer.environment.frames().items()}
        assert np.allclose(rewards, made.probabilities(shown).numpy(), atol=1e-6)
        assert (rewards > 0).all()  # the environment pays nothing: no state is a success
    assert set(trainer.scorer.take_means()) >= {"reward/success-classifier/mean", "reward/mean"}
