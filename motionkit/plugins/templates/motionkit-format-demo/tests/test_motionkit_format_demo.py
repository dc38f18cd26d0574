"""What is written comes back, and other files of the suffix are left alone."""

from pathlib import Path

import torch
from motionkit.formats import FORMATS, WriteOptions, kind_of, read_clips, recognise
from motionkit.motion import HUMANML, Clip, JointMotion
from motionkit.starter import generate


def test_a_motion_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "walk.demo.csv"
    assert kind_of(path) == "demo"
    joints = torch.from_numpy(generate("walk", frames=40).joints).double()
    motion = JointMotion(HUMANML.joint_names, HUMANML.parents, joints, 20.0)
    FORMATS["demo"].write(path, [Clip(motion)], WriteOptions())
    (clip,) = read_clips(path)
    assert clip.motion.frames == 40
    torch.testing.assert_close(clip.motion.positions(), joints, rtol=0, atol=1e-5)


def test_other_files_are_left_to_others(tmp_path: Path) -> None:
    path = tmp_path / "captions.csv"
    path.write_text("id,caption\nwalk,a person walks\n")
    assert recognise(path) is None
