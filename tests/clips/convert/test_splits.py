"""A clip that several splits list is held out, and that is said."""

from __future__ import annotations

from pathlib import Path

from motionkit.clips.convert import convert, open_sources
from motionkit.clips.convert.feature_target import FeatureTarget

from ...made.bvh_files import write_bvh


def test_a_clip_of_several_splits_is_never_trained_on_and_warned_of(tmp_path: Path) -> None:
    for number in range(4):
        write_bvh(tmp_path / "in" / f"c{number}.bvh", 150) if number else (tmp_path / "in").mkdir()
    first = tmp_path / "first"
    convert(open_sources([tmp_path / "in"]).sources, first, FeatureTarget())
    (first / "train.txt").write_text("c1\nc2\nc3\n")
    (first / "val.txt").write_text("c2\n")
    (first / "test.txt").write_text("c3\nc3\nc2\n")
    sources = {source.key: source for source in open_sources([first]).sources}
    assert {key: source.splits for key, source in sources.items()} == {
        "c1": ("train",),
        "c2": ("train", "val", "test"),
        "c3": ("train", "test"),
    }
    report = convert(list(sources.values()), tmp_path / "second", FeatureTarget())
    assert report.splits == {"train": 1, "val": 0, "test": 2}
    said = "\n".join(report.warnings)
    assert "c2: its folder lists it in train, val, test; it counts as test." in said
    assert "c3: its folder lists it in train, test; it counts as test." in said
    assert "c1" not in said
