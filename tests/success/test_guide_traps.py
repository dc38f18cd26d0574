"""The traps in the code behind the reward-model guide, and the test that guards against each of them here."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from motionkit.success.classifier import Card, SuccessClassifier, load_classifier, save_classifier
from motionkit.success.environments.arm import Reach
from motionkit.success.environments.tasks import ReachSettings
from motionkit.success.episodes import Collector
from motionkit.success.ppo.settings import PpoSettings
from motionkit.success.ppo.train import PpoTrainer
from motionkit.success.train import RewardTrain
from motionkit.success.train_settings import RewardTrainSettings

from ..made.training import run_trainer

HERE = Path(__file__).parent
TESTS = HERE.parent
TRAPS = {
    # data
    "reading a .npy runs what it names": "success/episodes/test_trajectories.py::test_nothing_in_a_file_executes",
    "a success that no frame shows": "success/episodes/test_trajectories.py::test_a_file_in_the_wrong_folder_is_said",
    "0..255 where 0..1 is documented": (
        "success/episodes/test_trajectories.py::test_pictures_are_the_same_whatever_their_range"
    ),
    "a range that is guessed batch by batch": "success/test_guide_traps.py::test_a_dark_batch_is_not_brightened",
    "the frame after the reset with the label before it, collected": (
        "success/test_collect.py::test_no_frame_is_one_of_a_reset"
    ),
    "the same, in data of others": (
        "success/episodes/test_trajectories.py::test_labels_on_last_frames_alone_are_suspicious"
    ),
    "the same, in a report": (
        "success/test_reward_train.py::test_data_of_a_recorder_that_looks_after_the_reset_fail_their_check"
    ),
    "a rerun that overwrites files": "success/episodes/test_collector.py::test_more_is_added_to_what_is_there",
    "workers that overwrite each other's": "success/episodes/test_collector.py::test_writers_have_files_of_their_own",
    "a limit that does not end the run": "success/test_collect.py::test_a_full_quota_ends_the_run",
    # training
    "a frozen random encoder": "success/test_reward_train.py::test_a_random_encoder_is_never_frozen",
    "an encoder's file that is half loaded": (
        "success/test_classifier.py::test_a_pretrained_encoder_is_read_by_name_and_hashed"
    ),
    "no validation episodes": (
        "success/test_evaluation.py::test_no_episode_and_no_start_is_in_two_parts_and_each_has_both_classes"
    ),
    "accuracy without the majority's": (
        "success/test_evaluation.py::test_figures_have_the_majority_beside_the_accuracy"
    ),
    "a short run that saves nothing": "success/test_guide_traps.py::test_a_run_shorter_than_its_interval_is_saved",
    "no resume": "success/test_reward_train.py::test_a_resumed_run_has_the_bits_of_one_without_a_stop",
    "a rate of zero after the warm-up": (
        "success/test_guide_traps.py::test_the_rate_falls_slowly_and_to_nothing_at_the_end_alone"
    ),
    "a seed that nothing reads": "success/test_guide_traps.py::test_the_seed_counts",
    # use
    "a missing checkpoint is a warning": "success/ppo/test_ppo.py::test_there_must_be_a_classifier",
    "a checkpoint that runs what it names": (
        "success/test_classifier.py::test_other_weights_and_programs_in_a_file_are_refused"
    ),
    "stage 3 looks where stage 2 does not write": "success/test_classifier.py::test_the_newest_finished_run_is_found",
    "the reward of the frame before the action": (
        "success/ppo/test_steps.py::test_the_reward_looks_at_the_state_after_the_action"
    ),
    "the reward of the next episode's first frame": (
        "success/ppo/test_steps.py::test_the_last_frame_is_that_of_its_own_episode"
    ),
    "stage 3 that never asks the reward model": (
        "success/test_guide_traps.py::test_the_policy_is_paid_by_the_classifier"
    ),
    "keys that must match and are not compared": (
        "success/test_reward.py::test_keys_that_must_match_the_checkpoint_are_held_against_it"
    ),
    "cameras that are not compared": "success/ppo/test_ppo.py::test_cameras_must_be_those_of_the_classifier",
    "a policy that pleases the reward alone": (
        "success/ppo/test_ppo.py::test_a_reward_of_noise_teaches_nothing_and_the_alarm_says_so"
    ),
}


@pytest.mark.parametrize("trap", list(TRAPS))
def test_every_trap_has_its_test(trap: str) -> None:
    file, _, name = TRAPS[trap].partition("::")
    tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
    assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


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
