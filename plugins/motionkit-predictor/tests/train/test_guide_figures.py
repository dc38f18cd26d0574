"""The guide's files: figures of epochs and norm_template.json."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import pytest
import torch

from motionkit.errors import MotionkitError
from motionkit.geometry import yaw_matrix
from motionkit_predictor.network.features import Statistics
from motionkit_predictor.states import MotionState
from motionkit_predictor.training.guide_figures import curve_file, cut_back, read_epochs, write_epoch
from motionkit_predictor.training.norm_template import read_template, take_turn_scale, template_of, write_template


def fill(folder: Path, epochs: int, *, first: int = 1) -> None:
    for epoch in range(first, epochs + 1):
        write_epoch(
            folder,
            epoch,
            teacher={"GeoDeg": 0.1 * epoch, "KeyBone/left_knee/GeoDeg": 1.0},
            free={"GeoDeg": 2.0 / epoch, "FreeRun/GeoDeg": 2.0 / epoch, "FootContact": float("nan")},
            shares={"core": 0.6, "aux": 0.1, "long": 0.3},
            adaptive={"fk_pos": 0.25},
        )


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_both_files_of_an_epoch_and_the_curves(tmp_path: Path) -> None:
    fill(tmp_path / "metrics", 2)
    folder = tmp_path / "metrics"
    free = json.loads((folder / "valfree_ep002.json").read_text())
    assert free == {
        "epoch": 2, "GeoDeg": 1.0, "FreeRun/GeoDeg": 1.0, "loss_group/core": 0.6, "loss_group/aux": 0.1,
        "loss_group/long": 0.3, "adaptive_loss/fk_pos": 0.25,
    }  # fmt: skip
    assert json.loads((folder / "teacher_ep001.json").read_text())["KeyBone/left_knee/GeoDeg"] == 1.0
    assert (folder / "valfree/GeoDeg.txt").read_text() == "1 2.0\n2 1.0\n"
    assert curve_file(folder, "teacher", "KeyBone/left_knee/GeoDeg").read_text() == "1 1.0\n2 1.0\n"
    assert not (folder / "valfree/FootContact.txt").exists()


def test_a_resumed_run_leaves_the_files_of_one_that_was_never_stopped(tmp_path: Path) -> None:
    fill(tmp_path / "one", 5)
    fill(tmp_path / "two", 4)
    (tmp_path / "two/notes.txt").write_text("mine")
    cut_back(tmp_path / "two", 2)
    assert sorted(path.name for path in (tmp_path / "two").glob("*.json"))[-1] == "valfree_ep002.json"
    assert (tmp_path / "two/valfree/GeoDeg.txt").read_text() == "1 2.0\n2 1.0\n"
    fill(tmp_path / "two", 5, first=3)
    (tmp_path / "two/notes.txt").unlink()
    assert content(tmp_path / "one") == content(tmp_path / "two")
    cut_back(tmp_path / "two", 0)
    assert content(tmp_path / "two") == {}
    cut_back(tmp_path / "none", 3)


def test_an_epoch_written_twice_counts_once(tmp_path: Path) -> None:
    fill(tmp_path, 3)
    before = content(tmp_path)
    fill(tmp_path, 3, first=3)
    assert content(tmp_path) == before


def test_nothing_half_written_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path, 1)
    before = content(tmp_path)

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises((OSError, MotionkitError)):
        write_epoch(tmp_path, 2, teacher={"GeoDeg": 1.0}, free={"GeoDeg": 1.0})
    assert content(tmp_path) == before


def test_files_are_read_back_ours_and_the_guides(tmp_path: Path) -> None:
    fill(tmp_path, 2)
    (tmp_path / "valfree_ep010.json").write_text('{"metrics": {"GeoDeg": 3, "note": "x", "bad": NaN}, "ok": true}')
    found = read_epochs(tmp_path)
    assert list(found["valfree"]) == [1, 2, 10]
    assert found["valfree"][10] == {"GeoDeg": 3.0}
    assert found["teacher"][2]["GeoDeg"] == 0.2
    (tmp_path / "teacher_ep002.json").write_text("[]")
    for folder, word in ((tmp_path, "teacher_ep002"), (tmp_path / "nothing", "teacher_epXXX")):
        with pytest.raises(MotionkitError, match=word):
            read_epochs(folder)


NAMES = ("hips", "knee")
FPS = 30.0


def clip(frames: int = 61, rate: float = 0.02, speed: float = 1.5) -> MotionState:
    """The knee turns by `rate` radians a frame, the root goes ahead at `speed` m/s."""
    rotations = torch.eye(3, dtype=torch.float64).repeat(frames, 2, 1, 1)
    rotations[:, 1] = yaw_matrix(rate * torch.arange(frames, dtype=torch.float64))
    steps = torch.zeros(frames, 3, dtype=torch.float64)
    steps[:, 1] = speed / FPS
    return MotionState(
        rotations, steps, torch.full((frames,), 0.9, dtype=torch.float64), torch.zeros(frames, 2, dtype=torch.float64)
    )


def statistics(clips: list[MotionState]) -> Statistics:
    return Statistics.of(clips, FPS, (1, 2))


def test_the_layout_is_the_guides_and_the_numbers_are_the_clips() -> None:
    own = statistics([clip()])
    found = template_of([clip()], NAMES, FPS, own.turn_std)
    assert [len(found[key]) for key in ("MuX", "StdX", "MuY", "StdY")] == [24, 24, 12, 12]
    assert (len(found["tanh_scales_rootvel"]), len(found["tanh_scales_angvel"])) == (2, 6)
    assert found["bundle_version"] == 2
    assert found["MuX"][1] == pytest.approx(0.9), "height"
    assert found["MuX"][2] == pytest.approx(1.5 * 31 / 30), "the 31st of 61 frames, half-way along the path"
    quarter = 15 * 1.5 / FPS
    assert found["StdX"][2] == pytest.approx(2 * quarter / 1.349)
    assert found["StdX"][-6:] == [1.0] * 6
    assert found["MuY"] == [0.0] * 12
    assert found["StdY"] == own.turn_std.double().tolist()
    assert found["tanh_scales_angvel"] == [0.001] * 6, "an even turn has no spread"
    assert found["MuX"][-2] == pytest.approx(math.tanh(0.02 * FPS / 0.001))


def test_what_is_written_is_read_back_and_its_scale_of_turns_is_taken(tmp_path: Path) -> None:
    fast, slow = statistics([clip(rate=0.02)]), statistics([clip(rate=0.01)])
    write_template(tmp_path / "norm_template.json", [clip(rate=0.02)], NAMES, FPS, fast.turn_std)
    template = read_template(tmp_path / "norm_template.json")
    assert template.joints == 2
    taken, note = take_turn_scale(slow, template, 2)
    assert torch.allclose(taken.turn_std, fast.turn_std)
    assert torch.equal(taken.mean, slow.mean)
    assert "StdY, the scale of turns, is taken" in note


def test_another_skeleton_or_another_quantity_is_not_taken(tmp_path: Path) -> None:
    own = statistics([clip()])
    file = tmp_path / "t.json"
    file.write_text(json.dumps({"StdY": [0.3] * 276}) + " // the guide's")
    kept, note = take_turn_scale(own, read_template(file), 2)
    assert kept is own
    assert "46 joints and the clips 2: nothing is taken" in note
    file.write_text(json.dumps({"StdY": [3.0] * 12, "MuX": [0.0] * 24}))
    kept, note = take_turn_scale(own, read_template(file), 2)
    assert kept is own
    assert "the spread of poses" in note


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({}, "not a norm_template"),
        ({"StdY": []}, "not a norm_template"),
        ({"StdY": [1.0] * 7}, "not a norm_template"),
        ({"StdY": [0.0] * 6}, "not a norm_template"),
        ({"StdY": ["a"] * 6}, "damaged"),
        ({"StdY": [float("nan")] * 6}, "damaged"),
        ({"StdY": [1.0] * 6, "MuX": [0.0] * 16}, "does not fit itself"),
        ({"StdY": [1.0] * 6, "MuX": {"a": 1}}, "damaged"),
    ],
)
def test_damaged_templates_are_refused(tmp_path: Path, table: dict[str, Any], message: str) -> None:
    (tmp_path / "t.json").write_text(json.dumps(table))
    with pytest.raises(MotionkitError, match=message):
        read_template(tmp_path / "t.json")
