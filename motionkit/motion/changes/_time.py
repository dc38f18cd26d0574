"""Changes of order and tempo: the same poses in another order, or faster, or slower."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from motionkit.motion._skeleton import Skeleton
from motionkit.motion.changes._poses import Poses, placed

PIECE = 0.5
"""Seconds of the shortest piece."""

_PIECES = 6
_LEAST = 3


def shuffled_pieces(joints: Tensor, skeleton: Skeleton, fps: float, *, generator: torch.Generator) -> Tensor:
    """Return the clip cut into three to six pieces of at least `PIECE` seconds, in another order.

    No piece is followed by the piece that followed it.

    Args:
        joints: ``[F, J, 3]`` metres, Y up, at least three pieces long.
        skeleton: Their body.
        fps: Frames per second.
        generator: Draws cuts and order.
    """
    frames = len(joints)
    count = pieces(frames, fps)
    shortest = max(round(PIECE * fps), 1)
    spare = frames - count * shortest
    marks = torch.randint(0, spare + 1, (count - 1,), generator=generator).sort().values
    cuts = [0, *(marks + shortest * torch.arange(1, count)).tolist(), frames]
    while True:
        order = torch.randperm(count, generator=generator)
        if not bool((order.diff() == 1).any()):
            return in_order(joints, skeleton, fps, cuts=cuts, order=order.tolist())


def pieces(frames: int, fps: float) -> int:
    """Return how many pieces a clip is cut into; fewer than three are too few to be shuffled."""
    return min(int(frames / max(round(PIECE * fps), 1)), _PIECES)


def can_shuffle(frames: int, fps: float) -> bool:
    """Whether a clip is long enough for `shuffled_pieces`."""
    return pieces(frames, fps) >= _LEAST


def swapped_quarters(joints: Tensor, skeleton: Skeleton, fps: float) -> Tensor:
    """Return the clip with its first quarter after its second, and its third after its fourth."""
    cuts = [len(joints) * quarter // 4 for quarter in range(5)]
    return in_order(joints, skeleton, fps, cuts=cuts, order=[1, 0, 3, 2])


def in_order(joints: Tensor, skeleton: Skeleton, fps: float, *, cuts: list[int], order: list[int]) -> Tensor:
    """Return the clip's pieces in another order, joined over 0.2 s.

    Args:
        joints: ``[F, J, 3]``.
        skeleton: Their body.
        fps: Frames per second.
        cuts: First frame of each piece, and F.
        order: Numbers of the pieces.
    """
    index = torch.cat([torch.arange(cuts[piece], cuts[piece + 1]) for piece in order])
    return placed(Poses.of(joints, skeleton, fps).reordered(index).joints, joints, skeleton)


def one_after_another(clips: Sequence[Tensor], skeleton: Skeleton, fps: float) -> Tensor:
    """Return clips as one: each goes on where the one before it ends, joined over 0.2 s.

    Args:
        clips: Joints ``[F, J, 3]`` of each clip, its last frame the one that leads out of it, as
            `motionkit.motion.with_frame_after` gives it.
        skeleton: Their body.
        fps: Their frames per second.

    Returns:
        ``[sum (F - 1) + 1, J, 3]``.
    """
    first, *others = (Poses.of(joints, skeleton, fps) for joints in clips)
    for other in others:
        first = first.followed_by(other)
    return placed(first.joints, clips[0], skeleton)


def reversed_time(joints: Tensor, skeleton: Skeleton) -> Tensor:
    """Return the clip from its end to its beginning."""
    return placed(joints.flip(0), joints, skeleton)


def shuffled_frames(joints: Tensor, skeleton: Skeleton, fps: float, *, generator: torch.Generator) -> Tensor:
    """Return the clip's frames in any order, not joined, each with its step to the next one."""
    index = torch.randperm(len(joints), generator=generator)
    return placed(Poses.of(joints, skeleton, fps).reordered(index, join=False).joints, joints, skeleton)


def tempo_times(joints: Tensor, skeleton: Skeleton, fps: float, *, factor: float) -> Tensor:
    """Return the clip `factor` times as fast: its F - 1 steps become ``(F - 1) / factor``, rounded."""
    steps = max(round((len(joints) - 1) / factor), 1)
    places = torch.linspace(0.0, len(joints) - 1.0, steps + 1, dtype=torch.float64)
    return Poses.of(joints, skeleton, fps).sampled(places).joints
