"""`motionkit ppo` reports the rewards that were paid, not what stable-baselines3 makes of them while it learns."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from motionkit.errors import MotionkitError
from motionkit_success.ppo.settings import PpoSettings
from motionkit_success.ppo.train import PpoTrainer
from tests.made.training import run_trainer


def settings(out: Path | None, **changes: Any) -> PpoSettings:
    base: dict[str, Any] = {
        "run": {"num_steps": 4, "out": out},
        "env": {"name": "reach", "max_steps": 4, "radius": 1.0},  # most steps succeed, and all episodes are cut
        "reward": {"env": {"weight": 1.0}},
        "episodes": {"num_envs": 4, "steps": 16},
        "objective": {"batch_size": 16, "epochs": 8, "gamma": 0.99},
        "optim": {"learning_rate": 1e-2},
        "heldout": {"episodes": 4, "watched": 4, "every": 0},
        "threads": 1,
    }
    return PpoSettings.model_validate({**base, **changes})


def test_a_reward_of_zero_and_one_is_reported_as_that(tmp_path: Path) -> None:
    """A cut episode's last reward gets the critic's value of what would have followed, for learning alone."""
    run_trainer(PpoTrainer, "ppo", settings(tmp_path / "run"), tmp_path / "run")
    lines = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    assert len(lines) == 4
    for line in lines:
        assert line["reward/max"] == 1.0
        assert line["reward/min"] == 0.0
        assert 0.2 < line["reward/mean"] < 1.0
        assert line["reward/mean"] == pytest.approx(line["reward/env/mean"], abs=1e-6)
    summary = json.loads((tmp_path / "run/run.json").read_text())["summary"]["metrics"]
    for name, value in summary.items():
        if name.startswith("reward/"):
            assert 0.0 <= value <= 1.0, name


def test_what_was_scored_is_not_what_the_learner_writes_into() -> None:
    """Whoever gets the rewards may change them: the scorer's figures stay."""
    trainer = PpoTrainer(settings(None))
    trainer.prepare()
    env = trainer.env
    env.reset()
    _, rewards, _, _ = env.step(np.zeros((4, *env.action_space.shape), np.float32))
    paid = float(rewards.mean())
    rewards += 1000
    assert trainer.scorer.take_means()["reward/mean"] == pytest.approx(paid)


@pytest.mark.parametrize("kind", ["mlp", "pixels"])
def test_a_learning_rate_out_of_range_is_a_sentence(tmp_path: Path, kind: str) -> None:
    wild = settings(tmp_path / "run", optim={"learning_rate": 1e6}, policy={"kind": kind})
    with pytest.raises(MotionkitError) as said:
        run_trainer(PpoTrainer, "ppo", wild, tmp_path / "run")
    assert said.value.fix == "start again with a --learning-rate below 1e+06."
    assert said.value.code == 1


def test_errors_of_an_environment_are_not_taken_for_the_learning_rate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = PpoTrainer(settings(tmp_path / "run"))
    trainer.prepare()

    def broken(actions: object) -> None:
        raise ValueError("the door is jammed")

    monkeypatch.setattr(trainer.environment, "step", broken)
    with pytest.raises(ValueError, match="jammed"):
        trainer.learner.update()
