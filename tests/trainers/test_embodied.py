"""The guide's settings file of stages 1 and 3, read by `motionkit ppo` and `motionkit reward-collect`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from typer.testing import Result

from motionkit.config import Given, Resolved, SettingsError, resolve
from motionkit.encoders.success import Card, SuccessClassifier, save_classifier
from motionkit.errors import MotionkitError
from motionkit.rewards.success import SuccessOptions
from motionkit.rewards.success._reward import SuccessReward
from motionkit.trainers.ppo import PpoSettings
from motionkit.trainers.reward_collect import RewardCollectSettings

MODELS = {"ppo": PpoSettings, "reward-collect": RewardCollectSettings}
# The file as the guide's authors have it, cut to one key of each kind.
FILE = """
defaults: [{env/train: PickCube}, override hydra/job_logging: stdout]
hydra: {searchpath: ["file://${oc.env:EMBODIED_PATH}/config/"]}
cluster: {num_nodes: 1}
runner: {task_type: embodied, logger: {log_path: ../results}, max_epochs: 1000, val_check_interval: -1,
         save_interval: -1}
algorithm: {update_epoch: 6, auto_reset: true, n_chunk_steps: 50, num_group_envs: 8, gamma: 0.8, gae_lambda: 0.9,
            entropy_bonus: 0.01, clip_ratio_high: 0.3, clip_ratio_low: 0.3}
env: {group_name: EnvGroup, channel: {name: buffer}, train: {init_params: {obs_mode: rgb}}}
rollout: {channel: {name: "${env.channel.name}"}}
actor: {micro_batch_size: 128, global_batch_size: 64, seed: 1234, model: {model_name: cnn, hidden_dim: 32},
        optim: {lr: 3.0e-4, value_lr: 3.0e-4, clip_grad: 0.25}}
reward:
  group_name: RewardGroup
  use_reward_model: USE
  collect_data: COLLECT
  reward_model: {checkpoint_path: PATH, image_keys: [base_camera], image_size: [3, 64, 64], hidden_dim: 256,
                 num_spatial_blocks: 8, pretrained_encoder_path: "", use_pretrain: true, freeze_encoder: true,
                 reward_type: continuous}
  data_collection: {positive_dir: ./p, negative_dir: ./n, image_keys: [base_camera], max_positive_trajectories: 7,
                    max_negative_trajectories: null}
critic: {use_critic_model: false}
"""


def write(folder: Path, *, use: bool = False, collect: bool = False, path: str = '""') -> Path:
    file = folder / "maniskill_ppo_cnn.yaml"
    text = FILE.replace("USE", str(use)).replace("COLLECT", str(collect))
    file.write_text(text.replace("checkpoint_path: PATH", f"checkpoint_path: {path}"))
    return file


def read(command: str, file: Path, *sets: str) -> Resolved[Any]:
    return resolve(MODELS[command], Given(files=(file,), sets=sets))


def test_stage_1_is_reward_collect(tmp_path: Path) -> None:
    file = write(tmp_path, collect=True)
    found = read("reward-collect", file)
    s = found.settings
    assert (s.quota.positive, s.quota.negative) == (7, 0)
    assert (s.run.num_steps, s.checkpoint.every, s.seed) == (1000, 0, 1234)
    assert (s.episodes.num_envs, s.episodes.steps, s.objective.epochs, s.objective.batch_size) == (8, 50, 6, 64)
    assert (s.objective.gamma, s.objective.gae_lambda, s.objective.clip_range) == (0.8, 0.9, 0.3)
    assert (s.objective.entropy, s.optim.learning_rate, s.optim.grad_clip) == (0.01, 3e-4, 0.25)
    assert (s.actor.kind, s.actor.width) == ("pixels", 32)
    assert found.origins["quota.positive"] == f"{file}: reward.data_collection.max_positive_trajectories"
    with pytest.raises(SettingsError, match=re.escape(f"motionkit reward-collect --config {file}")):
        read("ppo", file)


def test_stage_3_is_ppo_on_the_classifier(tmp_path: Path) -> None:
    file = write(tmp_path, use=True, path="./checkpoints/reward_model.pt")
    found = read("ppo", file)
    (reward,) = found.settings.reward
    assert reward.name == "success-classifier"
    assert (reward.options.checkpoint, reward.options.output) == ("./checkpoints/reward_model.pt", "continuous")
    assert (reward.options.cameras, reward.options.image_size) == (("base_camera",), (3, 64, 64))
    assert (reward.options.hidden, reward.options.blocks) == (256, 8)
    assert (found.settings.policy.kind, found.settings.policy.width) == ("pixels", 32)
    assert (found.settings.heldout.every, found.settings.run.num_steps) == (0, 1000)
    with pytest.raises(SettingsError, match=re.escape(f"motionkit ppo --config {file}")):
        read("reward-collect", file)


@pytest.mark.parametrize("command", ["ppo", "reward-collect"])
def test_both_at_once_are_refused_with_the_reason(tmp_path: Path, command: str) -> None:
    with pytest.raises(SettingsError, match="both true: one run either collects frames"):
        read(command, write(tmp_path, use=True, collect=True))
    with pytest.raises(SettingsError, match="both true"):
        read(command, write(tmp_path, collect=True), "reward.use_reward_model=True")


def test_neither_is_ppo_on_the_environments_own_reward(tmp_path: Path) -> None:
    assert [one.name for one in read("ppo", write(tmp_path)).settings.reward] == ["env"]
    assert read("reward-collect", write(tmp_path)).settings.quota.positive == 7


def test_words_win_over_the_file(tmp_path: Path) -> None:
    file = write(tmp_path, collect=True)
    model = "reward.reward_model.checkpoint_path=a.pt"
    found = read("ppo", file, "reward.use_reward_model=True", "reward.collect_data=False", model, "algorithm.gamma=0.5")
    (reward,) = found.settings.reward
    assert (reward.name, reward.options.checkpoint, reward.options.output) == (
        "success-classifier",
        "a.pt",
        "continuous",
    )
    assert found.settings.objective.gamma == 0.5
    assert found.origins["objective.gamma"] == "command line: algorithm.gamma"
    flags = {("reward",): ["success-classifier"], ("reward", "checkpoint"): "b.pt"}
    given = Given(files=(file,), sets=("stage.collect_data=false",), flags=flags)
    (reward,) = resolve(PpoSettings, given).settings.reward
    assert (reward.name, reward.options.checkpoint) == ("success-classifier", "b.pt")


@pytest.mark.parametrize("command", ["ppo", "reward-collect"])
def test_every_key_of_the_file_is_named(tmp_path: Path, command: str) -> None:
    file = write(tmp_path)
    notes = " ".join(read(command, file).notes)

    def leaves(table: dict[str, Any], prefix: str = "") -> Any:
        for key, value in table.items():
            yield from leaves(value, f"{prefix}{key}.") if isinstance(value, dict) else (f"{prefix}{key}",)

    for key in leaves(yaml.safe_load(file.read_text())):
        parts = key.split(".")
        groups = [".".join(parts[:end]) for end in range(1, len(parts) + 1)]  # a group may be left out as a whole
        assert any(re.search(rf"(?<![\w.]){re.escape(group)}(?![\w.]*\w)", notes) for group in groups), key
    assert "Hydra's own" in notes
    assert "export RUN --to npy" in notes or command == "ppo"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("reward: {use_reward_model: true, reward_model: {checkpoint_path: '${oc.env:HOME}/x'}}", "resolver oc.env"),
        ("reward: {use_reward_model: true, reward_model: {_target_: os.system}}", "_target_"),
        ("actor: {optim: {lr: '${actor.nothing}'}}", "not in the file"),
        ("reward: {use_reward_modell: true, collect_data: false}", "did you mean reward.use_reward_model"),
        ("algorithm: {clip_ratio_high: 0.2, clip_ratio_low: 0.1}", "sets objective.clip_range as well"),
        ("actor: {model: {model_name: openvla}}", "cnn (--policy pixels) and mlp"),
    ],
)
def test_what_cannot_be_kept_is_refused_by_name(tmp_path: Path, line: str, words: str) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(line)
    with pytest.raises(SettingsError, match=re.escape(words)):
        read("ppo", file)


def test_a_file_of_motionkit_stays_one(tmp_path: Path, cli: Callable[..., Result]) -> None:
    (tmp_path / "own.toml").write_text('[reward.env]\n[env]\nname = "reach"\nmax_steps = 9\n')
    found = read("ppo", tmp_path / "own.toml", "env.max_steps=5", "reward.env.weight=2")
    assert found.settings.env.options.max_steps == 5
    assert [(one.name, one.weight) for one in found.settings.reward] == [("env", 2.0)]
    assert found.notes == ()
    found = resolve(RewardCollectSettings, Given(sets=("actor.kind=pixels", "actor.width=8")))
    assert (found.settings.actor.kind, found.settings.actor.width) == ("pixels", 8)
    snapshot = read("ppo", write(tmp_path)).snapshot()  # a run's own settings are read again as they are
    (tmp_path / "config.json").write_text(json.dumps(snapshot))
    assert read("ppo", tmp_path / "config.json").notes == ()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"cameras": ("hand",)}, "cameras base_camera, and the settings say hand"),
        ({"image_size": (3, 128, 128)}, "image_size base_camera 64x64, and the settings say 128x128"),
        ({"hidden": 128}, "hidden 256, and the settings say 128"),
        ({"blocks": 4}, "blocks 8, and the settings say 4"),
        ({"cameras": ("base_camera",), "image_size": (3, 64, 64), "hidden": 256, "blocks": 8}, ""),
    ],
)
def test_keys_that_must_match_the_checkpoint_are_held_against_it(
    tmp_path: Path, options: dict[str, Any], words: str
) -> None:
    """The guide says that they must match; its code reads none of them."""
    torch.manual_seed(0)
    card = Card(architecture="resnet10", cameras={"base_camera": (64, 64)})
    save_classifier(tmp_path / "model", SuccessClassifier.make(card))
    chosen = SuccessOptions(checkpoint=str(tmp_path / "model"), **options)
    if not words:
        assert SuccessReward(chosen).classifier.card.hidden == 256
        return
    with pytest.raises(MotionkitError, match=re.escape(words)):
        SuccessReward(chosen)
