from __future__ import annotations

import json
import logging
import os
import random
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from motionkit.errors import MotionkitError
from motionkit.kernels import physics_sums
from motionkit.motion import HUMANML, KIT, features_to_joints
from motionkit.text_to_motion.data.humanml import HumanMLOptions, KitOptions, humanml, kit


@pytest.fixture
def mini(shared: Path) -> Path:
    return shared / "fixtures/mdm/mini_humanml3d"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A small folder made here: eight clips, one caption each, and a timed caption."""
    return make(tmp_path / "data", 263)


def make(root: Path, width: int) -> Path:
    for part in ("new_joint_vecs", "texts"):
        (root / part).mkdir(parents=True)
    rng = np.random.default_rng(0)
    for number in range(8):
        vectors = rng.normal(size=(44 + 16 * number, width)).astype(np.float32) * 0.1
        np.save(root / f"new_joint_vecs/{number:06}.npy", vectors)
        (root / f"texts/{number:06}.txt").write_text(f"a person does {number}#a/DET person/NOUN#0.0#0.0\n")
    with (root / "texts/000007.txt").open("a") as file:
        file.write("then stops#stop/VERB#1.0#4.0\nthen waves#wave/VERB#2.0#5.0\ntoo short#x/NOUN#0.0#0.5\n")
    for split, numbers in (("train", range(8)), ("val", (1,)), ("test", (2, 3))):
        (root / f"{split}.txt").write_text("".join(f"{number:06}\n" for number in numbers))
    np.save(root / "Mean.npy", np.zeros(width, np.float32))
    np.save(root / "Std.npy", np.full(width, 0.5, np.float32))
    return root


def test_items_equal_the_peers_listing(mini: Path):
    dataset = humanml.build(HumanMLOptions(root=mini / "dataset/HumanML3D"))
    view = json.loads((mini / "peer_dataset_view.json").read_text())
    listing = [
        {
            "name": f"?{clip.key[1:]}" if clip.key[1] == "_" else clip.key,
            "length": len(clip.features),
            "captions": list(clip.captions),
        }
        for clip in dataset.clips("train")
    ]
    assert listing == view["listing"]
    assert len(listing) == view["n"]


def test_visits_equal_the_peers(mini: Path):
    """Same captions, crops and normalised values, drawn from the peer's own two random streams."""
    dataset = humanml.build(HumanMLOptions(root=mini / "dataset/HumanML3D"))
    view = json.loads((mini / "peer_dataset_view.json").read_text())
    clips = dataset.clips("train")
    rng, coin = random.Random(10), np.random.RandomState(10)
    for item in view["items_seed10"]:
        clip = clips[item["i"]]
        which = rng.choice(range(len(clip.captions)))
        # The peer's crop: a multiple of 4 frames, one unit less in a third of the visits, at a uniform start.
        shorter = coin.choice(["single", "single", "double"]) == "double"
        length = (min(len(clip.features), 196) // 4 - shorter) * 4
        start = rng.randint(0, len(clip.features) - length)
        assert (clip.captions[which], length) == (item["caption"], item["m_length"])
        total = dataset.normalizer.normalize(clip.features[start : start + length]).double().sum()
        assert float(total) == pytest.approx(item["motion_sum"], abs=2e-3)
        words = ["sos/OTHER", *clip.tokens[which][:20], "eos/OTHER"]
        assert "_".join(words) == "_".join(item["tokens"].split("_")[: len(words)])


def test_evaluator_statistics_are_apart(mini: Path, folder: Path):
    dataset = humanml.build(HumanMLOptions(root=mini / "dataset/HumanML3D"))
    judge = dataset.evaluator_normalizer
    ratio = dataset.normalizer.std / judge.std
    np.testing.assert_allclose(ratio[:4], 25.0, rtol=0.01)
    np.testing.assert_allclose(ratio[4:259], 1.0, rtol=0.01)
    assert humanml.build(HumanMLOptions(root=folder)).evaluator_normalizer is None


def test_items_of_our_own_folder(folder: Path):
    dataset = humanml.build(HumanMLOptions(root=folder))
    assert (dataset.fps, dataset.skeleton, dataset.name, dataset.max_length) == (20.0, HUMANML, "humanml", 196)
    clips = dataset.clips("train")
    assert [len(clip.features) for clip in clips] == [44, 60, 60, 60, 76, 92, 108, 124, 140, 156]
    assert [clip.key for clip in clips][1:4] == ["000001", "A_000007", "B_000007"]
    assert clips[2].source == "000007"
    whole = clips[-1].features
    assert torch.equal(clips[2].features, whole[20:80]), "1.0 to 4.0 s at 20 fps"
    assert dataset.reading("train").outside == ["000007 (0-0.5 s)"]
    assert dataset.clips("train") is clips
    assert [clip.key for clip in dataset.clips("test")] == ["000002", "000003"]


def test_times_count_twenty_frames_a_second_for_kit_too(tmp_path: Path):
    dataset = kit.build(KitOptions(root=make(tmp_path / "kit", 251)))
    assert (dataset.fps, dataset.skeleton) == (12.5, KIT)
    parts = [clip for clip in dataset.clips("train") if clip.key.startswith("A_")]
    assert [len(clip.features) for clip in parts] == [60]


def test_lengths(folder: Path, caplog: pytest.LogCaptureFixture):
    caplog.set_level("INFO", "motionkit")
    dataset = humanml.build(HumanMLOptions(root=folder, min_length=61, drop_length=140))
    assert [len(clip.features) for clip in dataset.clips("train")] == [76, 92, 108, 124]
    assert len(dataset.reading("train").outside) == 4
    assert "train: 4 clips not used, as 61 to 139 frames (3.05 to 6.95 s) are: " in caplog.text


def test_single_prompts(folder: Path):
    prompts = humanml.build(HumanMLOptions(root=folder, max_length=100)).prompts("train")
    assert len(prompts) == 10
    assert len({prompt.key for prompt in prompts}) == 10
    assert [prompt.length for prompt in prompts] == [44, 60, 60, 60, 76, 92, 100, 100, 100, 100]
    assert all(len(prompt.segments) == 1 for prompt in prompts)


def test_joined_prompts(folder: Path):
    dataset = humanml.build(HumanMLOptions(root=folder))
    prompts = dataset.prompts("train", k_segments=3, seed=5)
    assert prompts == dataset.prompts("train", k_segments=3, seed=5)
    assert prompts == humanml.build(HumanMLOptions(root=folder)).prompts("train", k_segments=3, seed=5)
    assert prompts != dataset.prompts("train", k_segments=3, seed=6)
    known = {text for clip in dataset.clips("train") for text in clip.captions}
    for prompt in prompts:
        assert len(prompt.segments) == len(set(prompt.source_ids)) == 3
        assert set(prompt.segments) <= known
        assert prompt.length <= 196
        assert min(prompt.frames) >= 36
    for split, count, word in (("train", 6, "196 frames"), ("test", 3, "has 2")):
        with pytest.raises(MotionkitError, match=word):
            dataset.prompts(split, k_segments=count)


def test_physics_reference(folder: Path, tmp_path: Path, monkeypatch):
    cache = tmp_path / "cache"
    monkeypatch.setenv("MOTIONKIT_CACHE", str(cache))
    dataset = humanml.build(HumanMLOptions(root=folder))
    skates, jerks = [], []
    for clip in dataset.clips("train"):
        joints = features_to_joints(clip.features, HUMANML)[None]
        skate, jerk = physics_sums(joints, torch.tensor([joints.shape[1]]), fps=20.0, feet=HUMANML.feet)
        skates.append(float(skate))
        jerks.append(float(jerk))
    expected = (sorted(skates)[4], sorted(jerks)[4])
    assert dataset.physics_reference() == pytest.approx(expected, rel=1e-5)
    (kept,) = cache.iterdir()
    kept.write_text("[0.25, 7.0]")
    assert humanml.build(HumanMLOptions(root=folder)).physics_reference() == (0.25, 7.0)
    kept.write_text("[0.2")
    assert humanml.build(HumanMLOptions(root=folder)).physics_reference() == pytest.approx(expected, rel=1e-5)
    np.save(folder / "new_joint_vecs/000000.npy", np.zeros((50, 263), np.float32))
    humanml.build(HumanMLOptions(root=folder)).physics_reference()
    assert len(list(cache.iterdir())) == 2, "changed motions have figures of their own"
    assert sorted(path.name for path in folder.iterdir()) == sorted(
        ["Mean.npy", "Std.npy", "new_joint_vecs", "test.txt", "texts", "train.txt", "val.txt"]
    ), "nothing is written into the dataset"


def nan(root: Path) -> None:
    vectors = np.load(root / "new_joint_vecs/000003.npy")
    vectors[17, 5] = np.nan
    np.save(root / "new_joint_vecs/000003.npy", vectors)


def pickled(root: Path) -> None:
    np.save(root / "new_joint_vecs/000003.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)


def announced(root: Path) -> None:
    """A header that announces 100 frames, and 8 bytes."""
    with (root / "new_joint_vecs/000003.npy").open("wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": (100, 263)})
        file.write(bytes(8))


def piped(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def linked(path: Path, target: str) -> None:
    path.unlink()
    path.symlink_to(target)


BROKEN = {
    "nan": (nan, r"000003.npy is not finite \(NaN or infinite\) from frame 17"),
    "motion": (lambda root: (root / "new_joint_vecs/000003.npy").unlink(), "there is no motion .*000003.npy"),
    "width": (
        lambda root: np.save(root / "new_joint_vecs/000003.npy", np.zeros((90, 251))),
        "000003.npy have shape .*263",
    ),
    "pickle": (pickled, "holds object values"),
    "text": (lambda root: (root / "texts/000003.txt").write_text("no fields\n"), "000003.txt, line 1"),
    "words": (lambda root: np.save(root / "new_joint_vecs/000003.npy", np.array(["a", "b"])), "not numbers"),
    "huge": (announced, "cannot be read as numpy data.*100, 263"),
    "motion pipe": (lambda root: piped(root / "new_joint_vecs/000003.npy"), "000003.npy is not a plain file"),
    "not UTF-8": (lambda root: (root / "texts/000003.txt").write_bytes(b"caf\xe9#x/NOUN#0#0\n"), "is not a text file"),
    "large texts": (lambda root: (root / "texts/000003.txt").write_text("\n" * 2_000_000), "000003.txt is too large"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_clips_are_named_or_skipped(folder: Path, name: str, caplog, monkeypatch):
    spoil, words = BROKEN[name]
    spoil(folder)
    with pytest.raises(MotionkitError, match=rf"(?s)^1 clip.*000003.*{words}") as caught:
        humanml.build(HumanMLOptions(root=folder)).clips("train")
    assert caught.value.code == 2
    assert "--dataset.broken skip" in caught.value.fix
    monkeypatch.setattr(logging.getLogger("motionkit"), "propagate", True)
    with caplog.at_level(logging.WARNING, logger="motionkit"):
        clips = humanml.build(HumanMLOptions(root=folder, broken="skip")).clips("train")
    assert "000003" not in {clip.key for clip in clips}
    assert len(clips) == 9
    assert "skipped 1 broken clip: 000003" in caplog.text


def test_clips_without_captions(folder: Path, caplog, monkeypatch):
    (folder / "texts/000002.txt").unlink()
    (folder / "texts/000003.txt").write_text("\n")
    dataset = humanml.build(HumanMLOptions(root=folder))
    monkeypatch.setattr(logging.getLogger("motionkit"), "propagate", True)
    with caplog.at_level(logging.WARNING, logger="motionkit"):
        assert len(dataset.clips("train")) == 8
    assert "2 clips without a caption" in caplog.text
    with pytest.raises(MotionkitError) as caught:
        dataset.clips("test")
    assert "2 without a caption" in caught.value.why
    assert "--captions" in caught.value.fix


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda root: shutil.rmtree(root), "no folder"),
        (lambda root: shutil.rmtree(root / "texts"), "texts"),
        (lambda root: (root / "Std.npy").unlink(), "Std.npy"),
        (lambda root: np.save(root / "Mean.npy", np.zeros(251)), "251"),
        (lambda root: np.save(root / "Std.npy", np.zeros(263)), "cannot be used"),
        (lambda root: (root / "train.txt").unlink(), "missing"),
        (lambda root: (root / "train.txt").write_text("\n"), "no clip"),
        (lambda root: (root / "train.txt").write_bytes(b"\x93NUMPY\xff\x00"), "UTF-8"),
        (lambda root: linked(root / "train.txt", "/dev/zero"), "plain file"),
        (lambda root: (root / "train.txt").write_text("n" * 300 + "\n"), "too long"),
    ],
    ids=["folder", "texts", "std", "width", "zero", "split", "empty", "binary", "device", "long"],
)
def test_bad_folders_are_refused(folder: Path, spoil, words):
    spoil(folder)
    with pytest.raises(MotionkitError, match=words) as caught:
        humanml.build(HumanMLOptions(root=folder)).clips("train")
    assert caught.value.code == 2


def test_captions_of_endless_times_are_left_out(folder: Path):
    lines = "x#x/NOUN#-inf#inf\ny#y/NOUN#1e308#inf\nz#z/NOUN#inf#1.0\nall#x/NOUN#0.0#1e308\n"
    (folder / "texts/000003.txt").write_text(lines)
    reading = humanml.build(HumanMLOptions(root=folder)).reading("train")
    found = {clip.key: (clip.start, len(clip.features)) for clip in reading.clips if clip.source == "000003"}
    assert found == {"A_000003": (-92, 92), "D_000003": (0, 92)}
    assert sum(name.startswith("000003 (") for name in reading.outside) == 2


def test_no_root_says_what_to_do():
    with pytest.raises(MotionkitError) as caught:
        humanml.build(HumanMLOptions())
    assert "--dataset.root" in caught.value.fix


def test_statistics_may_lie_elsewhere(folder: Path, tmp_path: Path):
    other = tmp_path / "stats"
    other.mkdir()
    np.save(other / "Mean.npy", np.ones(263))
    np.save(other / "Std.npy", np.ones(263))
    assert humanml.build(HumanMLOptions(root=folder, stats=other)).normalizer.mean.unique().tolist() == [1.0]
