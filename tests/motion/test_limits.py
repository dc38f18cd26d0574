"""What a motion may be: rates and sizes, looked at before memory is taken."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import pytest
import torch

from motionkit.errors import MotionkitError
from motionkit.formats.table import FORMATS, recognise
from motionkit.motion import HUMANML, JointMotion, ReadOptions
from motionkit.motion import motion as limits

from ..made.blender import stand_in
from ..made.bodies import walker
from ..made.bvh_files import write_bvh
from ..made.samples import write_sample


def joints(frames: int = 30, fps: float = 20.0) -> JointMotion:
    return JointMotion(HUMANML.joint_names, HUMANML.parents, walker(frames), fps)


@pytest.mark.parametrize("fps", [0.0, -1.0, 1e-9, 0.0999, 1e5, 1e12, float("inf"), float("nan")])
def test_rates_that_no_motion_has(fps):
    with pytest.raises(MotionkitError, match="frames per second"):
        joints(fps=fps)
    with pytest.raises(MotionkitError, match="frames per second"):
        joints().resample(fps)
    solid = limits.Motion(
        ("root",), (-1,), torch.zeros(1, 3), torch.eye(3).expand(9, 1, 3, 3), torch.zeros(9, 1, 3), 20.0
    )
    with pytest.raises(MotionkitError, match="frames per second"):
        replace(solid, fps=fps)
    with pytest.raises(MotionkitError, match="frames per second"):
        solid.resample(fps)


def test_a_motion_is_not_resampled_to_more_than_fits():
    slow = replace(joints(2000), fps=0.1)
    with pytest.raises(MotionkitError, match="GB once read") as caught:
        slow.resample(10_000.0)
    assert "cut the motion" in caught.value.fix


@pytest.mark.parametrize("name", FORMATS)
def test_every_reader_refuses_a_motion_that_would_fill_the_memory(tmp_path, monkeypatch, name):
    if name == "fbx":
        monkeypatch.setenv("MOTIONKIT_BLENDER", str(stand_in(tmp_path / "bin")))
        monkeypatch.setenv("MOTIONKIT_CACHE", str(tmp_path / "cache"))
    path = write_sample(tmp_path, name)
    form = recognise(path)
    assert form is not None
    assert form.name == name
    read = form.read(path, ReadOptions(fps=60.0))
    assert read[0].motion.frames == 400
    monkeypatch.setattr(limits, "LARGEST", 100 * 22)
    with pytest.raises(MotionkitError, match="GB once read"):
        form.read(path, ReadOptions(fps=60.0))


def test_a_bvh_file_with_a_stray_word_takes_little_memory(tmp_path):
    """It is read word by word then, to say where; a list of words took 28 times the file."""
    path = write_bvh(tmp_path / "a.bvh", 3000)
    path.write_text(path.read_text().rstrip() + " 0\n")
    tracemalloc.start()
    with pytest.raises(MotionkitError, match="found 207001"):
        FORMATS["bvh"].read(path, ReadOptions())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * path.stat().st_size
    path.write_text(path.read_text().rstrip() + " y\n")
    with pytest.raises(MotionkitError, match="is not a number"):
        FORMATS["bvh"].read(path, ReadOptions())
