"""Changes of where the body is: its path, its side, its height, its feet, and what is no movement at all."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor

from motionkit.geometry._yaw import rotate_yaw
from motionkit.motion._skeleton import Skeleton
from motionkit.motion.changes._poses import Poses, placed
from motionkit.motion.features._mirror import mirror


def path_times(joints: Tensor, factor: float) -> Tensor:
    """Return the clip with the root's path over the ground times `factor`; poses, heights and heading stay.

    Args:
        joints: ``[F, J, 3]`` metres, Y up.
        factor: 0 keeps the body where it starts, -1 moves it the other way.
    """
    root = joints[:, :1]
    shift = (factor - 1.0) * (root - root[:1])
    return joints + shift * joints.new_tensor([1.0, 0.0, 1.0])


def mirrored(joints: Tensor, skeleton: Skeleton, fps: float) -> Tensor:
    """Return the mirror image, with the clip's own bones: bodies are not symmetric, and would give the change away."""
    image = Poses.of(mirror(joints, skeleton), skeleton, fps)
    own = Poses.of(joints, skeleton, fps)
    return placed(replace(image, lengths=own.lengths).joints, joints, skeleton)


def lifted(joints: Tensor, metres: float) -> Tensor:
    """Return the clip higher, or lower, by `metres`."""
    return joints + joints.new_tensor([0.0, metres, 0.0])


def sliding(joints: Tensor, fps: float, *, metres: float = 0.1, per_second: float = 1.0) -> Tensor:
    """Return the clip with the whole body swaying along x, so that its feet slide; it ends near where it would.

    Args:
        joints: ``[F, J, 3]``.
        fps: Frames per second.
        metres: Amplitude; with one sway per second the mean speed is 4 amplitudes per second.
        per_second: Sways per second.
    """
    time = torch.arange(len(joints), dtype=joints.dtype) / fps
    sway = metres * torch.sin(2.0 * math.pi * per_second * time)
    return joints + sway[:, None, None] * joints.new_tensor([1.0, 0.0, 0.0])


def trembling(
    joints: Tensor,
    skeleton: Skeleton,
    fps: float,
    *,
    radians: float,
    metres: float,
    generator: torch.Generator,
    smooth: float = 0.0,
) -> Tensor:
    """Return the clip with noise: every bone is turned and the root moved, in each frame anew.

    Args:
        joints: ``[F, J, 3]``.
        skeleton: Their body.
        fps: Frames per second.
        radians: Standard deviation of a bone's turn about each axis.
        metres: Standard deviation of the root along each axis.
        generator: Draws the noise.
        smooth: Seconds of a Hann window that the noise is smoothed by; its standard deviation stays.
    """
    poses = Poses.of(joints, skeleton, fps)
    bones = joints.shape[1] - 1
    width = 2 * (round(smooth * fps) // 2) + 1
    window = torch.hann_window(width + 2, periodic=False, dtype=joints.dtype)[1:-1]
    noise = torch.randn(len(joints) + width - 1, bones + 1, 3, generator=generator, dtype=joints.dtype)
    # [F, J, 3, width] @ [width]: a weighted sum around each frame; the norm keeps the standard deviation.
    noise = noise.unfold(0, width, 1) @ window / window.norm()
    moved = metres * noise[:, 0]
    # A small turn of a unit vector is a step at right angles to it.
    steps = radians * torch.linalg.cross(noise[:, 1:], poses.directions, dim=-1)
    directions = torch.nn.functional.normalize(poses.directions + steps, dim=-1)
    shaken = replace(poses, ground=poses.ground + moved[:, [0, 2]], directions=directions)
    # The turned bones have another lowest joint: the floor moves so that the root is `moved` from where it was.
    return replace(shaken, floor=poses.floor + poses.height + moved[:, 1] - shaken.height).joints


def turned(joints: Tensor, skeleton: Skeleton, radians: float) -> Tensor:
    """Return the clip turned about +Y and placed again, as every clip is; it is the same clip."""
    return placed(rotate_yaw(joints, joints.new_tensor(radians)), joints, skeleton)


def later_start(joints: Tensor, skeleton: Skeleton, fps: float, *, seconds: float) -> Tensor:
    """Return the clip without its first `seconds`."""
    rest = joints[round(seconds * fps) :]
    return placed(rest, rest, skeleton)


def resized(joints: Tensor, factor: float) -> Tensor:
    """Return the clip of a body `factor` times as large, its path and heights with it; the floor is y = 0."""
    return joints * factor
