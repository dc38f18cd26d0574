"""Keys of GLB files that are curves and keys that are frames: which rate is taken, and what lies between keys."""

from __future__ import annotations

import base64
import math
from pathlib import Path

import numpy as np
import pytest
import roma
import torch

from motionkit.errors import MotionkitError
from motionkit.formats.bvh import read_bvh
from motionkit.formats.glb import read_glb, write_glb
from motionkit.formats.glb.keys import _CURVE_RATES, _SLOWEST, _USUAL_RATES
from motionkit.motion import Motion, ReadOptions

from ..made.glb_files import keyed
from ..player.test_browser_code import node
from ..player.test_files import OPEN

METRES = ReadOptions(up="y", unit="m")
QUARTER = [0.0, 0.0, math.sin(math.pi / 4), math.cos(math.pi / 4)]  # 90 degrees about Z, x, y, z, w
IDENTITY = [0.0, 0.0, 0.0, 1.0]


def read(path: Path) -> Motion:
    (clip,) = read_glb(path, METRES)
    assert isinstance(clip.motion, Motion)
    return clip.motion


def degrees(motion: Motion) -> np.ndarray:
    """The turn of the first joint about Z in every frame."""
    return roma.rotmat_to_rotvec(motion.rotations[:, 0])[:, 2].rad2deg().numpy()


def spline(first: list[float], second: list[float], leaving: list[float], arriving: list[float]) -> list[list[float]]:
    """Two keys with tangents, as glTF lays them out: arriving tangent, value, leaving tangent."""
    nothing = [0.0] * len(first)
    return [nothing, first, leaving, arriving, second, nothing]


def hermite(t: np.ndarray, span: float, first, second, leaving, arriving) -> np.ndarray:
    """glTF 2.0, appendix C: the value at t of 0 to 1, tangents in units per second."""
    t = t[:, None]
    return (
        (2 * t**3 - 3 * t**2 + 1) * np.array(first)
        + (t**3 - 2 * t**2 + t) * span * np.array(leaving)
        + (-2 * t**3 + 3 * t**2) * np.array(second)
        + (t**3 - t**2) * span * np.array(arriving)
    )


def test_a_spline_of_two_keys_is_sampled_as_gltf_says(tmp_path):
    """Two keys at 0 and 2 s, 90 degrees, tangents of 0.5: 24.2 degrees at a quarter, where a straight line has 22.5."""
    tangent = [0.0, 0.0, 0.5, 0.0]
    keys = spline(IDENTITY, QUARTER, tangent, tangent)
    motion = read(keyed(tmp_path / "a.glb", [("rotation", "CUBICSPLINE", [0, 2], keys)]))
    assert (motion.fps, motion.frames) == (24, 49)
    t = np.linspace(0, 1, 49)
    xyzw = hermite(t, 2.0, IDENTITY, QUARTER, tangent, tangent)
    expected = np.rad2deg(2 * np.arctan2(xyzw[:, 2], xyzw[:, 3]))
    np.testing.assert_allclose(degrees(motion), expected, atol=1e-4)
    assert degrees(motion)[12] == pytest.approx(24.2, abs=0.05)


def test_a_spline_moves_a_joint_with_its_tangents(tmp_path):
    """From 0 to 1 m in 1 s, out at 2 m/s, in at rest."""
    ends = ([0.0, 0, 0], [1.0, 0, 0], [2.0, 0, 0], [0.0, 0, 0])
    motion = read(keyed(tmp_path / "a.glb", [("translation", "CUBICSPLINE", [0, 1], spline(*ends))]))
    assert (motion.fps, motion.frames) == (24, 25)
    np.testing.assert_allclose(motion.translations[:, 0], hermite(np.linspace(0, 1, 25), 1.0, *ends), atol=1e-6)


def test_steps_hold_until_the_next_key(tmp_path):
    keys = [[0.0, 0, 0], [1, 0, 0], [2, 0, 0]]
    motion = read(keyed(tmp_path / "a.glb", [("translation", "STEP", [0, 0.1, 0.2], keys)]))
    assert (motion.fps, motion.frames) == (30, 7)  # 24 and 25 miss the key at 0.1 s
    assert motion.translations[:, 0, 0].tolist() == [0, 0, 0, 1, 1, 1, 2]


def test_few_linear_keys_are_a_line_between_two_poses(tmp_path):
    motion = read(keyed(tmp_path / "a.glb", [("rotation", "LINEAR", [0, 2], [IDENTITY, QUARTER])]))
    assert (motion.fps, motion.frames) == (24, 49)  # two seconds, not the four of two frames at 0.5 a second
    np.testing.assert_allclose(degrees(motion), np.linspace(0, 90, 49), atol=1e-4)


LINE = [[float(number), 0, 0] for number in range(200)]


def even(rate: float, count: int) -> tuple[list[float], list[list[float]]]:
    return [number / rate for number in range(count)], LINE[:count]


RATES = {
    "ten a second are frames": ([("LINEAR", *even(10, 30))], 10, 30),
    "so are 29.97": ([("LINEAR", *even(29.97, 90))], 29.97, 90),
    "and 120": ([("LINEAR", *even(120, 90))], 120, 90),
    "two frames": ([("LINEAR", *even(30, 2))], 30, 2),
    "five a second are not": ([("LINEAR", *even(5, 11))], 25, 51),
    "gaps on a grid of 48": ([("LINEAR", [0, 1 / 48, 5 / 48, 1], LINE[:4])], 48, 49),
    "dense keys decide beside a curve": ([("LINEAR", *even(20, 41)), ("STEP", [0, 0.333, 2], LINE[:3])], 20, 41),
    "a step that never changes is no curve": ([("LINEAR", *even(12.5, 26)), ("STEP", [0, 2], [LINE[5]] * 2)], 12.5, 26),
    "a line that never moves is no line": (
        [("STEP", [0, 0.1], LINE[:2]), ("LINEAR", [k / 50 for k in range(6)], [LINE[0]] * 6)], 30, 4
    ),
    "every key of every channel": ([("STEP", [0, 1], LINE[:2]), ("STEP", [0, 1 / 25, 1], LINE[:3])], 25, 26),
    "the lowest": ([("STEP", [0, 0.5, 1], LINE[:3])], 24, 25),
    "sixty": ([("STEP", [0, 1 / 60, 1], LINE[:3])], 60, 61),
    "no rate holds it": ([("STEP", [0, 0.137, 1], LINE[:3])], 30, 31),
    "even steps keep their own": ([("STEP", *even(120, 20))], 120, 20),
    "one pose": ([("STEP", [0], LINE[:1])], 30, 1),
    "from a second on": ([("STEP", [1, 1.5, 3], LINE[:3])], 24, 49),
}  # fmt: skip


@pytest.mark.parametrize("what", RATES)
def test_the_rate_of_keys(tmp_path, what):
    tracks, fps, frames = RATES[what]
    paths = ("translation", "scale")
    shift = {"translation": 0.0, "scale": 1.0}
    given = [
        (path, kind, times, (np.array(keys) + shift[path]).tolist())
        for path, (kind, times, keys) in zip(paths, tracks, strict=False)
    ]
    path = keyed(tmp_path / "a.glb", given)
    motion = read(path)
    assert motion.fps == pytest.approx(fps, rel=1e-4)
    assert motion.frames == frames
    dropped = node(
        f"{OPEN} const f = readGlb(bytes(given)); answer([f.fps, f.frames, [...f.positions]]);",
        base64.b64encode(path.read_bytes()).decode(),
    )
    assert dropped[0] == pytest.approx(fps, rel=1e-4), "the page reads it as motionkit does"
    assert dropped[1] == frames
    there = np.array(dropped[2]).reshape(frames, 2, 3)
    np.testing.assert_allclose(there[:, 0], motion.positions()[:, 0], atol=1e-4)


def test_the_page_knows_the_same_rates():
    assert node("answer([SLOWEST, RATES, GAPS]);", None) == [_SLOWEST, list(_CURVE_RATES), list(_USUAL_RATES)]


def test_two_keys_years_apart_do_not_fill_the_memory(tmp_path):
    keyed(tmp_path / "a.glb", [("translation", "LINEAR", [0, 1e7], LINE[:2])])
    with pytest.raises(MotionkitError, match="2 keys"):
        read(tmp_path / "a.glb")
    minutes = read(keyed(tmp_path / "b.glb", [("translation", "LINEAR", [0, 600], LINE[:2])]))
    assert minutes.frames == 600 * 24 + 1


def test_a_stated_rate_is_taken(tmp_path):
    keys = spline([0.0, 0, 0], [1.0, 0, 0], [0.0, 0, 0], [0.0, 0, 0])
    motion = read(keyed(tmp_path / "a.glb", [("translation", "CUBICSPLINE", [0, 1], keys)], extras={"fps": 8}))
    assert (motion.fps, motion.frames) == (8, 9)


def test_what_is_written_keeps_its_frames(tmp_path):
    for fps in (4.0, 12.5, 30.0):
        eye = torch.eye(3, dtype=torch.float64).expand(9, 2, 3, 3)
        offsets = torch.tensor([[0.0, 1, 0], [0, 1, 0]], dtype=torch.float64)
        places = offsets.repeat(9, 1, 1)
        places[:, 0, 0] = torch.arange(9)
        write_glb(tmp_path / "a.glb", Motion(("Hips", "Spine"), (-1, 0), offsets, eye, places, fps))
        motion = read(tmp_path / "a.glb")
        assert (motion.fps, motion.frames) == (fps, 9)


def test_a_curve_reaches_a_bvh_file(tmp_path, cli):
    keyed(Path("a.glb"), [("rotation", "CUBICSPLINE", [0, 2], spline(IDENTITY, QUARTER, IDENTITY[::-1], [0.0] * 4))])
    result = cli("convert", "a.glb", "a.bvh", "--units", "m")
    assert result.exit_code == 0, result.output
    (clip,) = read_bvh(Path("a.bvh"), ReadOptions(up="y", unit="cm"))
    assert (clip.motion.frames, clip.motion.fps) == (49, 24)
