"""Movement of limbs against analytic values and slow versions; gliding, turning and padding count for nothing."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from motionkit.geometry import rotate_yaw
from motionkit.metrics import (
    band_power,
    body_positions,
    joint_range,
    joint_speed,
    kinetic_features,
    kinetic_fid,
    leading_joint,
    movement,
    movement_share,
    moves_more,
    root_path,
    sample_spread,
    statues,
)

FPS = 20.0


def _swinging(frequency: float, *, seconds: float = 3.0, phase: float = 0.0, fps: float = FPS) -> Tensor:
    """Return a body of two joints, ``[1, T, 2, 3]``, whose second swings by 0.1 m along x."""
    time = torch.arange(round(seconds * fps), dtype=torch.float64) / fps
    joints = torch.zeros(1, len(time), 2, 3, dtype=torch.float64)
    joints[0, :, 1, 0] = 0.1 * torch.sin(2 * math.pi * frequency * time + phase)
    return joints


def _movement(joints: Tensor, headings: Tensor | None = None, fps: float = FPS) -> Tensor:
    count, frames = joints.shape[:2]
    headings = joints.new_zeros(count, frames) if headings is None else headings
    return movement(joints, headings, torch.full((count,), frames), fps)


@pytest.mark.parametrize("seconds", [1.0, 1.95, 3.2, 9.8])
@pytest.mark.parametrize("phase", [0.0, 0.7, 1.57])
def test_a_sine_in_the_band_gives_its_amplitude_over_the_root_of_two(seconds: float, phase: float) -> None:
    for frequency in (2.0, 3.3):
        found = _movement(_swinging(frequency, seconds=seconds, phase=phase))[0]
        assert found[0] == 0.0
        assert float(found[1]) == pytest.approx(0.1 / math.sqrt(2), rel=0.04)


@pytest.mark.parametrize("frequency", [0.1, 8.0])
def test_of_a_sine_outside_the_band_little_is_left(frequency: float) -> None:
    for phase in (0.0, 0.7, 1.57):
        for seconds, most in ((2.0, 0.2), (6.0, 0.12), (9.8, 0.09)):
            found = float(_movement(_swinging(frequency, seconds=seconds, phase=phase))[0, 1])
            assert found < most * 0.1 / math.sqrt(2)


def test_the_band_is_that_of_the_clip_followed_by_its_mirror_image() -> None:
    draw = torch.Generator().manual_seed(0)
    joints = torch.randn(1, 57, 3, 3, generator=draw, dtype=torch.float64)
    body = (joints - joints[:, :, :1])[0].numpy()
    power = np.zeros(3)
    for joint in range(3):
        for axis in range(3):
            values = body[:, joint, axis]
            there_and_back = np.concatenate([values, values[::-1]])
            lines = np.abs(np.fft.rfft(there_and_back) / len(there_and_back)) ** 2 * 2
            width = FPS / len(there_and_back)
            for number in range(1, 57):
                low, high = (number - 0.5) * width, (number + 0.5) * width
                share = max(0.0, min(high, 5.0) - max(low, 0.5)) / width
                power[joint] += share * lines[number]
    found = band_power(joints, torch.zeros(1, 57, dtype=torch.float64), torch.tensor([57]), FPS)[0]
    np.testing.assert_allclose(found.numpy(), power, rtol=1e-9, atol=1e-12)


def test_the_frame_rate_changes_little() -> None:
    values = [float(_movement(_swinging(1.3, fps=fps), fps=fps)[0, 1]) for fps in (12.5, 20.0, 60.0, 120.0)]
    assert max(values) - min(values) < 0.02 * values[0]


def test_a_statue_that_glides_and_turns_does_not_move() -> None:
    draw = torch.Generator().manual_seed(1)
    pose = torch.randn(1, 1, 5, 3, generator=draw, dtype=torch.float64)
    time = torch.arange(60, dtype=torch.float64)
    headings = (3 * torch.sin(time / 4))[None]
    path = torch.stack([time / 10, torch.sin(time / 5), torch.cos(time / 3)], dim=-1)[None, :, None]
    joints = rotate_yaw(pose - pose[:, :, :1], headings[..., None]) + path
    assert float(_movement(joints, headings).max()) < 1e-12
    assert float(joint_range(joints, headings, torch.tensor([60])).max()) < 1e-12
    assert float(_movement(joints, torch.zeros_like(headings)).max()) > 0.1  # it turns in the world
    torch.testing.assert_close(body_positions(joints, headings), (pose - pose[:, :, :1]).expand(1, 60, 5, 3))


def test_padding_and_the_rest_of_a_batch_change_nothing_and_short_motions_are_unknown() -> None:
    draw = torch.Generator().manual_seed(2)
    joints, headings = torch.randn(4, 50, 3, 3, generator=draw), torch.randn(4, 50, generator=draw)
    lengths = torch.tensor([50, 31, 19, 20])
    padded, turned = joints.clone(), headings.clone()
    for row, length in enumerate(lengths.tolist()):
        padded[row, length:], turned[row, length:] = torch.nan, torch.nan
    found, ranges = movement(padded, turned, lengths, FPS), joint_range(padded, turned, lengths)
    assert found[2].isnan().all()
    assert ranges.isfinite().all()
    for row, length in enumerate(lengths.tolist()):
        alone = joints[row : row + 1, :length], headings[row : row + 1, :length]
        torch.testing.assert_close(ranges[row], joint_range(*alone, lengths[row : row + 1])[0])
        if length >= FPS:
            torch.testing.assert_close(found[row], _movement(*alone)[0])
    padded[0, 3] = torch.nan
    assert movement(padded, turned, lengths, FPS)[0, 1:].isnan().all()
    assert joint_range(padded, turned, lengths)[0, 1:].isnan().all()
    assert movement(joints[:0], headings[:0], lengths[:0], FPS).shape == (0, 3)


def test_power_can_be_differentiated_where_a_joint_stays_still() -> None:
    joints = _swinging(2.0, seconds=1.5).requires_grad_()
    headings, lengths = torch.zeros(1, 30, dtype=torch.float64), torch.tensor([30])
    assert torch.autograd.gradcheck(lambda values: band_power(values, headings, lengths, FPS), joints)


def test_range_is_the_way_of_a_reach_and_not_of_its_repetitions() -> None:
    once = torch.zeros(1, 40, 2, 3, dtype=torch.float64)
    once[0, :, 1, 1] = torch.linspace(0.0, 0.3, 40, dtype=torch.float64)
    once[0, :, 1, 2] = torch.linspace(0.0, 0.4, 40, dtype=torch.float64)
    found = joint_range(once, torch.zeros(1, 40, dtype=torch.float64), torch.tensor([40]))
    torch.testing.assert_close(found, torch.tensor([[0.0, 0.5]], dtype=torch.float64))
    swings = joint_range(_swinging(2.0), torch.zeros(1, 60, dtype=torch.float64), torch.tensor([60]))
    assert float(swings[0, 1]) == pytest.approx(0.2, rel=0.06)


def test_share_is_of_the_joint_that_leads_in_real_clips() -> None:
    real = torch.tensor([[0.0, 0.10, 0.20], [0.0, 0.16, 0.10], [torch.nan] * 3])
    joint, size = leading_joint(real)
    assert (joint, size) == (2, pytest.approx(0.15))
    assert math.isnan(leading_joint(real[2:])[1])
    made = torch.tensor([[0.0, 9.0, 0.03], [0.0, 9.0, 0.15]])
    share = movement_share(made, torch.tensor([joint, joint]), torch.tensor([size, size]))
    torch.testing.assert_close(share, torch.tensor([0.2, 1.0]))
    quiet = movement_share(made, torch.tensor([2, 2]), torch.tensor([0.019, torch.nan]))
    assert quiet.isnan().all()


def test_a_statue_is_still_where_real_clips_are_not() -> None:
    made = torch.tensor([[0.0, 0.09], [0.0, 0.11], [0.0, 0.01], [torch.nan, torch.nan]])
    found = statues(made, torch.tensor([0.5, 0.5, 0.09, 0.5]))
    assert found[:2].tolist() == [1.0, 0.0]
    assert found[2:].isnan().all()


def test_the_named_limb_is_compared_with_its_twin() -> None:
    made = torch.tensor([[0.3, 0.1], [0.1, 0.3], [0.0, 0.0], [0.3, 0.1], [torch.nan, 0.1]])
    found = moves_more(made, torch.tensor([0, 0, 0, -1, 0]), torch.tensor([1, 1, 1, -1, 1]))
    assert found[:3].tolist() == [1.0, 0.0, 0.0]
    assert found[3:].isnan().all()


def test_a_throw_has_its_energies_and_its_acceleration() -> None:
    fps, count = 20.0, 41
    time = torch.arange(count, dtype=torch.float64) / fps
    fall = torch.stack([3.0 * time, 2.0 * time - 9.81 / 2 * time**2, -4.0 * time], dim=-1)
    found = kinetic_features(fall[None, :, None], torch.tensor([count]), fps)[0]
    inner = 2.0 - 9.81 * time[1:-1]  # central differences of a parabola are exact
    torch.testing.assert_close(found, torch.tensor([25.0, float((inner**2).mean()), 9.81], dtype=torch.float64))


def test_features_are_those_of_a_slow_loop_and_padding_counts_for_nothing() -> None:
    draw = torch.Generator().manual_seed(0)
    joints, lengths, fps = torch.randn(3, 9, 2, 3, generator=draw), torch.tensor([9, 4, 2]), 12.5
    padded = joints.clone()
    padded[1, 4:], padded[2, 2:] = torch.nan, torch.nan
    found = kinetic_features(padded, lengths, fps)
    assert found.shape == (3, 6)
    assert found[2].isnan().all()
    for row, length in enumerate(lengths.tolist()[:2]):
        for joint in range(2):
            terms = []
            for frame in range(1, length - 1):
                before, here, after = (joints[row, frame + step, joint].tolist() for step in (-1, 0, 1))
                velocity = [(a - b) * fps / 2 for a, b in zip(after, before, strict=True)]
                push = [(a - 2 * h + b) * fps**2 for a, h, b in zip(after, here, before, strict=True)]
                terms.append((velocity[0] ** 2 + velocity[2] ** 2, velocity[1] ** 2, math.hypot(*push)))
            for place in range(3):
                mean = sum(term[place] for term in terms) / len(terms)
                assert float(found[row, 2 * place + joint]) == pytest.approx(mean, rel=1e-4)


def test_distance_is_that_of_gaussians_in_units_of_the_real_deviation() -> None:
    draw = torch.Generator().manual_seed(1)
    real = torch.randn(500, 3, generator=draw, dtype=torch.float64) * torch.tensor([1.0, 100.0, 0.01])
    assert kinetic_fid(real, real) < 1e-9
    shifted = real + 2 * real.std(0)
    assert kinetic_fid(shifted, real) == pytest.approx(3 * 4.0, rel=1e-6)
    assert kinetic_fid(torch.zeros_like(real), real) == pytest.approx(3.0, rel=0.02)  # means 0, variances 1 against 0


def test_speed_and_path_count_valid_frames_only() -> None:
    draw = torch.Generator().manual_seed(0)
    joints = torch.randn(3, 9, 4, 3, generator=draw)
    lengths = torch.tensor([9, 5, 1])
    padded = joints.clone()
    padded[1, 5:], padded[2, 1:] = float("nan"), float("nan")
    for row, length in enumerate(lengths.tolist()):
        ways = [
            [math.dist(joints[row, frame, joint], joints[row, frame + 1, joint]) for joint in range(4)]
            for frame in range(length - 1)
        ]
        speed = 20.0 * sum(map(sum, ways)) / (4 * max(1, len(ways)))
        path = sum(
            math.dist(joints[row, frame, 0, ::2].tolist(), joints[row, frame + 1, 0, ::2].tolist())
            for frame in range(length - 1)
        )
        assert math.isclose(joint_speed(padded, lengths, 20.0)[row], speed, rel_tol=1e-5, abs_tol=1e-7)
        assert math.isclose(root_path(padded, lengths)[row], path, rel_tol=1e-5, abs_tol=1e-7)


def test_spread_is_the_deviation_of_the_samples_of_one_prompt() -> None:
    draw = torch.Generator().manual_seed(1)
    motions = torch.randn(2, 3, 6, 5, generator=draw)
    mask = torch.tensor([[True] * 6, [True] * 4 + [False] * 2])
    motions[1, :, 4:] = float("nan")
    for row, length in enumerate((6, 4)):
        values = [motions[row, :, frame, value] for frame in range(length) for value in range(5)]
        mean = sum(float(((v - v.mean()) ** 2).sum() / 2) ** 0.5 for v in values) / len(values)
        assert math.isclose(sample_spread(motions, mask)[row], mean, rel_tol=1e-5)
    alike = motions[:, :1].expand(-1, 3, -1, -1).nan_to_num()
    assert sample_spread(alike, mask).abs().max() < 1e-6
    assert sample_spread(motions[:, :1], mask).isnan().all()
