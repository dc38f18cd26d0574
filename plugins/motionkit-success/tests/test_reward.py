"""The reward `success-classifier`."""

from __future__ import annotations

import pytest
import torch

from motionkit.contracts.reward import FrameBatch
from motionkit.errors import MotionkitError
from motionkit.testing import check_reward
from motionkit.text import Prompt
from motionkit_success.classifier import Card, SuccessClassifier, save_classifier
from motionkit_success.reward import SuccessOptions
from motionkit_success.reward_frames import SuccessReward

SIZE = (16, 20)


@pytest.fixture
def saved(tmp_path):
    torch.manual_seed(0)
    made = SuccessClassifier.make(Card(architecture="small", cameras={"camera": SIZE}, threshold=0.5))
    save_classifier(tmp_path, made)
    return tmp_path, made


def batch(count=4, frames=7):
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (count, frames, *SIZE, 3), generator=generator, dtype=torch.uint8)
    return FrameBatch(images, torch.tensor([7, 4, 2, 1][:count]))


def prompts(count):
    return [Prompt(("reach",), (7,), key="reach")] * count


@pytest.mark.parametrize("output", ["binary", "continuous"])
@pytest.mark.parametrize("mode", ["last", "any", "k-of-n"])
def test_contract(saved, output, mode):
    options = {"checkpoint": str(saved[0]), "output": output, "mode": mode}
    check_reward("success-classifier", options=options, samples=batch(), prompts=prompts(4))


def test_which_frames_count_by_a_slow_version(saved):
    folder, made = saved
    seen = batch()
    said = [
        made.probabilities({"camera": frames[:length]}).tolist()
        for frames, length in zip(seen.frames, seen.lengths.tolist(), strict=True)
    ]
    threshold = sorted(value for own in said for value in own)[7]
    made.update(threshold=threshold)
    save_classifier(folder, made)
    expected = {
        "last": [own[-1] for own in said],
        "any": [max(own) for own in said],
        "k-of-n": [sorted(own[-4:])[-2] if len(own) > 1 else 0.0 for own in said],
    }
    for mode, values in expected.items():
        more = {"k": 2, "n": 4} if mode == "k-of-n" else {}
        for output in ("continuous", "binary"):
            options = SuccessOptions(checkpoint=str(folder), mode=mode, output=output, **more)
            found = SuccessReward(options).score(seen, prompts(4)).total
            wanted = values if output == "continuous" else [float(value >= threshold) for value in values]
            torch.testing.assert_close(found, torch.tensor(wanted))


def test_an_episode_without_frames_cannot_be_scored(saved):
    seen = FrameBatch(batch().frames, torch.tensor([7, 0, 2, 1]))
    total = SuccessReward(SuccessOptions(checkpoint=str(saved[0]))).score(seen, prompts(4)).total
    assert total.isnan().tolist() == [False, True, False, False]


def black(size):
    return FrameBatch(torch.zeros(1, 2, *size, 3, dtype=torch.uint8), torch.tensor([2]))


@pytest.fixture
def several(tmp_path):
    """A classifier of two cameras."""
    card = Card(architecture="small", cameras={"a": SIZE, "b": SIZE})
    save_classifier(tmp_path / "two", SuccessClassifier.make(card))
    return tmp_path / "two"


def test_frames_of_two_cameras_are_scored_by_name(several):
    frames = {name: torch.zeros(3, *SIZE, 3, dtype=torch.uint8) for name in "ab"}
    assert SuccessReward(SuccessOptions(checkpoint=str(several))).score_cameras(frames).parts["success"].shape == (3,)


@pytest.mark.parametrize(
    ("checkpoint", "size", "word"),
    [(".", (8, 8), "8x8"), ("", SIZE, "no classifier"), ("nowhere", SIZE, "nowhere"), ("two", SIZE, "2 cameras")],
)
def test_what_cannot_be_used_is_refused(saved, several, monkeypatch, checkpoint, size, word):
    monkeypatch.chdir(saved[0])
    with pytest.raises(MotionkitError, match=word):
        SuccessReward(SuccessOptions(checkpoint=checkpoint)).score(black(size), prompts(1))


def test_more_frames_than_there_are_cannot_count():
    with pytest.raises(ValueError, match="k 6"):
        SuccessOptions(mode="k-of-n", k=6)


def test_the_fingerprint_follows_the_weights_not_the_place(saved, tmp_path):
    save_classifier(tmp_path / "copy", saved[1])
    first, second = (SuccessReward(SuccessOptions(checkpoint=str(p))).inputs for p in (saved[0], tmp_path / "copy"))
    assert first == second
    saved[1].update(threshold=0.9)
    save_classifier(tmp_path / "copy", saved[1])
    assert SuccessReward(SuccessOptions(checkpoint=str(tmp_path / "copy"))).inputs != first


KEYS = {"cameras": ("base_camera",), "image_size": (3, 64, 64), "hidden": 256, "blocks": 8}


@pytest.fixture(scope="module")
def one_camera(tmp_path_factory):
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("model")
    card = Card(architecture="resnet10", cameras={"base_camera": (64, 64)})
    save_classifier(folder, SuccessClassifier.make(card))
    return str(folder)


@pytest.mark.parametrize(
    ("options", "word"),
    [({"cameras": ("hand",)}, "cameras"), ({"image_size": (3, 128, 128)}, "image_size"), ({"hidden": 128}, "hidden"),
     ({"blocks": 4}, "blocks")],
)  # fmt: skip
def test_keys_that_must_match_the_checkpoint_are_held_against_it(one_camera, options, word):
    """The guide says that they must match; its code reads none of them."""
    assert SuccessReward(SuccessOptions(checkpoint=one_camera, **KEYS)).classifier.card.hidden == 256
    with pytest.raises(MotionkitError, match=f"{word}.*settings say"):
        SuccessReward(SuccessOptions(checkpoint=one_camera, **KEYS | options))
