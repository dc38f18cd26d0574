"""The measurement of success classifiers: splits, checks and strips."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from motionkit.errors import MotionkitError
from motionkit_success.classifier import Card, Pretrained, SuccessClassifier
from motionkit_success.evaluation.checks import reset_frames, run_checks, shuffled_auroc, verdict
from motionkit_success.evaluation.data import Scored, Split, refuse_one_class, score
from motionkit_success.evaluation.report import figures, load_strips, measure_classifier, save_strips, worst_strips
from tests.made.episodes import make


def scored_of(episodes, probabilities):
    """Frames with given probabilities, jumps as `score` finds them with any classifier."""
    found = score(untrained(episodes), episodes, np.arange(len(episodes)))
    return replace(found, probabilities=torch.as_tensor(probabilities, dtype=torch.float32))


def untrained(episodes, **more):
    torch.manual_seed(0)
    return SuccessClassifier.make(Card(architecture="small", cameras=episodes.cameras, **more))


def test_no_episode_and_no_start_is_in_two_parts_and_each_has_both_classes():
    episodes = make(40)
    twins = [replace(record, seed=number // 2) for number, record in enumerate(episodes.records)]
    episodes = replace(episodes, records=twins)
    split = Split.of(episodes, val=0.2, test=0.2, seed=3)
    parts = [set(split.train), set(split.val), set(split.test)]
    assert sum(map(len, parts)) == 40 == len(set.union(*parts))
    seeds = [{record.seed for record in twins if record.content in part} for part in parts]
    assert sum(map(len, seeds)) == len(set.union(*seeds))
    for contents in (split.train, split.val, split.test):
        frames = split.frames(episodes, contents)
        assert {0.0, 1.0} == set(episodes.labels[frames].tolist())
        assert {episodes.records[place].content for place in episodes.episode[frames]} == set(contents)
    assert Split.of(episodes, val=0.2, test=0.2, seed=3) == split != Split.of(episodes, val=0.2, test=0.2, seed=4)


def test_the_smallest_set_still_has_three_parts():
    split = Split.of(make(8), val=0.15, test=0.15, seed=0)
    assert min(len(split.train), len(split.val), len(split.test)) >= 2


def test_too_few_episodes_and_one_class_are_refused():
    with pytest.raises(MotionkitError, match="label 1"):
        Split.of(make(4), val=0.15, test=0.15, seed=0)
    for label in (0, 1):
        with pytest.raises(MotionkitError, match=f"label {label}"):
            refuse_one_class(np.full(5, label, dtype=np.float32))
    refuse_one_class(np.array([0, 1], dtype=np.float32))


def test_jumps_are_mean_differences_to_the_frame_before_within_an_episode(monkeypatch):
    episodes = make(6, second=True)
    monkeypatch.setattr("motionkit_success.evaluation.data.CHUNK", 7)  # parts end inside episodes
    found = score(untrained(episodes), episodes, np.arange(len(episodes)))
    images = episodes.images["camera"].astype(float)
    for place in range(len(episodes)):
        if episodes.step[place] == 0:
            assert found.jump[place].isnan()
        else:
            expected = np.abs(images[place] - images[place - 1]).mean()
            assert float(found.jump[place]) == pytest.approx(expected, abs=1e-3)


def test_reset_frames_are_found_and_sound_data_pass():
    good, bug = make(80), make(80, bug=True)
    sound, broken = (reset_frames(scored_of(data, np.zeros(len(data)))) for data in (good, bug))
    assert (sound.status, broken.status) == ("ok", "fail")
    assert sound.value < 0.1
    assert broken.value > 0.8


def test_labels_of_other_episodes_leave_what_time_alone_tells():
    episodes = make(60)
    by_time = scored_of(episodes, episodes.step / episodes.step.max())
    found = figures(by_time, 0.5)
    assert found["auroc"] > 0.7  # late frames succeed more often
    assert found["auroc"] - shuffled_auroc(by_time, seed=0) < 0.05
    checks = {check.name: check for check in run_checks(by_time, found, untrained(episodes).card, seed=0)}
    assert checks["label shuffle"].status == "fail"
    by_image = scored_of(episodes, episodes.labels)
    assert 1 - shuffled_auroc(by_image, seed=0) > 0.1


def test_a_perfect_classifier_passes_and_a_blind_one_fails():
    episodes = make(80)
    card = untrained(episodes).card
    perfect = scored_of(episodes, 0.98 * episodes.labels + 0.01)
    checks = run_checks(perfect, figures(perfect, 0.5), card, seed=0)
    assert {check.status for check in checks} == {"ok"}
    blind = scored_of(episodes, np.random.default_rng(0).random(len(episodes)))
    failed = {check.name for check in run_checks(blind, figures(blind, 0.5), card, seed=0) if check.status == "fail"}
    assert {"held-out AUROC", "majority baseline", "label shuffle"} <= failed


def test_a_random_frozen_encoder_fails_and_a_pretrained_one_does_not():
    episodes = make(20)
    perfect = scored_of(episodes, episodes.labels)
    for pretrained, status in ((None, "fail"), (Pretrained(name="a.pt", sha256="0"), "ok")):
        card = untrained(episodes, frozen=True, pretrained=pretrained).card
        found = {check.name: check for check in run_checks(perfect, figures(perfect, 0.5), card, seed=0)}
        assert found["random frozen encoder"].status == status


def test_figures_have_the_majority_beside_the_accuracy():
    labels = torch.tensor([1.0, 0, 0, 0])
    p = torch.tensor([0.9, 0.8, 0.1, 0.2])
    number = torch.arange(4)
    found = figures(Scored(number, p, p, labels, number, number * 0, *[p * torch.nan] * 2), 0.5)
    assert (found["accuracy"], found["majority_accuracy"], found["n"], found["positives"]) == (0.75, 0.75, 4, 1)
    assert (found["precision"], found["recall"], found["auroc"]) == (0.5, 1.0, 1.0)


def test_strips_are_the_worst_of_each_kind_one_of_an_episode(tmp_path):
    episodes = make(20)
    said = episodes.labels.copy()
    zeros, ones = np.flatnonzero(episodes.labels < 0.5), np.flatnonzero(episodes.labels > 0.5)
    alarm = int(zeros[episodes.step[zeros] > 4][0])
    said[alarm], said[alarm + 1], said[int(ones[-1])] = 0.9, 0.8, 0.1
    strips = worst_strips(scored_of(episodes, said), episodes, "camera", 0.5)
    assert [(strip.kind, strip.probability) for strip in strips] == [
        ("false alarm", pytest.approx(0.9)), ("missed", pytest.approx(0.1)),
    ]  # fmt: skip
    first = strips[0]
    assert (int(first.episode), first.step) == (episodes.episode[alarm], episodes.step[alarm])
    assert np.array_equal(first.frames[first.at], episodes.images["camera"][alarm])
    save_strips(tmp_path / "strips.npz", strips)
    for read, made in zip(load_strips(tmp_path / "strips.npz"), strips, strict=True):
        assert np.array_equal(read.frames, made.frames)
        assert replace(read, frames=made.frames) == made
    np.savez(tmp_path / "other.npz", count=np.array(1))
    with pytest.raises(MotionkitError, match="no film strips"):
        load_strips(tmp_path / "other.npz")


def test_the_whole_report_is_jsonable_and_names_cameras_that_do_not_fit():
    import json

    episodes = make(30)
    report = measure_classifier(untrained(episodes), episodes)
    text = json.dumps(report.document())
    assert {"auroc", "average_precision", "precision", "recall", "ece", "threshold", "majority_accuracy", "n"} <= set(
        json.loads(text)["heldout"]
    )
    assert report.heldout["n"] == len(episodes)
    assert "Not fit to train a policy on" in report.sentence
    with pytest.raises(MotionkitError, match="other 9x9"):
        measure_classifier(untrained(episodes), replace(episodes, cameras={"other": (9, 9)}))


def test_no_check_passes_on_probabilities_that_are_not_finite():
    episodes = make(40)
    perfect = scored_of(episodes, episodes.labels)
    card = untrained(episodes).card
    assert not any(check.status == "fail" for check in run_checks(perfect, figures(perfect, 0.5), card, seed=0))
    spoiled = perfect.probabilities.clone()
    spoiled[3] = torch.nan
    odd = replace(perfect, probabilities=spoiled)
    checks = run_checks(odd, figures(odd, 0.5), card, seed=0)
    (failed,) = [check for check in checks if check.name == "held-out AUROC"]
    assert failed.status == "fail"
    assert "1 of " in failed.meaning
    assert "not finite" in failed.meaning
    assert "not fit to train a policy on: held-out AUROC" in verdict(checks)
