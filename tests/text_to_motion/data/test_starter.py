"""The starter dataset: splits, halves, prompts, statistics, cache."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from motionkit.errors import MotionkitError
from motionkit.motion import HUMANML, features_to_joints
from motionkit.starter import CATALOGUE, perform
from motionkit.starter._catalogue import captions
from motionkit.text_to_motion.data import starter_clips
from motionkit.text_to_motion.data.starter import StarterOptions, component
from motionkit.text_to_motion.data.starter_clips import Starter

SMALL = {"clips": 300, "val_clips": 150, "test_clips": 150, "min_frames": 40, "max_frames": 48, "prompts": 40}


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("MOTIONKIT_CACHE", str(tmp_path_factory.getbasetemp() / "starter-cache"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "starter-cache"))


@pytest.fixture
def dataset() -> Starter:
    return component.build(StarterOptions(**SMALL))


def test_features_are_those_of_the_clips(dataset) -> None:
    clips = dataset.clips("train")
    assert len(clips) == 300
    assert len({clip.key for clip in clips}) == 300
    for i in (0, 77, 299):
        order = dataset._plan("train")[i].order
        joints = torch.from_numpy(perform([order])[0].joints)[:-1].float()
        back = features_to_joints(clips[i].features[None], HUMANML)[0]
        assert clips[i].features.shape == (order.frames - 1, 263)
        # The features' heading is smoothed, so positions agree up to one turn about the vertical axis.
        torch.testing.assert_close(back[..., 1], joints[..., 1], atol=1e-5, rtol=0)
        torch.testing.assert_close(torch.cdist(back[5], back[5]), torch.cdist(joints[5], joints[5]), atol=1e-4, rtol=0)


def test_splits_share_no_clip_and_keep_wordings_back(dataset) -> None:
    trained = {text for clip in dataset.clips("train") for text in clip.captions}
    held = {}
    for split in ("val", "test"):
        clips = dataset.clips(split)
        assert not any(torch.equal(a.features, b.features) for a, b in zip(clips, dataset.clips("train"), strict=False))
        held[split] = {text for clip in clips for text in clip.captions} - {
            text
            for number, entry in enumerate(CATALOGUE)
            for p in range(len(entry.phrases) - 2)
            for text in entry.sentences(p)
        }
        assert held[split]
        assert not held[split] & trained
    assert not held["val"] & held["test"]


def test_halves_are_disjoint_and_make_up_the_whole(dataset) -> None:
    parts = [Starter(StarterOptions(**SMALL, part=part)) for part in ("reward", "judge")]
    keys = [{clip.key for clip in part.clips("train")} for part in parts]
    assert not keys[0] & keys[1]
    assert keys[0] | keys[1] == {clip.key for clip in dataset.clips("train")}
    assert torch.equal(parts[0].normalizer.mean, parts[1].normalizer.mean)


def test_statistics_are_block_averaged(dataset) -> None:
    frames = torch.cat([clip.features for clip in dataset.clips("train")]).double()
    torch.testing.assert_close(dataset.normalizer.mean.double(), frames.mean(0), atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(
        float(dataset.normalizer.std[3]), float(frames[:, 3].std(correction=0)), atol=1e-5, rtol=1e-4
    )
    assert len(dataset.normalizer.std.unique()) == 7
    skate, jerk = dataset.physics_reference()
    assert skate >= 0.1
    assert 5 < jerk < 100


def test_default_prompts_mix_two_and_three_different_actions(dataset) -> None:
    prompts = dataset.prompts("test")
    assert len(prompts) == 40
    assert prompts == dataset.prompts("test")
    assert {len(p.segments) for p in prompts} == {2, 3}
    assert len({p.key for p in prompts}) == 40
    assert prompts != dataset.prompts("test", seed=1)
    assert prompts != dataset.prompts("val")
    action = {text: entry.action for entry in CATALOGUE for text in entry.captions}
    for prompt in prompts:
        assert prompt.length <= 196
        assert all(40 <= frames <= 64 for frames in prompt.frames)
        assert len({action[text] for text in prompt.segments}) == len(prompt.segments)
    assert all(len(p.segments) == 4 and p.length <= 196 for p in dataset.prompts("val", k_segments=4))
    with pytest.raises(MotionkitError, match="do not fit"):
        dataset.prompts("val", k_segments=6)


def test_single_prompts_are_the_clips_captions(dataset) -> None:
    prompts, clips = dataset.prompts("val", k_segments=1), dataset.clips("val")
    assert [p.segments for p in prompts] == [clip.captions for clip in clips]
    assert [p.length for p in prompts] == [len(clip.features) for clip in clips]
    assert set(captions()) >= {p.text for p in prompts}


def test_a_damaged_or_unwritable_cache_is_no_error(tmp_path, monkeypatch) -> None:
    options = StarterOptions(**{**SMALL, "clips": 8})
    monkeypatch.setenv("MOTIONKIT_CACHE", str(tmp_path))
    first = [clip.features.clone() for clip in Starter(options).clips("train")]
    (file,) = tmp_path.glob("starter-*.npy")
    file.write_bytes(file.read_bytes()[:200])
    assert all(torch.equal(a, b.features) for a, b in zip(first, Starter(options).clips("train"), strict=True))
    assert np.load(file).shape[1] == 263
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("MOTIONKIT_CACHE", str(blocked))
    assert len(Starter(options).clips("train")) == 8


def test_every_caption_names_its_class_and_no_other_text_does(dataset) -> None:
    assert dataset.action("a person walks the dog") == ""
    by_place = [dataset.action(clip.captions[0]) for clip in dataset.clips("val")]
    assert by_place == [CATALOGUE[number % len(CATALOGUE)].name for number in range(len(by_place))]


def test_statistics_that_ship_are_those_of_the_clips(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()  # the cache of all tests has these clips
    usual = Starter(StarterOptions())
    shipped, measured = usual._statistics, usual.measured()
    for name in ("mean", "std", "physics"):
        torch.testing.assert_close(shipped[name], measured[name], atol=1e-6, rtol=1e-5)


def test_texts_lengths_and_statistics_generate_no_clip(monkeypatch: pytest.MonkeyPatch) -> None:
    other = replace(Starter(StarterOptions(**SMALL)).clips("val")[0], captions=("a person waits.",))
    assert other.features.shape[1] == 263
    monkeypatch.setattr(starter_clips, "_features", lambda orders: pytest.fail("clips are generated"))
    usual = Starter(StarterOptions(cache=False))
    assert len(usual.clips("train")) == 4032
    assert usual.clips("val")[0].captions
    assert len(usual.prompts("train")) == 1024
    assert usual.normalizer.std.shape == (263,)
    assert usual.physics_reference()[1] > 5
    with pytest.raises(pytest.fail.Exception):
        _ = usual.clips("val")[0].features
