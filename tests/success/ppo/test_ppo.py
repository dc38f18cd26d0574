"""`motionkit ppo`: it learns from frames, its control does not, it resumes to the bit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from motionkit.contracts.reward import FrameBatch, RewardScores
from motionkit.errors import MotionkitError
from motionkit.success.actor import load_actor
from motionkit.success.classifier import Card, SuccessClassifier, save_classifier
from motionkit.success.ppo import train as trainer_module
from motionkit.success.ppo.settings import PpoSettings
from motionkit.success.ppo.train import PpoTrainer

from ...made.training import metric_lines, run_trainer


def settings(out: Path | None = None, **changes: Any) -> PpoSettings:
    base: dict[str, Any] = {
        "run": {"num_steps": 3, "out": out},
        "env": {"name": "reach", "max_steps": 8},
        "reward": {"env": {"weight": 1.0}},
        "episodes": {"num_envs": 4, "steps": 12},
        "objective": {"batch_size": 16, "epochs": 2},
        "heldout": {"episodes": 6, "watched": 4, "every": 2},
        "threads": 1,
    }
    for name, value in changes.items():
        base[name] = {**base[name], **value} if isinstance(value, dict) and name in base and name != "reward" else value
    return PpoSettings.model_validate(base)


def train(out: Path, *, stop_after: int = 0, **changes: Any) -> tuple[PpoTrainer, Mapping[str, Any]]:
    made: tuple[PpoTrainer, Mapping[str, Any]] = run_trainer(
        PpoTrainer, "ppo", settings(out, **changes), out, stop_after=stop_after
    )
    return made


@pytest.fixture
def classifier(tmp_path: Path) -> Path:
    torch.manual_seed(0)
    made = SuccessClassifier.make(Card(architecture="small", cameras={"base_camera": (64, 64)}))
    save_classifier(tmp_path / "classifier", made)
    return tmp_path / "classifier"


def test_it_learns_to_reach(tmp_path: Path) -> None:
    changes = {
        "run": {"num_steps": 16}, "env": {"name": "reach", "kind": "point", "max_steps": 30},
        "episodes": {"num_envs": 16, "steps": 128},
        "objective": {"batch_size": 256, "epochs": 8}, "heldout": {"episodes": 50, "watched": 4, "every": 0},
    }  # fmt: skip
    _, found = train(tmp_path / "run", **changes)
    assert found["success"]["before"] <= 0.1
    assert found["success"]["after"] >= 0.9
    assert found["success"]["n"] == 50
    assert "learned the task" in found["verdict"]


class Noise:
    """A reward that has nothing to do with what is seen; every second frame looks like success to it."""

    name = "noise"

    def score(self, samples: FrameBatch, prompts: Sequence[Any]) -> RewardScores:
        total = torch.rand(len(samples))
        return RewardScores(total=total, parts={"success": (total > 0.5).float()})


def test_a_reward_of_noise_teaches_nothing_and_the_alarm_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, classifier: Path
) -> None:
    from motionkit.success import reward_frames as _reward

    monkeypatch.setattr(_reward.SuccessReward, "score_cameras", lambda self, frames: Noise().score(
        FrameBatch(frames["base_camera"][:, None], torch.ones(len(frames["base_camera"]), dtype=torch.int64)), []
    ))  # fmt: skip
    changes = {
        "run": {"num_steps": 6}, "env": {"name": "reach", "max_steps": 30}, "episodes": {"num_envs": 16, "steps": 64},
        "heldout": {"episodes": 50, "watched": 4, "every": 0},
        "reward": {"success-classifier": {"weight": 1.0, "checkpoint": str(classifier)}},
    }  # fmt: skip
    _, found = train(tmp_path / "run", **changes)
    assert found["success"]["after"] <= 0.25
    assert found["alarm"]["fired"]
    assert "The alarm fired" in found["verdict"]


@pytest.mark.parametrize(("kind", "stops"), [("mlp", (1, 2)), ("pixels", (2,))])
def test_a_run_that_was_stopped_ends_in_the_same_bits(
    tmp_path: Path, classifier: Path, kind: str, stops: tuple[int, ...]
) -> None:
    changes: dict[str, Any] = {
        "policy": {"kind": kind}, "scoring": {"mode": "k-of-n"},
        "reward": {"success-classifier": {"weight": 1.0, "checkpoint": str(classifier), "threshold": 0.5}},
    }  # fmt: skip
    train(tmp_path / "whole", **changes)
    for stop_after in stops:
        out = tmp_path / f"parts{stop_after}"
        train(out, stop_after=stop_after, **changes)
        resumed = settings(None, **changes)
        again = resumed.model_copy(update={"run": resumed.run.model_copy(update={"resume": out, "out": None})})
        run_trainer(PpoTrainer, "ppo", again, out)
        one, two = load_actor(tmp_path / "whole"), load_actor(out)
        assert all(torch.equal(one.tensors()[name], two.tensors()[name]) for name in one.tensors())
        assert metric_lines(tmp_path / "whole") == metric_lines(out)


def test_its_actor_acts_elsewhere(tmp_path: Path) -> None:
    train(tmp_path / "first")
    trainer = PpoTrainer(settings(None, init=tmp_path / "first"))
    trainer.prepare()
    kept = load_actor(tmp_path / "first")
    assert all(torch.equal(trainer.actor.tensors()[name], value) for name, value in kept.tensors().items())
    observed = np.zeros((3, kept.spec.state_size), np.float32)
    assert np.array_equal(kept.act(observed, deterministic=True), trainer.actor.act(observed, deterministic=True))


@pytest.mark.parametrize(
    ("after", "ci95", "said"),
    [
        (0.9, (0.5, 0.7), "the policy learned the task: true success rose from 30% to 90%."),
        (0.4, (0.05, 0.15), "true success rose from 30% to 40%."),
        (0.1, (-0.3, -0.1), "the policy got worse: true success fell from 30% to 10%."),
        (0.2, (-0.25, 0.0), "true success went from 30% to 20%, which is no more than chance."),
    ],
)
def test_a_verdict_says_worse_or_better_where_the_interval_does(
    after: float, ci95: tuple[float, float], said: str
) -> None:
    alarm = trainer_module.SuccessAlarm(0.2, 200)
    block = {"before": 0.3, "after": after, "delta": after - 0.3, "ci95": ci95, "n": 200}
    assert trainer_module.verdict(block, alarm) == said
    few = trainer_module.verdict({**block, "n": 19}, alarm)
    assert few == f"true success went from 30% to {after:.0%} in 19 episodes: too few to say more."


def test_there_must_be_a_classifier(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The code of the guide's authors printed a warning, and rewarded with random weights."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(MotionkitError, match="no classifier") as said:
        PpoTrainer(settings(reward={"success-classifier": {"weight": 1.0}})).prepare()
    assert "motionkit reward-train" in said.value.fix
    gone = {"success-classifier": {"weight": 1.0, "checkpoint": str(tmp_path / "gone")}}
    with pytest.raises(MotionkitError, match="gone"):
        PpoTrainer(settings(reward=gone)).prepare()


def test_cameras_must_be_those_of_the_classifier(classifier: Path) -> None:
    chosen = {"success-classifier": {"weight": 1.0, "checkpoint": str(classifier)}}
    with pytest.raises(MotionkitError, match="64") as said:
        PpoTrainer(settings(reward=chosen, env={"name": "reach", "size": 32})).prepare()
    assert "32" in str(said.value)


def test_an_actor_must_fit_the_environment(tmp_path: Path) -> None:
    train(tmp_path / "pixels", policy={"kind": "pixels"})
    with pytest.raises(MotionkitError, match="does not fit the environment") as said:
        PpoTrainer(settings(init=tmp_path / "pixels", env={"name": "reach", "size": 32})).prepare()
    assert "64" in said.value.why
    assert "32" in said.value.why
