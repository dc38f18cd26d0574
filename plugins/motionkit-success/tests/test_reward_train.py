"""`motionkit reward-train`: what it learns, keeps, resumes and refuses."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from motionkit.config import resolve
from motionkit.errors import MotionkitError
from motionkit.training.execute import run_trainer
from motionkit_success import train_data as opening
from motionkit_success.classification import classifier_auroc
from motionkit_success.classifier import load_classifier, read_card
from motionkit_success.resnet10 import ResNet10
from motionkit_success.train import RewardTrain
from motionkit_success.train_data import Augmentation, FrameBatches, held_out, run_of
from motionkit_success.train_settings import RewardTrainSettings
from tests.made.episodes import make


@pytest.fixture(scope="module")
def sets():
    return {
        "good": make(80),
        "large": make(240),
        "bug": make(80, bug=True),
        "none": replace(make(10), labels=np.zeros(200, dtype=np.float32)),
        "two": make(16, second=True),
        "few": make(24),
    }


@pytest.fixture
def data(sets, monkeypatch):
    """Made episodes by the name of their folder."""
    monkeypatch.setattr(opening, "open_episodes", lambda *places: sets[Path(places[0]).name])
    return sets


def prepared(*sets, **flags):
    resolved = resolve(RewardTrainSettings, sets=("device=cpu", "threads=1", *sets))
    trainer = RewardTrain(resolved.settings)
    trainer.prepare()
    return trainer, resolved


def train(out, *sets):
    trainer, resolved = prepared(f"run.out={out}", *sets)
    outcome = run_trainer("reward-train", trainer, resolved)
    return dict(outcome.document)


SHORT = ("data.path=good", "run.num_steps=60", "train.batch_size=64", "optim.warmup_steps=5")


def test_it_learns_and_the_card_says_everything(data, tmp_path):
    document = train(tmp_path / "run", "data.path=large", "run.num_steps=300", *SHORT[2:])
    found = document["heldout"]
    assert found["auroc"] > 0.97
    assert found["accuracy"] > found["majority_accuracy"]
    assert {"average_precision", "precision", "recall", "ece", "threshold", "n"} <= set(found)
    assert not [check["name"] for check in document["checks"] if check["status"] == "fail"]
    made = load_classifier(tmp_path / "run")
    card = made.card
    assert card.cameras == {"camera": (24, 24)}
    assert json.loads((tmp_path / "run/run.json").read_text())["environment"] == {"name": "disc"}
    assert (card.environment, card.label_rule) == ({"name": "disc"}, data["large"].label_rule)
    assert card.dataset == "made-240-0-False"
    assert (card.threshold, card.step) == (pytest.approx(found["threshold"], abs=1e-4), document["best_step"])
    assert card.heldout == found
    fresh = make(40, seed=99)
    p = made.probabilities({"camera": torch.from_numpy(fresh.images["camera"])})
    assert classifier_auroc(p, torch.from_numpy(fresh.labels)) > 0.97
    assert load_classifier(tmp_path / "run/classifier-last").card.cameras == card.cameras
    source, index = held_out(run_of(tmp_path / "run/classifier"), card.dataset)
    assert len(index) == found["n"]
    with pytest.raises(MotionkitError, match="has changed"):
        held_out(tmp_path / "run", "another")
    assert source.episodes is data["large"]


def test_data_of_a_recorder_that_looks_after_the_reset_fail_their_check(data, tmp_path):
    document = train(tmp_path / "run", "data.path=bug", *SHORT[1:])
    failed = {check["name"] for check in document["checks"] if check["status"] == "fail"}
    assert {"reset frames", "held-out AUROC"} <= failed
    assert "Not fit to train a policy on" in document["verdict"]
    assert {check.name for check in load_classifier(tmp_path / "run").card.failed} == failed


def test_control_shuffled_labels_teach_nothing(data, tmp_path):
    document = train(tmp_path / "run", "control.shuffle=true", *SHORT)
    assert 0.3 < document["heldout"]["auroc"] < 0.7
    assert "held-out AUROC" in document["verdict"]


@pytest.mark.parametrize("frozen", [False, True])
def test_a_resumed_run_has_the_bits_of_one_without_a_stop(data, tmp_path, frozen):
    more = ["run.num_steps=8", "train.val_every=1", "train.batch_size=200", "data.path=good"]
    if frozen:
        torch.manual_seed(5)
        torch.save(ResNet10().state_dict(), tmp_path / "resnet10.pt")
        more += [f"model.pretrained={tmp_path / 'resnet10.pt'}", "data.path=few", "run.num_steps=4"]
    train(tmp_path / "whole", *more)
    train(tmp_path / "parts", *more, "checkpoint.every=2", "checkpoint.keep=9")
    trainer, resolved = prepared(*more, f"run.resume={tmp_path / 'parts/checkpoints/step-00000002'}")
    run_trainer("reward-train", trainer, resolved)
    for name in ("classifier", "classifier-last"):
        one, two = ((tmp_path / run / name / "model.safetensors").read_bytes() for run in ("whole", "parts"))
        assert one == two
    assert not (tmp_path / "parts/features").exists()


def test_the_last_classifier_knows_its_step_after_a_resume_behind_the_last_step(data, tmp_path):
    """A run that was killed between its last checkpoint and its end."""
    train(tmp_path / "run", *SHORT, "run.num_steps=4")
    before = (tmp_path / "run/classifier-last/classifier.json").read_bytes()
    assert read_card(tmp_path / "run/classifier-last/classifier.json").step == 4
    trainer, resolved = prepared(*SHORT, "run.num_steps=4", f"run.resume={tmp_path / 'run'}")
    run_trainer("reward-train", trainer, resolved)
    assert (tmp_path / "run/classifier-last/classifier.json").read_bytes() == before


def test_a_learning_rate_out_of_range_is_a_sentence(data, tmp_path):
    """Too few updates for the rule of three gradients in a row: the validation meets it first."""
    wild = ("data.path=good", "run.num_steps=2", "optim.learning_rate=1e6", "optim.warmup_steps=0")
    with pytest.raises(MotionkitError) as said:
        train(tmp_path / "run", *wild)
    assert said.value.fix == "start again with a --learning-rate below 1e+06."
    assert said.value.code == 1


def test_a_frozen_encoder_stays_and_its_features_are_those_of_the_images(data, tmp_path):
    torch.manual_seed(5)
    torch.save(ResNet10().state_dict(), tmp_path / "resnet10.pt")
    train(tmp_path / "run", "data.path=two", f"model.pretrained={tmp_path / 'resnet10.pt'}", "run.num_steps=3")
    made = load_classifier(tmp_path / "run")
    assert made.card.frozen
    assert made.card.pretrained.name == "resnet10.pt"
    for backbone in made.network.backbones():
        for name, value in torch.load(tmp_path / "resnet10.pt", weights_only=True).items():
            assert torch.equal(backbone.state_dict()[name], value)
    report = json.loads((tmp_path / "run/figures/report.json").read_text())
    assert report["heldout"]["n"] == made.card.heldout["n"]


def test_a_random_encoder_is_never_frozen(data):
    trainer, _ = prepared(*SHORT, "model.architecture=resnet10")
    assert not trainer.classifier.card.frozen
    assert trainer.settings.optim.learning_rate == 3e-4


@pytest.mark.parametrize(
    ("given", "word"),
    [
        ((), "motionkit reward-collect"),
        (("data.path=none",), "label 0"),
        (("data.path=two", "data.cameras=wrist"), "camera 24x24, dark 16x20"),
        (("data.path=two", "data.image_size=[3,24,24]"), "data.image_size"),
        (("data.positive_dir=a",), "go together"),
        (("data.path=good", "model.pretrained=nowhere.pt"), "nowhere.pt"),
        (("data.path=good", "model.freeze=always"), "freeze"),
        (("data.path=good", "model.architecture=small", "model.pretrained=a.pt"), "resnet10"),
    ],
)
def test_what_cannot_be_trained_on_is_refused(data, tmp_path, monkeypatch, given, word):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(MotionkitError) as said:
        prepared(*given)
    assert word in said.value.sentence()
    assert not Path("runs").exists()


def test_one_of_several_cameras_can_be_chosen(data, tmp_path):
    train(tmp_path / "run", "data.path=two", "data.cameras=camera", "run.num_steps=2")
    assert read_card(tmp_path / "run/classifier/classifier.json").cameras == {"camera": (24, 24)}


def test_batches_have_their_share_and_every_frame_comes_before_one_comes_again():
    labels = np.array([1.0] * 10 + [0.0] * 90, dtype=np.float32)
    frames = np.arange(100) * 3
    batches = FrameBatches(frames, labels, 20, negatives=3, seed=0)
    assert batches.per_epoch == 5
    drawn = [batches(step) for step in range(1, 13)]
    assert all((labels[index // 3] > 0.5).sum() == 5 for index in drawn)
    zeros = np.concatenate([index[labels[index // 3] < 0.5] for index in drawn[:6]])
    assert len(set(zeros.tolist())) == 90
    ones = np.concatenate([index[labels[index // 3] > 0.5] for index in drawn])
    assert set(np.unique(ones, return_counts=True)[1].tolist()) == {6}
    again = FrameBatches(frames, labels, 20, negatives=3, seed=0)
    assert np.array_equal(again(7), drawn[6])  # a step depends on its number alone
    natural = FrameBatches(frames, labels, 20, negatives=0, seed=0)
    assert sorted(np.concatenate([natural(step) for step in range(1, 6)]).tolist()) == frames.tolist()


def test_augmentation_moves_and_lights_by_a_slow_version():
    images = {"a": torch.rand(6, 3, 9, 11)}
    moved = Augmentation(2, 0.0, seed=0)(images, 4)["a"]
    found = set()
    for one, image in zip(moved, images["a"], strict=True):
        padded = torch.nn.functional.pad(image[None], (2, 2, 2, 2), mode="replicate")[0]
        fits = [(y, x) for y in range(5) for x in range(5) if torch.equal(padded[:, y : y + 9, x : x + 11], one)]
        assert len(fits) == 1
        found.add(fits[0])
    assert len(found) > 1
    lit = Augmentation(0, 0.2, seed=0)(images, 4)["a"]
    scale = (lit / images["a"]).flatten(1)
    free = lit.flatten(1) < 1
    for row, mask in zip(scale, free, strict=True):
        assert float(row[mask].std()) < 1e-5
        assert 0.8 <= float(row[mask].mean()) <= 1.2
    same = Augmentation(0, 0.0, seed=0)(images, 4)["a"]
    assert torch.equal(same, images["a"])
