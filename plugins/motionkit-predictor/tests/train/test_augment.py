"""Augmentation: what the world sees of changed windows."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch

from motionkit.rigs import mirror_order
from motionkit_predictor.data.clips import ClipSet, cut_windows
from motionkit_predictor.data.files import starter_clip_set
from motionkit_predictor.states import MotionState, follow, state_positions
from motionkit_predictor.training.batches import (
    Augmentation,
    WindowBatch,
    WindowBatches,
    bent,
    mirrored,
    off_heading,
    resampled,
)


@pytest.fixture(scope="module")
def clips() -> ClipSet:
    return starter_clip_set(30.0, ("val",))


@pytest.fixture(scope="module")
def batch(clips: ClipSet) -> WindowBatch:
    windows = cut_windows(clips.clips[:12], past=10, future=20, stride=7)
    return WindowBatches(windows, batch_size=16, accumulate=1, seed=0, device=torch.device("cpu"))(1)[0]


def augmentation(clips: ClipSet, *, conditioned: float = 1.0, **changes: Any) -> Augmentation:
    every = {"mirror": 0.5, "bend": 0.3, "speeds": (0.75, 1.2), **changes}
    return Augmentation(clips.names, fps=30.0, conditioned=conditioned, **every)


def whole(batch: WindowBatch) -> MotionState:
    return batch.known.then(batch.truth)


def test_the_mirror_image_in_the_world(clips: ClipSet, batch: WindowBatch) -> None:
    order = torch.tensor(mirror_order(clips.names))
    other = mirrored(batch, order)
    one, two = (state_positions(whole(part), part.offsets, clips.parents) for part in (batch, other))
    wanted = one[:, :, order] * torch.tensor([-1.0, 1.0, 1.0])
    assert torch.allclose(two, wanted, atol=1e-4)
    assert torch.equal(other.known.contacts, batch.known.contacts.flip(-1))
    back = mirrored(other, order)
    assert torch.allclose(back.truth.rotations, batch.truth.rotations, atol=1e-6)


def test_speed_one_changes_nothing(batch: WindowBatch) -> None:
    same = resampled(batch, torch.ones(len(batch.valid)))
    for name in ("rotations", "steps", "heights", "contacts"):
        assert torch.allclose(getattr(same.truth, name), getattr(batch.truth, name), atol=1e-4), name
    assert torch.equal(same.valid, batch.valid)


def test_at_twice_the_speed_every_second_frame_is_left(batch: WindowBatch) -> None:
    fast = resampled(batch, torch.full((len(batch.valid),), 2.0))
    assert torch.allclose(fast.truth.rotations[:, :10], batch.truth.rotations[:, 1:20:2], atol=1e-5)
    assert torch.allclose(fast.truth.steps[:, :10].cumsum(1), batch.truth.steps.cumsum(1)[:, 1:20:2], atol=1e-4)
    assert torch.equal(fast.valid, (batch.valid // 2).clamp_min(1))


def test_at_half_the_speed_the_path_is_the_same_and_takes_twice_as_long(batch: WindowBatch) -> None:
    slow = resampled(batch, torch.full((len(batch.valid),), 0.5))
    assert torch.allclose(slow.truth.steps.cumsum(1)[:, 1::2], batch.truth.steps.cumsum(1)[:, :10], atol=1e-4)
    assert torch.allclose(slow.truth.rotations[:, 1::2], batch.truth.rotations[:, :10], atol=1e-5)


def test_a_heading_that_is_off_leaves_the_motion_as_it_is(clips: ClipSet, batch: WindowBatch) -> None:
    turn = torch.linspace(-0.5, 0.5, len(batch.valid))
    other = off_heading(batch, turn)
    one, two = (whole(part) for part in (batch, other))
    placed = follow(one.steps)[0], follow(two.steps)[0]
    assert torch.allclose(placed[0].norm(dim=-1), placed[1].norm(dim=-1), atol=1e-4)
    joints = [state_positions(part, batch.offsets, clips.parents) for part in (one, two)]
    away = [(part - part[:, :, :1]).norm(dim=-1) for part in joints]
    assert torch.allclose(away[0], away[1], atol=1e-4)
    assert not torch.allclose(one.rotations[:, :, 0], two.rotations[:, :, 0], atol=1e-2)


def test_it_draws_the_same_for_the_same_seed_and_keeps_shares(clips: ClipSet, batch: WindowBatch) -> None:
    augment = augmentation(clips, mirror=0.5, speeds=(0.8, 1.2), yaw=3.0)
    made = [augment(batch, torch.Generator().manual_seed(seed)).truth.rotations for seed in (1, 1, 2)]
    assert torch.equal(made[0], made[1])
    assert not torch.equal(made[0], made[2])
    half = augmentation(clips, conditioned=0.0, mirror=0.5)(batch, torch.Generator().manual_seed(0))
    kept = (half.truth.contacts == batch.truth.contacts).all(-1).all(-1)
    flipped = (half.truth.rotations != batch.truth.rotations).flatten(1).any(1)
    assert 0 < int(flipped.sum()) < len(kept)


def test_what_is_off_changes_nothing(clips: ClipSet, batch: WindowBatch) -> None:
    off = augmentation(clips, mirror=0.0, bend=0.0, speeds=(1.0, 1.0))
    assert off(batch, torch.Generator().manual_seed(0)).truth is batch.truth
    assert not Augmentation(("a", "b"), fps=30.0, conditioned=1.0, mirror=0.5, speeds=(0.75, 1.2), bend=0.3).mirrors


def test_only_windows_that_are_told_their_path_get_other_speeds_and_curves(clips: ClipSet, batch: WindowBatch) -> None:
    changed = augmentation(clips, conditioned=0.5, mirror=0.0)(batch, torch.Generator().manual_seed(0))
    assert 0 < int(changed.conditioned.sum()) < len(changed.conditioned)
    for name in ("rotations", "steps"):
        other = (getattr(changed.truth, name) != getattr(batch.truth, name)).flatten(1).any(1)
        assert torch.equal(other, changed.conditioned), name
    assert not augmentation(clips, conditioned=0.0)(batch, torch.Generator().manual_seed(0)).conditioned.any()
    assert augmentation(clips, conditioned=1.0)(batch, torch.Generator().manual_seed(0)).conditioned.all()


def test_a_bent_path_by_a_slow_loop(batch: WindowBatch) -> None:
    """Each step turns by the curvature at its frame times its length, and is otherwise what it was."""
    curvature = torch.stack([torch.linspace(-0.5, 0.5, len(batch.valid)), torch.full((len(batch.valid),), 0.2)])
    other = bent(batch, curvature, 50)
    one, two = whole(batch), whole(other)
    for row in (0, 3, 15):
        for frame in range(one.frames):
            angle = 2 * math.pi * (frame - 9) / 50  # frame 9 is the last known one
            curve = float(curvature[0, row]) * math.cos(angle) + float(curvature[1, row]) * math.sin(angle)
            turn = curve * math.hypot(*one.steps[row, frame, :2].tolist())
            assert float(two.steps[row, frame, 2] - one.steps[row, frame, 2]) == pytest.approx(turn, abs=1e-6)
    assert torch.equal(one.steps[..., :2], two.steps[..., :2])
    for name in ("rotations", "heights", "contacts"):
        assert getattr(one, name) is getattr(two, name) or torch.equal(getattr(one, name), getattr(two, name))


def test_a_straight_walk_that_is_bent_is_a_circle(batch: WindowBatch) -> None:
    """With a period much longer than the window the curvature is constant: half a radian per metre is 2 m radius."""
    ahead = torch.tensor([0.0, 0.02, 0.0]).expand(len(batch.valid), batch.truth.frames, 3)
    straight = replace(batch, truth=replace(batch.truth, steps=ahead))
    curvature = torch.stack([torch.full((len(batch.valid),), 0.5), torch.zeros(len(batch.valid))])
    place, yaw = follow(bent(straight, curvature, 10**6).truth.steps)
    centre = torch.tensor([2.0, 0.0])
    assert torch.allclose((place - centre).norm(dim=-1), torch.tensor(2.0), atol=0.01)
    assert torch.allclose(yaw[:, -1], torch.tensor(0.5 * 0.02 * batch.truth.frames), atol=1e-5)


def test_what_is_mirrored_after_it_was_bent_is_bent_the_other_way(clips: ClipSet, batch: WindowBatch) -> None:
    order = torch.tensor(mirror_order(clips.names))
    curvature = torch.randn(2, len(batch.valid), generator=torch.Generator().manual_seed(0))
    one, two = mirrored(bent(batch, curvature, 90), order), bent(mirrored(batch, order), -curvature, 90)
    assert torch.allclose(one.truth.steps, two.truth.steps, atol=1e-6)


def test_all_changes_keep_steps_beyond_the_window(clips: ClipSet) -> None:
    windows = cut_windows(clips.clips[:12], past=10, future=20, stride=7)
    batches = WindowBatches(windows, batch_size=16, accumulate=1, seed=0, device=torch.device("cpu"), further=15)
    change = augmentation(clips, speeds=(0.8, 1.2), yaw=3.0)
    changed = change(batches(1)[0], torch.Generator().manual_seed(0))
    assert changed.truth.frames == 35
    assert changed.future == 20
