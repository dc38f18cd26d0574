from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from motionkit.errors import MotionkitError
from motionkit.formats.bvh import read_bvh as read_clips
from motionkit.motion import HUMANML, Motion, ReadOptions, joints_to_features
from motionkit.rigs.bodymap import map_body

from ..made.bvh_files import ODD, ROWS, write_odd

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
    assert torch.equal(slow.rotations, clip.rotations[::3])
    assert torch.equal(slow.translations, clip.translations[::3])


def test_resampling_between_frames_turns_along_the_arc(tmp_path):
    head = ODD.replace("Frames: 3", "Frames: 2").replace("0.0083333", "0.1")
    rows = [[0.0] * 16, [0.0] * 16]
    rows[0][9], rows[1][9] = 170.0, -170.0
    clip = read_bvh(write_odd(tmp_path / "a.bvh", head, rows)).resample(40.0)
    hinge = clip.names.index("Hinge")
    for frame, degrees in enumerate([170, 175, 180, 185, 190]):
        np.testing.assert_allclose(clip.rotations[frame, hinge], turn("X", degrees), atol=1e-9)


LINES = "HIERARCHY\nROOT Hips{\nCHANNELS 3 Xrotation Yrotation Zrotation\n%s}\nMOTION\nFrames: 1\nFrame Time: 1\n"


def names(tmp_path: Path, joints: str, row: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    path = tmp_path / "names.bvh"
    path.write_text(LINES % joints + row + "\n")
    (clip,) = read_clips(path, METRES)
    return clip.motion.names, clip.warnings


def test_several_end_sites_and_their_names(tmp_path):
    end = "End Site\n{\nOFFSET 0 1 0\n}\n"
    assert names(tmp_path, end + end + end.replace("Site", "Site Tip") + end.replace("Site", "site"), "0 0 0") == (
        ("Hips", "Hips End", "Hips 2 End", "Tip End", "Hips 3 End"),
        (),
    )


def test_doubles_are_told_apart_with_a_warning(tmp_path):
    joint = "JOINT Arm\n{\nOFFSET 0 1 0\nEnd Site\n{\nOFFSET 0 1 0\n}\n}\n"
    found, warnings = names(tmp_path, joint + joint + joint.replace("Arm", "Arm 2"), "0 0 0")
    assert found == ("Hips", "Arm", "Arm End", "Arm 3", "Arm 3 End", "Arm 2", "Arm 2 End")
    assert warnings == ("joints that share a name are numbered here: 'Arm' (2).",)


def test_joints_without_a_name(tmp_path):
    joint = "JOINT\n{\nOFFSET 0 1 0\n}\n"
    found, warnings = names(tmp_path, joint, "0 0 0")
    assert found == ("Hips", "joint 1")
    assert warnings == ("joint 1 has no name; it is called 'joint 1'.",)


def test_other_ways_to_write_the_same(tmp_path):
    (plain,) = read_clips(write_odd(tmp_path / "a.bvh"), METRES)
    text = (tmp_path / "a.bvh").read_text()
    keywords = (
        "HIERARCHY",
        "ROOT",
        "JOINT",
        "OFFSET",
        "CHANNELS",
        "MOTION",
        "Frames:",
        "Frame Time:",
        "rotation",
        "position",
    )
    lower = text
    for word in keywords:
        lower = lower.replace(word, word.lower())
    head, rows = text.split("Frame Time: 0.0083333\n")
    changed = {
        "lower case": lower,
        "upper case": text.replace("rotation", "ROTATION").replace("End Site", "END SITE").replace("Frames", "FRAMES"),
        "one line per frame in two": f"{head}Frame Time: 0.0083333\n" + rows.replace(" 5 15", "\n5 15"),
        "all frames in one line": f"{head}Frame Time: 0.0083333\n" + rows.replace("\n", " "),
        "blank lines": text.replace("\n", "\n\n"),
        "blanks at the ends": text.replace("\n", " \t\n"),
        "no blank after the colon": text.replace(": ", ":"),
        "a blank before the colon": text.replace(":", " :"),
        "braces beside names": text.replace("\n{", " {").replace("Spine\n  {", "Spine{"),
        "exponents": text.replace(" 20 2 30 ", " 2e1 2.0E+00 +30. "),
    }
    for name, change in changed.items():
        assert change != text, name
        (tmp_path / "b.bvh").write_text(change)
        (clip,) = read_clips(tmp_path / "b.bvh", METRES)
        assert (clip.motion.names, clip.motion.fps) == (plain.motion.names, 120.0), name
        assert torch.equal(clip.motion.rotations, plain.motion.rotations), name
        assert torch.equal(clip.motion.translations, plain.motion.translations), name
    encodings = {"utf-8-sig": text, "utf-16": text, "latin-1": text.replace("Spine", "Espi\u00f1a")}
    for encoding, written in encodings.items():
        (tmp_path / "b.bvh").write_bytes(written.encode(encoding))
        (clip,) = read_clips(tmp_path / "b.bvh", METRES)
        assert torch.equal(clip.motion.rotations, plain.motion.rotations), encoding
    (tmp_path / "b.bvh").write_bytes(text.replace("\n", "\r").encode())
    assert torch.equal(read_clips(tmp_path / "b.bvh", METRES)[0].motion.rotations, plain.motion.rotations)


@pytest.mark.parametrize(
    ("written", "rate"),
    [
        ("0.0333333", 30), ("0.033333", 30), ("0.03333", 30), ("0.033", 30), ("0.0333330", 30), ("0.0166667", 60),
        ("0.0330000", 30), ("0.033330", 30), ("0.008330", 120), ("0.0080000", 125), ("0.0170000", 60),
        ("0.0330000000", 30.30303), ("0.0160000000", 62.5), ("0.0400000", 25), ("0.0800000", 12.5), ("3.30000e-2", 30),
        ("0.016667", 60), ("0.0167", 60), ("0.0166", 60), ("0.017", 60), ("0.0083333", 120), ("0.00833", 120),
        ("0.0083", 120), ("0.00833333358168602", 120), ("8.3333e-3", 120), ("0.01", 100), ("0.02", 50), ("0.04", 25),
        ("0.0417", 24), ("0.041667", 24), ("0.05", 20), ("0.1", 10), ("1", 1), ("0.0333667", 30000 / 1001),
        ("0.03336667", 30000 / 1001), ("0.0417083", 24000 / 1001), ("0.0068493", 146), ("2.5", 0.4),
    ],
)  # fmt: skip
def test_frame_rates_lose_their_rounding(tmp_path, written, rate):
    head = ODD.replace("0.0083333", written)
    assert read_bvh(write_odd(tmp_path / "a.bvh", head)).fps == pytest.approx(rate, rel=2e-6)


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
