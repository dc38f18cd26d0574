"""Frames that are not finite, from the file to what is written of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from motionkit.clips.convert import FileTarget, convert, open_sources
from motionkit.clips.profile.document import profile_document
from motionkit.clips.profile.statistics import profile_sources
from motionkit.formats.bvh import read_bvh
from motionkit.motion import HUMANML, joints_to_features

from ...made.bodies import walker
from ...made.bvh_files import write_bvh
from ...made.mpl_files import exported, save, starter_motion

GAP = 10
"""The frame that is lost; 60 and more follow."""


def bvh(folder: Path) -> Path:
    path = write_bvh(folder / "gap.bvh", 80, fps=20)
    lines = path.read_text().splitlines()
    row = lines.index("MOTION") + 3 + GAP
    lines[row] = lines[row].replace(lines[row].split()[7], "nan", 1)
    path.write_text("\n".join(lines) + "\n")
    return path


def features(folder: Path) -> Path:
    rows = joints_to_features(walker(81), HUMANML).float()
    rows[GAP, 100] = float("nan")
    np.save(folder / "gap.npy", rows.numpy())
    return folder / "gap.npy"


def exported_json(folder: Path) -> Path:
    document = exported(starter_motion("walk/normal", 80, 20.0), np.zeros(80))
    document["Frames"][GAP]["RootVelocityXY"][0] = float("nan")
    return save(folder / "gap.json", document)


def run(*words: object):
    from motionkit.cli import get_app

    return CliRunner().invoke(get_app(), [str(word) for word in words])


@pytest.fixture(params=[bvh, features, exported_json])
def gap(request, tmp_path: Path) -> Path:
    make: Callable[[Path], Path] = request.param
    (tmp_path / "in").mkdir()
    return make(tmp_path / "in")


def test_check_names_the_frame(gap: Path):
    result = run("convert", gap, "--check", "--json")
    (clip,) = json.loads(result.stdout)["clips"]
    (finding,) = [finding for finding in clip["findings"] if finding["kind"] == "nan"]
    assert finding["frames"] == [[GAP, GAP + 1]]


@pytest.mark.parametrize("out", ["out.npz", "out"])
def test_without_fix_it_is_refused_with_the_frame(gap: Path, tmp_path: Path, out: str):
    result = run("convert", gap, tmp_path / out)
    assert result.exit_code != 0
    said = " ".join(result.stderr.split())
    assert f"in frame {GAP}" in said
    assert "--fix" in said


def test_fix_keeps_the_longest_clean_run(gap: Path, tmp_path: Path):
    report = convert(open_sources([gap]).sources, tmp_path / "out", FileTarget("bvh"), fix=True)
    assert report.written == ["gap"]
    (clip,) = read_bvh(tmp_path / "out/gap.bvh")
    assert clip.motion.frames == 80 - GAP - 1
    assert torch.isfinite(clip.motion.positions()).all()


def test_fixed_features_are_the_rows_after_the_gap(tmp_path: Path):
    path = features(tmp_path)
    result = run("convert", path, tmp_path / "out", "--fix")
    assert result.exit_code == 0, result.stderr
    np.testing.assert_array_equal(np.load(tmp_path / "out/new_joint_vecs/gap.npy"), np.load(path)[GAP + 1 :])


def test_a_profile_takes_nothing_from_the_lost_frame(gap: Path):
    document = profile_document(profile_sources(open_sources([gap]).sources))
    json.dumps(document, allow_nan=False)
    assert document["findings"]["nan"] == {"error": 1, "warning": 0}
