"""Changes of place and time: path, side, height, feet, order and tempo; whole clips out of features and back."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from motionkit.geometry import rotate_yaw
from motionkit.motion.changes.poses import Poses, placed
from motionkit.motion.features.extract import joints_to_features
from motionkit.motion.features.layout import mirror
from motionkit.motion.features.recover import with_frame_after
from motionkit.motion.skeleton import Skeleton

PIECE = 0.5
"""Seconds of the shortest piece."""

_PIECES = 6
_LEAST = 3


def clip_joints(features: Sequence[Tensor], skeleton: Skeleton) -> list[Tensor]:
    """Return all T + 1 frames of joints ``[T + 1, J, 3]`` of clips ``[T, D]``; see `with_frame_after`."""
    clips: list[Tensor] = [torch.empty(0)] * len(features)
    by_length: dict[int, list[int]] = {}
    for place, rows in enumerate(features):
        by_length.setdefault(len(rows), []).append(place)
    for places in by_length.values():
        joints = with_frame_after(torch.stack([features[place] for place in places]), skeleton)
        for place, clip in zip(places, joints, strict=True):
            clips[place] = clip
    return clips


def clip_features(joints: Sequence[Tensor], skeleton: Skeleton) -> list[Tensor]:
    """Return features ``[F - 1, D]`` of joints ``[F, J, 3]`` as they lie: frame 0 faces +Z, the floor is y = 0.

    Joints that `clip_joints` made give the clips back, and the joints that a change made give the changed clips.
    """
    if not joints:
        return []
    lengths = torch.tensor([len(clip) for clip in joints])
    rows = joints_to_features(
        pad_sequence(list(joints), batch_first=True), skeleton, lengths, target=False, align=False
    )
    return [clip[: length - 1] for clip, length in zip(rows, lengths.tolist(), strict=True)]


def path_times(
    joints: Tensor,  # [F, J, 3] metres, Y up
    factor: float,  # 0 keeps the body where it starts, -1 moves it the other way
) -> Tensor:
    """Return the clip with the root's path over the ground times `factor`; poses, heights and heading stay."""
    root = joints[:, :1]
    shift = (factor - 1.0) * (root - root[:1])
    return joints + shift * joints.new_tensor([1.0, 0.0, 1.0])


def mirrored(joints: Tensor, skeleton: Skeleton, fps: float) -> Tensor:
    """Return the mirror image with the clip's own bone lengths, as mirrored lengths would give the change away."""
    image = Poses.of(mirror(joints, skeleton), skeleton, fps)
    return placed(replace(image, lengths=Poses.of(joints, skeleton, fps).lengths).joints, joints, skeleton)


def lifted(joints: Tensor, metres: float) -> Tensor:
    """Return the clip higher, or lower, by `metres`."""
    return joints + joints.new_tensor([0.0, metres, 0.0])


def sliding(
    joints: Tensor,  # [F, J, 3]
    fps: float,  # frames per second
    *,
    metres: float = 0.1,  # amplitude; with one sway per second the mean speed is 4 amplitudes per second
    per_second: float = 1.0,  # sways per second
) -> Tensor:
    """Return the clip with the whole body swaying along x, so that its feet slide."""
    time = torch.arange(len(joints), dtype=joints.dtype) / fps
    sway = metres * torch.sin(2.0 * math.pi * per_second * time)
    return joints + sway[:, None, None] * joints.new_tensor([1.0, 0.0, 0.0])


def trembling(
    joints: Tensor,  # [F, J, 3]
    skeleton: Skeleton,
    fps: float,  # frames per second
    *,
    radians: float,  # standard deviation of a bone's turn about each axis
    metres: float,  # standard deviation of the root along each axis
    generator: torch.Generator,  # draws the noise
    smooth: float = 0.0,  # seconds of a Hann window that the noise is smoothed by; its standard deviation stays
) -> Tensor:
    """Return the clip with noise: every bone is turned and the root moved, in each frame anew."""
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
    """Return the clip turned about +Y and placed again (`placed`): the same motion."""
    return placed(rotate_yaw(joints, joints.new_tensor(radians)), joints, skeleton)


def later_start(joints: Tensor, skeleton: Skeleton, fps: float, *, seconds: float) -> Tensor:
    """Return the clip without its first `seconds`."""
    remainder = joints[round(seconds * fps) :]
    return placed(remainder, remainder, skeleton)


def resized(joints: Tensor, factor: float) -> Tensor:
    """Return the clip of a body `factor` times as large, its path and heights with it; the floor is y = 0."""
    return joints * factor


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


def in_order(
    joints: Tensor,  # [F, J, 3]
    skeleton: Skeleton,
    fps: float,  # frames per second
    *,
    cuts: list[int],  # first frame of each piece, and F
    order: list[int],  # numbers of the pieces
) -> Tensor:
    """Return the clip's pieces in another order, joined over 0.2 s."""
    index = torch.cat([torch.arange(cuts[piece], cuts[piece + 1]) for piece in order])
    return placed(Poses.of(joints, skeleton, fps).reordered(index).joints, joints, skeleton)


def one_after_another(clips: Sequence[Tensor], skeleton: Skeleton, fps: float) -> Tensor:
    """Return clips as one: each continues at the end of the one before, joined over 0.2 s.

    Args:
        clips: Joints ``[F, J, 3]`` of each clip, as `motionkit.motion.with_frame_after` gives them.
        skeleton: Their body.
        fps: Their frames per second.

    Returns:
        ``[sum (F - 1) + 1, J, 3]``.
    """
    first, *following = (Poses.of(joints, skeleton, fps) for joints in clips)
    for poses in following:
        first = first.followed_by(poses)
    return placed(first.joints, clips[0], skeleton)


def reversed_time(joints: Tensor, skeleton: Skeleton) -> Tensor:
    """Return the clip from its end to its beginning."""
    return placed(joints.flip(0), joints, skeleton)


def shuffled_frames(joints: Tensor, skeleton: Skeleton, fps: float, *, generator: torch.Generator) -> Tensor:
    """Return the clip's frames in random order, without joins, each with its step to the next one."""
    index = torch.randperm(len(joints), generator=generator)
    return placed(Poses.of(joints, skeleton, fps).reordered(index, join=False).joints, joints, skeleton)


def tempo_times(joints: Tensor, skeleton: Skeleton, fps: float, *, factor: float) -> Tensor:
    """Return the clip `factor` times as fast: its F - 1 steps become ``(F - 1) / factor``, rounded."""
    steps = max(round((len(joints) - 1) / factor), 1)
    places = torch.linspace(0.0, len(joints) - 1.0, steps + 1, dtype=torch.float64)
    return Poses.of(joints, skeleton, fps).sampled(places).joints
