from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from motionkit.errors import MotionkitError
from motionkit.motion import HUMANML, Motion, ReadOptions, joints_to_features, map_body
from motionkit.motion import read_bvh as read_clips

from ..bvh_files import ODD, ROWS, write_odd

METRES = ReadOptions(up="y", unit="m")


def read_bvh(path: Path, options: ReadOptions = METRES) -> Motion:
    (clip,) = read_clips(path, options)
    return clip.motion


def turn(axis: str, degrees: float) -> np.ndarray:
    c, s = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    return np.array(
        {
            "X": [[1, 0, 0], [0, c, -s], [0, s, c]],
            "Y": [[c, 0, s], [0, 1, 0], [-s, 0, c]],
            "Z": [[c, -s, 0], [s, c, 0], [0, 0, 1]],
        }[axis]
    )


def by_hand(row: list[float]) -> dict[str, np.ndarray]:
    """Positions by transforms written out joint by joint."""
    hips = np.array([row[1], row[3], row[5]])
    r_hips = turn("Z", row[0]) @ turn("Y", row[2]) @ turn("X", row[4])
    spine = hips + r_hips @ [0.0, 10.0, 1.0]
    r_spine = r_hips @ turn("Y", row[6]) @ turn("X", row[7]) @ turn("Z", row[8])
    hinge = spine + r_spine @ [2.0, 5.0, -1.0]
    r_hinge = r_spine @ turn("X", row[9])
    slider = hinge + r_hinge @ row[10:13]
    r_slider = r_hinge @ turn("X", row[13]) @ turn("Z", row[14]) @ turn("Y", row[15])
    fixed = spine + r_spine @ [-1.0, -2.0, 0.0]
    return {
        "My Hips": hips, "Spine": spine, "Hinge": hinge, "Slider": slider, "Fixed": fixed,
        "Slider End": slider + r_slider @ [0.0, 3.0, 4.0], "Fixed End": fixed + r_spine @ [0.0, -1.0, 0.0],
    }  # fmt: skip


@pytest.mark.parametrize(("old", "new"), [("\n", "\n"), ("\n", "\r\n"), ("  ", "\t")], ids=["plain", "windows", "tabs"])
def test_positions_equal_hand_made_kinematics(tmp_path, old, new):
    path = write_odd(tmp_path / "odd.bvh")
    path.write_text(path.read_text().replace(old, new), newline="")
    clip = read_bvh(path)
    assert clip.fps == 120.0
    positions = clip.positions()
    assert positions.shape == (3, 7, 3)
    for frame, row in enumerate(ROWS):
        for name, place in by_hand(row).items():
            np.testing.assert_allclose(positions[frame, clip.names.index(name)], place, atol=1e-12, err_msg=name)


def test_resampling_takes_frames_where_there_are_some(tmp_path):
    rows = [[float(k + c) for c in range(16)] for k in range(61)]
    clip = read_bvh(
        write_odd(tmp_path / "a.bvh", ODD.replace("Frames: 3", "Frames: 61").replace("0.0083333", "0.0166667"), rows)
    )
    assert clip.fps == 60.0
    slow = clip.resample(20.0)
    assert (slow.fps, len(slow.rotations)) == (20.0, 21)
    torch.testing.assert_close(slow.rotations, clip.rotations[::3])
    assert torch.equal(slow.translations, clip.translations[::3])


def test_resampling_between_frames_turns_along_the_arc(tmp_path):
    head = ODD.replace("Frames: 3", "Frames: 2").replace("0.0083333", "0.1")
    rows = [[0.0] * 16, [0.0] * 16]
    rows[0][9], rows[1][9] = 170.0, -170.0
    clip = read_bvh(write_odd(tmp_path / "a.bvh", head, rows)).resample(40.0)
    hinge = clip.names.index("Hinge")
    for frame, degrees in enumerate([170, 175, 180, 185, 190]):
        np.testing.assert_allclose(clip.rotations[frame, hinge], turn("X", degrees), atol=1e-9)


def test_a_missing_file(tmp_path):
    with pytest.raises(MotionkitError, match="cannot be read"):
        read_bvh(tmp_path / "none.bvh")


def test_clips_of_three_rigs_become_people(shared: Path):
    """Upright, feet on the floor, facing +Z, with a plausible trunk, whatever the rig calls its joints."""
    folder = shared / "data/cmu/bvh"
    for name in ("ac_salsa_25", "cc_01_01_s0", "cs_walking_extra_test_10"):
        clip = read_bvh(folder / f"{name}.bvh", ReadOptions()).resample(20.0)
        positions = clip.positions()
        body = map_body(clip.names, clip.parents, positions)
        assert body.unit_name == "metres"
        joints = body.apply(positions)
        assert 0.45 < float((joints[0, 15] - joints[0, 0]).norm()) < 0.85, "pelvis to head in metres"
        features = joints_to_features(joints, HUMANML)
        assert torch.isfinite(features).all()
        assert 0.75 < float(features[:, 3].mean()) < 1.0, "height of the pelvis"
