"""`motionkit ppo`: it learns from frames, its control does not, it resumes to the bit."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import Result

from motionkit.contracts.reward import FrameBatch, RewardScores
from motionkit.errors import MotionkitError
from motionkit_success.actor import Actor, load_actor
from motionkit_success.classifier import Card, SuccessClassifier, save_classifier
from motionkit_success.ppo import train as trainer_module
from motionkit_success.ppo.settings import PpoSettings
from motionkit_success.ppo.train import PpoTrainer
from motionkit_success.true_success import Episodes
from tests.made.commands import assert_refused
from tests.made.training import metric_lines, run_in_parts, run_trainer


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
    from motionkit_success import reward_frames as _reward

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
        run_in_parts(PpoTrainer, "ppo", settings(out, **changes), out, stop_after=stop_after)
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


@pytest.mark.parametrize(
    ("checkpoint", "env", "word"),
    [({}, {}, "motionkit reward-train"), ({"checkpoint": "gone"}, {}, "gone"),
     ({"checkpoint": "classifier"}, {"size": 32}, "32")],
)  # fmt: skip
def test_there_must_be_a_classifier_of_the_same_cameras(
    classifier: Path, monkeypatch: pytest.MonkeyPatch, checkpoint: dict[str, str], env: dict[str, int], word: str
) -> None:
    """The code of the guide's authors printed a warning, and rewarded with random weights."""
    monkeypatch.chdir(classifier.parent)
    with pytest.raises(MotionkitError) as said:
        PpoTrainer(settings(reward={"success-classifier": {"weight": 1.0, **checkpoint}}, env=env)).prepare()
    assert word in said.value.sentence()


def test_an_actor_must_fit_the_environment(tmp_path: Path) -> None:
    train(tmp_path / "pixels", policy={"kind": "pixels"})
    with pytest.raises(MotionkitError) as said:
        PpoTrainer(settings(init=tmp_path / "pixels", env={"name": "reach", "size": 32})).prepare()
    assert "64" in said.value.why
    assert "32" in said.value.why


class Scripted:
    """Episodes whose true and predicted success are made up: each measurement on watched starts has its own rates."""

    def __init__(self, true: Sequence[int], predicted: Sequence[int] | None) -> None:
        self.true, self.predicted, self.watched = true, predicted, 0

    def __call__(self, trainer: PpoTrainer, purpose: str, episodes: int, **options: Any) -> Episodes:
        if purpose != "watch":
            return Episodes(np.zeros(episodes, np.bool_), None, ())
        number, self.watched = self.watched, self.watched + 1
        flags = [np.arange(episodes) < hits[number] for hits in (self.true, self.predicted or self.true)]
        return Episodes(flags[0], flags[1] if self.predicted is not None else None, ())


@pytest.mark.parametrize(
    ("reward", "keep", "step", "by"),
    [
        ("classifier", "auto", 6, "predicted success"),  # steps 4 and 6 are predicted alike: the last of them
        ("env", "auto", 8, "last"),
        ("classifier", "oracle", 2, "true success"),
        ("env", "oracle", 2, "true success"),
    ],
)
def test_the_policy_is_chosen_by_what_the_method_may_see(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, classifier: Path, reward: str, keep: str, step: int, by: str
) -> None:
    learned = {"success-classifier": {"weight": 1.0, "checkpoint": str(classifier)}}
    scripted = Scripted(true=(4, 2, 1, 3), predicted=(1, 3, 3, 2) if reward == "classifier" else None)
    monkeypatch.setattr(PpoTrainer, "_held_out", lambda *given, **options: scripted(*given, **options))
    run = tmp_path / "run"
    _, found = train(
        run, run={"num_steps": 8}, heldout={"keep": keep}, reward=learned if reward == "classifier" else {"env": {}}
    )
    assert (found["best_step"], found["chosen_by"]) == (step, by)
    lines = metric_lines(run)
    assert [line["success/watched"] for line in lines if "success/watched" in line] == [1.0, 0.5, 0.25, 0.75]
    seen = [line["success/watched_predicted"] for line in lines if "success/watched_predicted" in line]
    assert seen == ([0.25, 0.75, 0.75, 0.5] if reward == "classifier" else [])
    said = found["measured_on"] + found["table"][0]["title"]
    assert said.count("oracle") == (2 if keep == "oracle" else 0)
    assert f"update {step}" in said or f"update, {step}" in said
    last, kept = load_actor(run / "actor-last"), load_actor(run)
    same = all(torch.equal(kept.tensors()[name], value) for name, value in last.tensors().items())
    assert same == (step == 8)
    assert json.loads((run / "actor" / "actor.json").read_text())["chosen_by"] == by


SHORT = (
    "--env", "reach", "--reward", "env", "--num-envs", "2", "--threads", "1", "--set", "heldout.episodes=2", "--set",
    "heldout.watched=2", "--set", "episodes.steps=8", "--set", "heldout.every=1", "--env.max-steps", "4",
)  # fmt: skip


def test_an_older_run_goes_on_with_the_policy_of_true_success_and_says_so(cli: Callable[..., Result]) -> None:
    assert cli("ppo", *SHORT, "--num-steps", "1", "--out", "run").exit_code == 0
    config = Path("run/config.json")
    table = json.loads(config.read_text())
    assert table["heldout"].pop("keep") == "auto"
    config.write_text(json.dumps(table))
    document = Path("run/actor/actor.json")
    card = json.loads(document.read_text())
    assert card.pop("chosen_by") == "last"
    document.write_text(json.dumps(card))
    plan = json.loads(cli("ppo", "--init", "run", "--reward", "env", "--dry-run", "--json").stdout)
    assert any(
        "run is of an older version: its policy was chosen by true success" in it for it in plan["plan"]["notes"]
    )
    found = cli("ppo", "--resume", "run", "--num-steps", "2")
    assert found.exit_code == 0, found.stderr
    assert "the policy that is kept is the one of highest true success (--keep oracle)" in found.stderr
    assert "chosen by true success on other starts, an oracle" in " ".join(found.stdout.split())
    assert json.loads(config.read_text())["heldout"]["keep"] == "oracle"
    assert json.loads(document.read_text())["chosen_by"] == "true success"
    # With another choice it is another run.
    assert_refused(
        cli("ppo", "--resume", "run", "--num-steps", "3", "--keep", "auto"), "heldout.keep was 'oracle', is 'auto'"
    )


def test_both_ways_to_act_are_in_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The most probable action never succeeds here, and a drawn one always does."""
    drawn: list[bool] = []

    def act(self: Actor, observed: np.ndarray[Any, Any], *, deterministic: bool = False) -> np.ndarray[Any, Any]:
        drawn.append(not deterministic)
        return np.zeros((len(observed), 2), np.float32)

    run = trainer_module.run_episodes

    def episodes(environment: Any, choose: Any, seeds: Any, **options: Any) -> Episodes:
        drawn.clear()
        found = run(environment, choose, seeds, **options)
        return Episodes(np.full(len(found.success), drawn[0] and state["after"]), found.predicted, ())

    state = {"after": False}
    monkeypatch.setattr(Actor, "act", act)
    monkeypatch.setattr(trainer_module, "run_episodes", episodes)
    monkeypatch.setattr(trainer_module, "write_films", lambda *_: state.update(after=True))
    before = torch.random.get_rng_state()
    _, found = train(tmp_path / "run", run={"num_steps": 1}, heldout={"episodes": 40, "every": 0})
    assert not torch.equal(before, torch.random.get_rng_state())  # training draws
    assert (found["success"]["after"], found["sampled_success"]["after"]) == (0.0, 1.0)
    assert [row[0] for row in found["table"][0]["rows"]] == ["true success", "true success, actions drawn"]
    assert "With actions drawn, as in training, it succeeds more often: in 100%, not 0%." in found["verdict"]


def test_runs_that_chose_otherwise_are_not_compared_without_a_word(cli: Callable[..., Result]) -> None:
    for name in ("old", "new"):
        assert cli("ppo", *SHORT, "--num-steps", "1", "--out", name).exit_code == 0
    record = Path("old/run.json")
    table = json.loads(record.read_text())
    assert table["summary"].pop("chosen_by") == "last"
    record.write_text(json.dumps(table))
    found = cli("runs", "compare", "old", "new")
    assert found.exit_code == 0, found.stderr
    assert re.search(r"policy chosen by +true success \(older version\) +last", found.stdout)
    assert cli("report", "old", "new", "--out", "both.html").exit_code == 0
    assert "true success (older version)" in Path("both.html").read_text()
    assert cli("report", "old").exit_code == 0
    assert "The policy was chosen by true success on other starts." in Path("old/report.html").read_text()
    assert "chosen by true success" not in Path("new/report.html").read_text()
