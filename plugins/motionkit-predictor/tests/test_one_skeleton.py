"""Clips of several skeletons, brought to one."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from motionkit.errors import MotionkitError
from motionkit.formats.mpl import write_mpl_npz
from motionkit.motion import Caption, Clip, Motion
from motionkit_predictor.data.clips import ClipSet
from motionkit_predictor.data.files import open_clip_set
from tests.made.commands import assert_refused
from tests.made.rigs import other_rig, starter_rig


def write(folder: Path, name: str, motion: Motion, split: str = "", group: str = "") -> None:
    folder.mkdir(exist_ok=True)
    clip = Clip(motion, captions=(Caption("moves"),), split=split, group=group)
    write_mpl_npz(folder / f"{name}.npz", clip, source_hash="")


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with clips of the starter's rig in `own`, of another in `other`, of a snake in `snake`."""
    monkeypatch.chdir(tmp_path)
    for name, action, split in (("walk", "walk", "train"), ("wave", "wave", "train"), ("kick", "kick", "val")):
        write(tmp_path / "own", name, starter_rig(action), split)
    write(tmp_path / "other", "walk", other_rig(starter_rig("walk")), "test")
    write(tmp_path / "other", "jump", other_rig(starter_rig("jump")), "train")
    snake = starter_rig("walk")
    write(tmp_path / "snake", "s", replace(snake, names=tuple(f"bone{joint}" for joint in range(22))), "train")
    return tmp_path


def opened(*names: str, retarget: str = "first") -> ClipSet:
    return open_clip_set(names, 30.0, retarget=retarget)


def test_several_skeletons_are_refused_without_it(folders: Path) -> None:
    with pytest.raises(MotionkitError) as raised:
        opened("own", "other", retarget="")
    assert "--retarget first" in raised.value.fix


def test_all_clips_have_the_skeleton_of_the_first_folder(folders: Path) -> None:
    found = opened("own", "other")
    assert found.names[4] == "left_knee"
    by_key = {clip.key: clip for clip in found.clips}
    assert len(by_key) == 5
    own = opened("own").clips[0]
    for clip in by_key.values():
        torch.testing.assert_close(clip.offsets, own.offsets)
    assert found.notes[0].startswith("2 clips (")
    assert "of 22 joints were brought to the skeleton of own, which has 22." in found.notes[0]
    jump = next(clip for key, clip in by_key.items() if "jump" in key)
    alone = open_clip_set(["own"], 30.0)
    assert jump.state.rotations.shape[1:] == alone.clips[0].state.rotations.shape[1:]
    # The clip of the other rig moves as the starter's own does.
    truth = starter_rig("jump").resample(30.0)
    assert float((jump.state.heights - truth.translations[:, 0, 1]).abs().mean()) < 0.03


def test_another_folder_names_the_skeleton(folders: Path) -> None:
    found = opened("own", "other", retarget="other")
    assert found.names[4] == "Bip_left_knee"
    assert len(found.clips) == 5


def test_copies_of_one_recording_stay_in_one_split(folders: Path) -> None:
    """`own/walk` is for training, its copy `other/walk` for the test: both are for the test."""
    found = opened("own", "other")
    splits = {clip.key: clip.split for clip in found.clips}
    assert sorted(split for key, split in splits.items() if "walk" in key) == ["test", "test"]
    assert sorted(splits.values()) == ["test", "test", "train", "train", "val"]
    assert any("moved to the later split" in note for note in found.notes)
    alone = {clip.key: clip.split for clip in opened("own").clips}
    assert alone["walk"] == "train"


def test_copies_are_known_by_their_group_as_well(folders: Path) -> None:
    write(folders / "own", "a", starter_rig("wave"), "train", group="take 7")
    write(folders / "other", "b", other_rig(starter_rig("wave")), "val", group="take 7")
    write(folders / "own", "c", starter_rig("squat"), group="take 8")
    write(folders / "other", "d", other_rig(starter_rig("squat")), group="take 8")
    splits = {clip.key: clip.split for clip in opened("own", "other").clips}
    assert splits["a"] == splits["b"] == "val"
    assert splits["c"] == splits["d"]


def test_a_rig_that_cannot_be_brought_is_named_and_the_others_go_on(folders: Path) -> None:
    found = opened("own", "snake", "other")
    assert len(found.clips) == 5
    (note,) = (note for note in found.notes if "left out" in note)
    assert note.startswith("clip s was left out")
    assert "no joint that looks like" in note
    with pytest.raises(MotionkitError, match="skeleton of snake"):
        opened("snake", "own")
    assert {clip.key for clip in opened("snake").clips} == {"s"}, "nothing is to do"


def test_what_is_none_of_the_data_is_refused(folders: Path) -> None:
    with pytest.raises(MotionkitError, match="--retarget nobody"):
        opened("own", "other", retarget="nobody")


def test_from_training_to_files(folders: Path, cli: Callable[..., Any]) -> None:
    """A run on two skeletons is measured and shown on its own data, as it was trained on them."""
    own, other = str(folders / "own"), str(folders / "other")
    data = ["--data", own, "--data", other]
    words = [*data, "--out", "run", "--epochs", 1, "--model.width", 16, "--encoder", "none", "--model.head", "delta"]
    settings = ["--set", "model.heads=2", "--set", "train.long=", "--set", "train.seq_len=30"]
    assert_refused(cli("train-mpl", *words, *settings, "--retarget", "nobody"), "--retarget first")
    done = cli("train-mpl", *words, *settings)  # the first one's skeleton
    assert done.exit_code == 0, done.stderr
    assert f"were brought to the skeleton of {own}" in done.stderr
    measured = cli("eval", "mpl", "run", "--horizons", "100", "--split", "test", "--long", "2", "--json")
    assert measured.exit_code == 0, measured.stderr
    shown = cli("predict", "run", "walk.bvh", "--clip", "jump", "--seconds", 0.3, "--json")
    assert shown.exit_code == 0, shown.stderr
    assert json.loads(shown.stdout)["clip"] == "jump"
    encoder = cli("pretrain", "mpl-encoder", *data, "--out", "enc", "--epochs", 1, "--model.width", 16)
    assert encoder.exit_code == 0, encoder.stderr
