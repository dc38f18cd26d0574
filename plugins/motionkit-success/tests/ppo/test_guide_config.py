"""The settings of stages 1 and 3 of the reward-model guide."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from motionkit.config import resolve
from motionkit.errors import MotionkitError
from motionkit_success.collect_settings import RewardCollectSettings
from motionkit_success.environments.arm import open_reach
from motionkit_success.environments.tasks import ReachSettings, as_recorded
from motionkit_success.ppo.settings import PpoSettings
from motionkit_success.ppo.train import compare_environments

FILE = """
defaults:
  - env/train: PickCube
hydra: {searchpath: ["file://${oc.env:EMBODIED_PATH}/config/"]}
algorithm: {gamma: 0.8, clip_ratio_low: 0.1, clip_ratio_high: 0.1, num_group_envs: 8, huber_delta: 10.0}
env: {group_name: EnvGroup, channel: {name: buffer}}
rollout: {channel: {name: "${env.channel.name}"}}
actor: {seed: 1234, model: {model_name: cnn}, optim: {lr: 3.0e-4}}
reward:
  use_reward_model: %s
  collect_data: %s
  reward_model: {checkpoint_path: ./a/checkpoint.pt, hidden_dim: 256, reward_type: continuous}
  data_collection: {positive_dir: ./p, max_positive_trajectories: 7, max_negative_trajectories: null}
"""


def write(tmp_path: Path, use: str, collect: str, text: str = FILE) -> Path:
    path = tmp_path / "maniskill_ppo_cnn.yaml"
    path.write_text(text % (use, collect))
    return path


def test_stage_3_is_ppo_on_the_classifier(tmp_path):
    path = write(tmp_path, "True", "False")
    found = resolve(PpoSettings, files=(path,))
    s = found.settings
    assert [(one.name, one.options.checkpoint, one.options.output) for one in s.reward] == [
        ("success-classifier", "./a/checkpoint.pt", "continuous")
    ]
    assert s.reward[0].options.hidden == 256  # held against the checkpoint, see ../test_reward.py
    assert (s.policy.kind, s.seed, s.optim.learning_rate) == ("pixels", 1234, 3e-4)
    assert (s.objective.gamma, s.objective.clip_range, s.episodes.num_envs) == (0.8, 0.1, 8)
    assert found.origins["objective.gamma"] == f"{path}: algorithm.gamma"
    notes = " ".join(found.notes)
    for words in ("algorithm.gamma → objective.gamma", "the rest of algorithm", "Hydra's own", "--env"):
        assert words in notes


def test_without_the_model_ppo_has_the_environments_reward(tmp_path):
    found = resolve(PpoSettings, files=(write(tmp_path, "False", "False"),))
    assert [one.name for one in found.settings.reward] == ["env"]
    assert "use_reward_model is not true" in " ".join(found.notes)
    found = resolve(PpoSettings, {("reward",): ["success-classifier"]}, files=(tmp_path / "maniskill_ppo_cnn.yaml",))
    assert [one.name for one in found.settings.reward] == ["success-classifier"]


def test_stage_1_is_reward_collect(tmp_path):
    s = resolve(RewardCollectSettings, files=(write(tmp_path, "False", "True"),)).settings
    assert (s.quota.positive, s.quota.negative, s.actor.kind, s.policy) == (7, 0, "pixels", "ppo")


@pytest.mark.parametrize(
    ("model", "use", "collect", "word"),
    [
        (PpoSettings, "True", "True", "both"),
        (PpoSettings, "False", "True", "motionkit reward-collect --config"),
        (RewardCollectSettings, "True", "False", "motionkit ppo"),
    ],
)
def test_the_switches_are_obeyed(tmp_path, model, use, collect, word):
    with pytest.raises(MotionkitError) as wrong:
        resolve(model, files=(write(tmp_path, use, collect),))
    assert word in wrong.value.sentence()


def test_words_that_were_typed_replace_those_of_the_file(tmp_path):
    path = write(tmp_path, "False", "True")
    sets = ("reward.collect_data=False", "reward.use_reward_model=True", "reward.reward_model.checkpoint_path=b.pt")
    found = resolve(PpoSettings, files=(path,), sets=sets)
    assert found.settings.reward[0].options.checkpoint == "b.pt"
    assert found.origins["reward.success-classifier.checkpoint"] == (
        "command line: reward.reward_model.checkpoint_path"
    )  # fmt: skip
    alone = resolve(PpoSettings, sets=("reward.use_reward_model=False", "algorithm.gamma=0.7"))
    assert alone.settings.reward[0].name == "env"
    assert alone.settings.objective.gamma == 0.7


def write_beside_a_switch(tmp_path: Path, line: str) -> Path:
    path = tmp_path / "c.yaml"
    head = "reward:\n  use_reward_model: true\n" if line.startswith(" ") else "reward: {use_reward_model: true}\n"
    path.write_text(head + line + "\n")
    return path


def test_more_keys_of_the_reward_model_are_noted(tmp_path):
    """The guide's file has more keys there than the guide lists."""
    path = write_beside_a_switch(tmp_path, "  reward_model: {chekpoint_path: a.pt}")
    assert "rest of reward.reward_model" in " ".join(resolve(PpoSettings, files=(path,)).notes)


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("  collect_dta: true", "collect_dta"),
        ("actor: {model: {_target_: os.system}}", "_target_"),
        ("algorithm: {gamma: '${oc.env:HOME}'}", "oc.env"),
    ],
)
def test_what_cannot_be_kept_is_named(tmp_path, line, word):
    with pytest.raises(MotionkitError, match=word):
        resolve(PpoSettings, files=(write_beside_a_switch(tmp_path, line),))


def test_the_actor_of_reward_collect_is_no_word_of_the_guide(tmp_path):
    s = resolve(RewardCollectSettings, sets=("actor.width=32", "actor.seed=5")).settings
    assert (s.actor.width, s.seed) == (32, 5)
    again = tmp_path / "config.json"
    again.write_text(s.model_dump_json())
    found = resolve(RewardCollectSettings, files=(again,))
    assert found.settings.actor.width == 32
    assert not found.notes


def settled(model: Any, *sets: str) -> Any:
    return resolve(model, sets=sets).settings


def test_an_environment_replaces_defaults_and_what_is_given_wins() -> None:
    push = settled(PpoSettings, "env=push")
    assert (push.run.num_steps, push.episodes.num_envs, push.objective.entropy) == (240, 128, 0.005)
    assert settled(PpoSettings, "policy.kind=pixels").run.num_steps == 120
    own = settled(PpoSettings, "env=push", "run.num_steps=7", "episodes.num_envs=4")
    assert (own.run.num_steps, own.episodes.num_envs, own.episodes.steps) == (7, 4, 32)
    collect = settled(RewardCollectSettings, "env=push")
    assert (collect.run.num_steps, collect.episodes.num_envs, collect.objective.entropy) == (64, 128, 0.0)
    arm = settled(PpoSettings)
    assert (arm.run.num_steps, arm.episodes.num_envs, arm.episodes.steps) == (80, 64, 32)
    assert settled(PpoSettings, "env.kind=point").run.num_steps == 0  # 16 or 40, by the policy
    assert settled(RewardCollectSettings).run.num_steps == 12
    assert settled(RewardCollectSettings, "env.kind=point").episodes.num_envs == 16


def test_a_recorded_environment_without_a_kind_is_a_point() -> None:
    old = {"name": "reach", "max_steps": 30}
    assert as_recorded(old)["kind"] == "point"
    assert as_recorded({**old, "kind": "arm"})["kind"] == "arm"
    assert as_recorded({"name": "push"}) == {"name": "push"}


def test_a_classifier_of_the_other_kind_is_said() -> None:
    arm, point = (open_reach(ReachSettings.model_validate({"kind": kind})).spec for kind in ("arm", "point"))
    assert not compare_environments(point, point, "x")
    assert "kind point, not arm" in compare_environments(point, arm, "x")
    assert "kind arm, not point" in compare_environments(arm, point, "x")


@pytest.mark.parametrize("command", ["ppo", "reward-collect"])
def test_a_run_of_before_the_kinds_resumes_as_a_point(cli: Callable[..., Any], command: str) -> None:
    small = ["--num-envs", "2", "--set", "episodes.steps=4", "--env.max-steps", "5", "--env.size", "16", "--seed", "3"]
    small += ["--reward", "env", "--set", "heldout.episodes=2"] if command == "ppo" else []

    def ran(out: str, *words: str) -> Any:
        return cli(command, *words, *(["--out", out] if out else []))

    assert ran("whole", *small, "--env.kind", "point", "--num-steps", "3").exit_code == 0
    assert ran("old", *small, "--env.kind", "point", "--num-steps", "2").exit_code == 0
    config = json.loads(Path("old/config.json").read_text())
    assert config["env"].pop("kind") == "point"
    for later in ("augment", "clone"):
        config.pop(later, None)
    Path("old/config.json").write_text(json.dumps(config))
    found = ran("", "--resume", "old", "--num-steps", "3")
    assert found.exit_code == 0, found.output
    assert json.loads(Path("old/config.json").read_text())["env"]["kind"] == "point"
    actors = [(Path(run) / "actor" / "model.safetensors").read_bytes() for run in ("whole", "old")]
    assert actors[0] == actors[1]
    again = ran("copy", "--config", "old", "--num-steps", "1")
    assert again.exit_code == 0, again.output
    assert json.loads(Path("copy/config.json").read_text())["env"]["kind"] == "point"
