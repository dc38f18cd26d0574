"""Speed, path and spread against slow loops; padding counts for nothing."""

from __future__ import annotations

import math

import torch

from motionkit.metrics import joint_speed, root_path, sample_spread


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
