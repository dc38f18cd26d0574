"""The guide's files of figures."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from motionkit.errors import MotionkitError
from motionkit.predictor.guide_figures import curve_file, cut_back, read_epochs, write_epoch


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
    with pytest.raises(MotionkitError, match="teacher_ep002"):
        read_epochs(tmp_path)
    with pytest.raises(MotionkitError, match=r"no teacher_epXXX\.json"):
        read_epochs(tmp_path / "nothing")
