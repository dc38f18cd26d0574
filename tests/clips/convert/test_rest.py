"""A rest pose that is held before the motion never gets into data to learn from."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from motionkit.clips.convert import FileTarget, convert, open_sources
from motionkit.clips.convert.feature_target import FeatureTarget
from motionkit.formats.bvh import read_bvh

from ...made.bvh_files import write_bvh


def test_a_held_rest_pose_is_left_out_of_datasets_only(tmp_path: Path):
    write_bvh(tmp_path / "plain.bvh", 150, rest=True)
    text = write_bvh(tmp_path / "held.bvh", 150, rest=True).read_text()
    lines = text.replace("Frames: 150", "Frames: 154").splitlines()
    first = next(place for place, line in enumerate(lines) if line.startswith("Frame Time")) + 1
    (tmp_path / "held.bvh").write_text("\n".join([*lines[:first], *[lines[first]] * 4, *lines[first:]]) + "\n")
    report = convert(open_sources([tmp_path / "held.bvh"]).sources, tmp_path / "out", FeatureTarget())
    assert report.warnings == ["held: its first 5 frames are a rest pose and were left out."]
    convert(open_sources([tmp_path / "plain.bvh"]).sources, tmp_path / "plain", FeatureTarget())
    held, plain = (np.load(tmp_path / f"{path}.npy") for path in ("out/new_joints/held", "plain/new_joints/plain"))
    np.testing.assert_allclose(held, plain, atol=1e-5)
    kept = convert(open_sources([tmp_path / "held.bvh"]).sources, tmp_path / "bvh", FileTarget("bvh"))
    assert kept.written == ["held"]
    assert read_bvh(tmp_path / "bvh/held.bvh")[0].motion.frames == 154
