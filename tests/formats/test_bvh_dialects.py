"""One motion as many programs would write it: what comes out is the same every time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from motionkit.clips.faults import frames_at_rest
from motionkit.formats.bvh import read_bvh
from motionkit.motion import HUMANML, ReadOptions
from motionkit.rigs.bodymap import map_body
from motionkit.rigs.rest import UNITS

from ..made.bvh_files import NAMES, Dialect, person_joints, write_dialect
from ..rigs.rig_names import RIGS

PLAIN = Dialect()
LIMBS = [joint for joint, name in enumerate(HUMANML.joint_names) if "_" in name and "collar" not in name]
ORDERS = ("XYZ", "XZY", "YXZ", "YZX", "ZXY", "ZYX")

TRAPS = {
    "plain": PLAIN,
    **{order: replace(PLAIN, orders=(order,)) for order in ORDERS},
    "orders mixed": replace(PLAIN, orders=("ZXY", "XYZ", "YXZ", "ZYX", "YZX")),
    **{unit: replace(PLAIN, metres=UNITS[unit].metres) for unit in UNITS},
    **{f"{fps} fps": replace(PLAIN, fps=fps) for fps in (20, 24, 25, 30, 50, 100, 120)},
    "Z up": replace(PLAIN, up="z"),
    "Z up, metres": replace(PLAIN, up="z", metres=1.0),
    "27 joints": replace(PLAIN, fingers=5),
    "60 joints": replace(PLAIN, fingers=38),
    "70 joints, all moving": replace(PLAIN, fingers=48, moving=True),
    "T-pose first": replace(PLAIN, rest=True),
    "rotations first": replace(PLAIN, turns_first=True, orders=("YXZ",)),
    "Character1_": replace(PLAIN, names=tuple(RIGS["character1"][0]), orders=("XYZ",), metres=0.1, fps=120),
    "ASF": replace(PLAIN, names=tuple(RIGS["cmu-asf"][0]), metres=UNITS["asf"].metres, fps=120, orders=("ZYX",)),
    "everything": Dialect(("YXZ", "ZXY"), 0.1, 100, "z", tuple(RIGS["daz"][0]), 20, True, False, True),
}


@pytest.mark.parametrize("trap", TRAPS)
def test_every_dialect_gives_the_same_person(tmp_path, trap):
    dialect = TRAPS[trap]
    (clip,) = read_bvh(write_dialect(tmp_path / "a.bvh", dialect))
    motion = clip.motion
    assert (motion.fps, clip.notes["up"]) == (dialect.fps, dialect.up)
    assert {unit.words: unit.metres for unit in UNITS.values()}[clip.notes["unit"]] == dialect.metres
    assert clip.notes["joints"] == str(22 + dialect.fingers)
    assert clip.warnings == ()
    positions = motion.positions()
    assert frames_at_rest(positions) == int(dialect.rest)
    body = map_body(motion.names, motion.parents, positions[1:])
    truth = person_joints(np.arange(motion.frames) / dialect.fps)
    first = int(dialect.rest)
    np.testing.assert_allclose(
        positions[first:, [motion.names.index(name) for name in dialect.names]], truth[first:], atol=1e-6
    )
    np.testing.assert_allclose((body.weights @ positions)[first:, LIMBS], truth[first:, LIMBS], atol=1e-6)


@pytest.mark.parametrize("fps", [24, 25, 30, 50, 60, 100, 120])
def test_resampling_follows_the_motion(tmp_path, fps):
    """Whole steps are frames as they are; in between, the arc is within some millimetres of the smooth motion."""
    (clip,) = read_bvh(write_dialect(tmp_path / "a.bvh", replace(PLAIN, fps=fps)))
    slow = clip.motion.resample(20.0)
    assert slow.frames == 21
    truth = person_joints(np.arange(21) / 20.0)
    limit = 1e-6 if fps % 20 == 0 else 4e-3
    joints = slow.positions()[:, [slow.names.index(name) for name in NAMES]]
    assert float((joints - torch.from_numpy(truth)).norm(dim=-1).max()) < limit


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    orders=st.lists(st.sampled_from(ORDERS), min_size=1, max_size=4),
    unit=st.sampled_from(sorted(UNITS)),
    fps=st.sampled_from([20, 30, 48, 60, 90, 120]),
    up=st.sampled_from("yz"),
    fingers=st.integers(0, 6),
    moving=st.booleans(),
    turns_first=st.booleans(),
)
def test_any_mixture_gives_the_same_person(tmp_path, orders, unit, fps, up, fingers, moving, turns_first):
    dialect = Dialect(
        tuple(orders), UNITS[unit].metres, fps, up, fingers=fingers, moving=moving, turns_first=turns_first
    )
    (clip,) = read_bvh(write_dialect(tmp_path / "a.bvh", dialect, 0.2))
    truth = person_joints(np.arange(clip.motion.frames) / fps)
    joints = clip.motion.positions()[:, [clip.motion.names.index(name) for name in NAMES]]
    np.testing.assert_allclose(joints, truth, atol=1e-6)


def test_what_the_user_says_is_not_questioned(tmp_path):
    path = write_dialect(tmp_path / "a.bvh", replace(PLAIN, up="z"))
    (clip,) = read_bvh(path, ReadOptions(up="y", unit="m"))
    assert clip.warnings == ()
    assert (clip.notes["unit"], clip.notes["up"]) == ("metres", "y")
    right, said = read_bvh(path)[0].motion.positions(), clip.motion.positions()
    torch.testing.assert_close(said[..., [0, 2, 1]] * said.new_tensor([1.0, 1.0, -1.0]), right * 100.0)
