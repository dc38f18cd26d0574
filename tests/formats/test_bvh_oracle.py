"""Joint positions against an independent reader, pymotion."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pymotion.ops.skeleton
import pytest
from pymotion.io.bvh import BVH

from motionkit.formats.bvh import read_bvh, write_bvh
from motionkit.motion import ReadOptions

from ..made.bvh_files import Dialect, write_dialect
from ..made.bvh_files import write_bvh as write_walk

CENTIMETRES = ReadOptions(up="y", unit="cm")


def by_pymotion(path: Path) -> dict[str, np.ndarray]:
    """Places of every joint, in the file's unit; end sites are not among them."""
    bvh = BVH()
    bvh.load(str(path))
    turns, places, parents, *_ = bvh.get_data()
    joints, _ = pymotion.ops.skeleton.fk(turns, places[:, 0], places, parents)
    return dict(zip(map(str, bvh.data["names"]), joints.transpose(1, 0, 2), strict=True))


def worst(path: Path) -> float:
    """Largest distance in metres between our joints and pymotion's."""
    (clip,) = read_bvh(path, CENTIMETRES)
    ours = clip.motion.positions().numpy()
    theirs = by_pymotion(path)
    assert set(theirs) == {name for name in clip.motion.names if not name.endswith(" End")}
    gaps = [ours[:, clip.motion.names.index(name)] - 0.01 * joint for name, joint in theirs.items()]
    return float(np.linalg.norm(gaps, axis=-1).max())


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"orders": ("ZXY",)},
        {"orders": ("XYZ", "YXZ", "ZYX", "XZY", "YZX")},
        {"up": "z", "fps": 120.0},
        {"moving": True, "fingers": 20, "orders": ("YXZ", "ZXY")},
        {"rest": True, "fps": 30.0},
    ],
    ids=["plain", "zxy", "mixed", "z-up", "moving", "rest"],
)
def test_hand_made_files(tmp_path, change):
    assert worst(write_dialect(tmp_path / "a.bvh", replace(Dialect(), **change), 0.3)) < 1e-7


def test_walks(tmp_path):
    assert worst(write_walk(tmp_path / "a.bvh", 40)) < 1e-7


@pytest.mark.parametrize("order", ["ZYX", "YXZ", None])
def test_what_is_written_is_read_alike(tmp_path, order):
    (clip,) = read_bvh(write_dialect(tmp_path / "a.bvh", Dialect(fingers=3, moving=True, up="z"), 0.3))
    write_bvh(tmp_path / "b.bvh", clip.motion, order=order)
    ours, theirs = clip.motion.positions().numpy(), by_pymotion(tmp_path / "b.bvh")
    for name, joint in theirs.items():
        np.testing.assert_allclose(0.01 * joint, ours[:, clip.motion.names.index(name)], atol=1e-5, err_msg=name)


@pytest.mark.parametrize("clip", ["ac_salsa_25", "cc_01_01_s0", "cs_walking_extra_test_10"])
def test_captured_clips_of_three_rigs(shared, clip):
    assert worst(shared / f"data/cmu/bvh/{clip}.bvh") < 1e-7


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_all_captured_clips(shared, tmp_path):
    """Every clip imports as a person in centimetres, agrees with pymotion, and survives being written."""
    paths = sorted((shared / "data/cmu/bvh").glob("*.bvh"))
    assert len(paths) == 228
    for path in paths:
        assert worst(path) < 1e-7, path.name
        (clip,) = read_bvh(path)
        assert (clip.notes["unit"], clip.notes["up"], clip.notes["fps"]) == ("centimetres", "y", "60"), path.name
        assert not clip.warnings, path.name
        write_bvh(tmp_path / "again.bvh", clip.motion)
        (again,) = read_bvh(tmp_path / "again.bvh")
        assert again.motion.names == clip.motion.names
        moved = (again.motion.positions() - clip.motion.positions()).norm(dim=-1).max()
        assert float(moved) < 1e-6, path.name
