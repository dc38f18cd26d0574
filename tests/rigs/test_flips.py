"""The number of flips: what it counts, and that the solver's own could be more than none."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import roma
import torch
from torch import Tensor

from motionkit.motion import HUMANML, JointMotion, Motion
from motionkit.rigs import _solve_rotations, solve
from motionkit.rigs.rest import rest_rig
from motionkit.rigs.solver import count_flips

from .test_solve import as_joints, pose, swaying

RATES = [12.5, 20.0, 60.0]


def spun(source: Motion, joint: str, child: str, degrees: Tensor) -> Motion:
    """Turn a joint about its bone, ``[T]`` degrees, and the next one back: no joint moves."""
    at, below = HUMANML.index(joint), HUMANML.index(child)
    axis = torch.nn.functional.normalize(source.offsets[below], dim=-1)
    turn = roma.rotvec_to_rotmat(degrees.deg2rad()[:, None] * axis)
    rotations = source.rotations.clone()
    rotations[:, at] = rotations[:, at] @ turn
    rotations[:, below] = turn.mT @ rotations[:, below]
    made = replace(source, rotations=rotations)
    torch.testing.assert_close(made.positions(), source.positions())
    return made


def ramp(frames: int, fps: float, seconds: float, start: int = 10) -> Tensor:
    """0 to 1 from a frame on, over some seconds."""
    time = (torch.arange(frames, dtype=torch.float64) - start + 1) / fps
    return (time / max(seconds, 1 / fps)).clamp(0.0, 1.0)


@pytest.mark.parametrize("fps", RATES)
@pytest.mark.parametrize("seconds", [0.0, 0.1, 0.2], ids=["at once", "0.1 s", "0.2 s"])
def test_a_half_turn_is_one_flip_however_fast(fps, seconds):
    """Spread over 0.2 s it is 18 degrees a frame at 60 fps: no frame shows it, the quarter of a second does."""
    frames = round(3 * fps)
    source = swaying(frames, 0, size=0.2, fps=fps)
    assert count_flips(source) == 0
    once = 178.0 * ramp(frames, fps, seconds)
    assert count_flips(spun(source, "left_shoulder", "left_elbow", once)) == 1
    assert count_flips(spun(source, "left_shoulder", "left_elbow", -once)) == 1
    both = once - 178.0 * ramp(frames, fps, seconds, start=round(2 * fps))
    assert count_flips(spun(source, "left_shoulder", "left_elbow", both)) == 2


@pytest.mark.parametrize("fps", RATES)
def test_a_slow_turn_is_none(fps):
    frames = round(4 * fps)
    source = swaying(frames, 0, size=0.2, fps=fps)
    assert count_flips(spun(source, "left_shoulder", "left_elbow", 360.0 * ramp(frames, fps, 2.0))) == 0


@pytest.mark.parametrize("fps", RATES)
def test_a_spin_that_is_seen_is_none(fps):
    """A whole body that spins twice a second, and an upper arm whose bent forearm swings round with it."""
    frames = round(2 * fps)
    rig = rest_rig(HUMANML)
    rotations = torch.eye(3, dtype=torch.float64).repeat(frames, rig.joints, 1, 1)
    places = rig.offsets.repeat(frames, 1, 1)
    still = Motion(rig.names, rig.parents, rig.offsets, rotations, places, fps)
    angle = torch.arange(frames, dtype=torch.float64) / fps * 4 * math.pi
    body = rotations.clone()
    body[:, 0] = roma.rotvec_to_rotmat(angle[:, None] * torch.tensor([0.0, 1.0, 0.0], dtype=torch.float64))
    assert count_flips(replace(still, rotations=body)) == 0
    arm, elbow = HUMANML.index("left_shoulder"), HUMANML.index("left_elbow")
    along = torch.nn.functional.normalize(rig.offsets[elbow], dim=-1)
    for bend, flips in ((60.0, False), (10.0, True)):
        swung = rotations.clone()
        swung[:, elbow] = roma.rotvec_to_rotmat(torch.tensor([0.0, -math.radians(bend), 0.0], dtype=torch.float64))
        swung[:, arm] = roma.rotvec_to_rotmat(angle[:, None] * along)
        assert (count_flips(replace(still, rotations=swung)) > 0) is flips, bend


@pytest.mark.parametrize("fps", RATES)
def test_a_solver_that_follows_every_wrong_bend_would_be_caught(monkeypatch, fps):
    """Turning the upper arm round at the solver's own limit of speed, while the elbow is straight, is a flip."""
    frames = round(2 * fps)
    bends = torch.full((frames,), 0.05, dtype=torch.float64)
    joints = torch.stack([pose(left_wrist=(math.cos(b), 0.02, math.sin(b))) for b in bends])
    assert solve(as_joints(joints, fps=fps)).flips == 0
    plain = _solve_rotations.twist_path
    limit = min(math.radians(1000.0) / fps, math.radians(60.0))

    def hasty(evidence: object, drift: Tensor, rate: float) -> Tensor:
        turned = (torch.arange(frames, dtype=torch.float64) - frames // 2).clamp_min(0) * limit
        return plain(evidence, drift, rate) + turned.clamp_max(math.pi)  # type: ignore[arg-type]

    monkeypatch.setattr(_solve_rotations, "twist_path", hasty)
    assert solve(as_joints(joints, fps=fps)).flips > 0


def test_other_trees_and_short_clips():
    source = swaying(3, 0)
    assert count_flips(source.cut(0, 1)) == 0
    assert count_flips(source) == 0
    one = JointMotion(("a",), (-1,), torch.zeros(5, 1, 3, dtype=torch.float64), 20.0)
    assert solve(one).flips == 0
