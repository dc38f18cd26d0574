"""Clips of several skeletons are not mixed in a dataset for the motion predictor."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from motionkit.clips.convert import FileTarget, convert, open_sources
from motionkit.clips.convert import run as to_folder

from ...made.bvh_files import NAMES, Dialect, write_dialect


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    folder = tmp_path / "in"
    for name in "abc":
        write_dialect(folder / f"{name}.bvh", Dialect(), 0.3)
    write_dialect(folder / "hands.bvh", Dialect(fingers=4), 0.3)
    write_dialect(folder / "other.bvh", Dialect(names=("Pelvis", *NAMES[1:])), 0.3)
    return folder


def found(out: Path) -> list[str]:
    return sorted(path.relative_to(out).as_posix() for path in out.rglob("*.npz"))


SEPARATE = [
    "22-joints-2/other.npz", "22-joints/a.npz", "22-joints/b.npz", "22-joints/c.npz", "26-joints/hands.npz",
]  # fmt: skip


def test_each_skeleton_has_its_folder(mixed, tmp_path):
    out = tmp_path / "out"
    report = convert(open_sources([mixed]).sources, out, FileTarget("mpl"))
    assert found(out) == SEPARATE
    (note,) = report.warnings
    assert "3 skeletons" in note
    assert "22-joints (3 clips)" in note
    assert f"such as {out / '22-joints'}" in note
    assert set(json.loads((out / "convert.json").read_text())["files"]) == {*SEPARATE, "convert.json"}
    assert {source.key for source in open_sources([out / "22-joints"]).sources} == set("abc")


def test_one_skeleton_and_other_formats_stay_in_one_folder(mixed, tmp_path):
    convert(open_sources([mixed / f"{name}.bvh" for name in "abc"]).sources, tmp_path / "one", FileTarget("mpl"))
    assert found(tmp_path / "one") == ["a.npz", "b.npz", "c.npz"]
    convert(open_sources([mixed]).sources, tmp_path / "npz", FileTarget("npz"))
    assert len(found(tmp_path / "npz")) == len(list((tmp_path / "npz").glob("*.npz"))) == 5


def test_a_kill_while_files_are_moved_is_made_good(mixed, tmp_path, monkeypatch):
    def killed(*given):
        separate(*given)
        raise KeyboardInterrupt

    separate = to_folder.separate
    out = tmp_path / "out"
    monkeypatch.setattr(to_folder, "separate", killed)
    with pytest.raises(KeyboardInterrupt):
        convert(open_sources([mixed]).sources, out, FileTarget("mpl"))
    monkeypatch.setattr(to_folder, "separate", separate)
    convert(open_sources([mixed]).sources, out, FileTarget("mpl"))
    assert found(out) == SEPARATE
    convert(open_sources([mixed / "a.bvh"]).sources, out, FileTarget("mpl"), overwrite=True)
    assert found(out) == ["a.npz"]
