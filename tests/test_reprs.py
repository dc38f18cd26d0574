"""What Python prints of the objects that motionkit returns: one short line each."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import motionkit
from motionkit import GRPO, load_dataset, load_policy, load_reward
from motionkit.starter import generate


def test_objects_print_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("walk.npy", generate("walk", frames=40).joints)
    clip = motionkit.read("walk.npy")
    assert repr(clip) == "MotionClip(40 frames, 20 fps, 22 joints, 2.0 s)"
    assert repr(clip.motion) == "JointMotion(40 frames, 20 fps, 22 joints, 2.0 s)"
    dataset, policy, reward = load_dataset("starter"), load_policy("starter"), load_reward("tmr-dense", alpha=0.7)
    assert "50 steps" in repr(policy)
    assert repr(reward) == "TmrDense(alpha=0.7)"
    (motion,) = policy.generate("a person walks")
    assert repr(motion).endswith("'a person walks')")
    for one in (clip, dataset, policy, reward, motion, load_reward("physics", dataset=dataset), GRPO(policy, reward)):
        assert len(repr(one)) < 120
        assert " at 0x" not in repr(one)
        assert "\n" not in repr(one)
