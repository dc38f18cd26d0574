"""How much motions move: limbs in a frequency band, by range, beside reference clips; floor, speed, jerk, spread.

For limbs, joint positions are relative to the root and to the heading (`body_positions`), so a body that glides and
turns without moving its limbs does not move.
"""

from __future__ import annotations

import math
from functools import lru_cache

import torch
from torch import Tensor

from motionkit.geometry import rotate_yaw

BAND = (0.5, 5.0)  # Hz. Below are changes of posture, above is jitter; steps, waves, kicks and claps lie between.
SHORTEST = 1.0  # shortest motion with a `movement`, in seconds: half a period of the lowest frequency of `BAND`
QUIET = 0.02
"""Metres of `movement` below which reference clips of an action are taken as still, and nothing is divided by it."""

STILL = 0.1  # metres: a motion in which no joint has this `joint_range` is a statue
_TIE = 0.001  # metres: a smaller difference may be rounding

TOLERANCE = 0.005
"""Distance within which a body counts as on the floor, in metres, as in Yuan et al., "PhysDiff" (ICCV 2023)."""


def body_positions(joints: Tensor, headings: Tensor) -> Tensor:
    """Return joints relative to the root (joint 0) and turned to face +Z.

    Args:
        joints: ``[..., T, J, 3]`` metres, Y up.
        headings: ``[..., T]`` radians about +Y, 0 for +Z, as `motionkit.motion.Skeleton.trajectory` returns them.

    Returns:
        ``[..., T, J, 3]`` metres; the root is 0.
    """
    return rotate_yaw(joints - joints[..., :1, :], -headings[..., None])


def band_power(
    joints: Tensor, headings: Tensor, lengths: Tensor, fps: float, *, band: tuple[float, float] = BAND
) -> Tensor:
    """Return the mean square of `body_positions` in a band of frequencies, summed over the three axes.

    The filter is a cosine transform (DCT-II) of each coordinate over the clip, which is the Fourier transform of the
    clip followed by its mirror image in time: the ends meet, so a clip need not be periodic. Coefficient k of T frames
    covers the frequencies ``(k - 1/2) d`` to ``(k + 1/2) d`` with ``d = fps / 2 T``; its square is weighted by the
    share of them in the band, so that the result changes smoothly with the length. Differentiable.

    A sine within the band keeps all of its power, one outside about 1 % (amplitude 0.05 to 0.2 of it, the shorter the
    clip the more), as the mirrored ends have a kink.

    Args:
        joints: ``[N, T, J, 3]`` metres, Y up; frames past a length may hold anything.
        headings: ``[N, T]`` radians; see `body_positions`.
        lengths: ``[N]`` int64 frames.
        fps: Frames per second.
        band: Lowest and highest frequency in Hz.

    Returns:
        ``[N, J]`` square metres; NaN for motions shorter than `SHORTEST` or with a frame that is not finite.
    """
    count, _, size, _ = joints.shape
    power = [joints.new_full((size,), torch.nan)] * count
    for length in lengths.unique().tolist():
        if length < SHORTEST * fps - 1e-6:
            continue
        rows = (lengths == length).nonzero()[:, 0]
        body = body_positions(joints[rows, :length], headings[rows, :length]).flatten(2)  # [n, T, 3 J]
        basis = _band_basis(int(length), float(fps), band).to(body)
        powers = (basis @ body).square().sum(1).unflatten(-1, (size, 3)).sum(-1) / length
        for row, values in zip(rows.tolist(), powers, strict=True):
            power[row] = values
    return torch.stack(power) if power else joints.new_zeros(0, size)


def movement(
    joints: Tensor, headings: Tensor, lengths: Tensor, fps: float, *, band: tuple[float, float] = BAND
) -> Tensor:
    """Return how far each joint swings about its mean: the root of `band_power`.

    Returns:
        ``[N, J]`` metres; a sine of amplitude a between 0.5 and 5 Hz gives ``a / sqrt(2)``. NaN as `band_power`.

    Example:
        >>> time = torch.arange(60) / 20
        >>> joints = torch.zeros(1, 60, 2, 3)
        >>> joints[0, :, 1, 0] = 0.1 * torch.sin(2 * torch.pi * 2 * time)
        >>> movement(joints, torch.zeros(1, 60), torch.tensor([60]), 20.0).round(decimals=2)
        tensor([[0.0000, 0.0700]])
    """
    return band_power(joints, headings, lengths, fps, band=band).sqrt()


def joint_range(joints: Tensor, headings: Tensor, lengths: Tensor) -> Tensor:
    """Return the range of each joint: the diagonal of the bounding box of its `body_positions`.

    Args:
        joints: ``[N, T, J, 3]`` metres, Y up; frames past a length may hold anything.
        headings: ``[N, T]`` radians; see `body_positions`.
        lengths: ``[N]`` int64 frames, at least 1.

    Returns:
        ``[N, J]`` metres; NaN if a frame is not finite.
    """
    body = body_positions(joints, headings)
    valid = (torch.arange(joints.shape[1], device=joints.device) < lengths[:, None])[..., None, None]
    inside = torch.where(valid, body, body[:, :1])  # padding repeats the first frame
    diagonal: Tensor = (inside.amax(1) - inside.amin(1)).norm(dim=-1)
    return diagonal


def leading_joint(real: Tensor) -> tuple[int, float]:
    """Return the joint that moves most in reference clips of one action, and how far it swings there.

    Args:
        real: ``[M, J]`` `movement` of the clips; rows of NaN are left out.

    Returns:
        Its index and its mean, in metres; ``(0, nan)`` without a clip.

    Example:
        >>> leading_joint(torch.tensor([[0.0, 0.1, 0.3], [0.0, 0.3, 0.2], [torch.nan] * 3]))
        (2, 0.25)
    """
    known = real[real.isfinite().all(1)]
    if not len(known):
        return 0, math.nan
    mean = known.double().mean(0)
    joint = int(mean.argmax())
    return joint, float(known[:, joint].mean())


def movement_share(made: Tensor, joint: Tensor, real: Tensor) -> Tensor:
    """Return how far motions move relative to reference clips of the same action.

    Args:
        made: ``[N, J]`` `movement`.
        joint: ``[N]`` int64, the `leading_joint` of the action of each.
        real: ``[N]`` metres, that joint's mean in the reference clips.

    Returns:
        ``[N]``, 1 for as far; NaN if the reference clips move less than `QUIET`.

    Example:
        >>> movement_share(torch.tensor([[0.0, 0.1]]).expand(2, 2), torch.tensor([1, 1]), torch.tensor([0.2, 0.01]))
        tensor([0.5000,    nan])
    """
    swing = made.gather(1, joint[:, None])[:, 0]
    return torch.where(real >= QUIET, swing / real.to(swing), torch.nan)


def statues(made: Tensor, real: Tensor) -> Tensor:
    """Return which motions are statues: no joint has a range of `STILL`, but one does in reference clips of the action.

    Args:
        made: ``[N, J]`` `joint_range`.
        real: ``[N]`` metres, the range of the joint that gets farthest, median over the reference clips.

    Returns:
        ``[N]``, 1 for a statue, 0 for a motion; NaN if reference clips are statues too, or a value is not finite.

    Example:
        >>> statues(torch.tensor([[0.0, 0.05], [0.0, 0.5], [0.0, 0.05]]), torch.tensor([0.6, 0.6, 0.04]))
        tensor([1., 0., nan])
    """
    farthest = made.amax(1)
    return torch.where((real >= STILL) & farthest.isfinite(), (farthest < STILL).to(farthest), torch.nan)


def moves_more(made: Tensor, named: Tensor, other: Tensor) -> Tensor:
    """Return whether the named limb moves more than the one of the other side, by a millimetre or more.

    Args:
        made: ``[N, J]`` `movement`.
        named: ``[N]`` int64, end joint of the limb that the caption names; below 0 if it names none.
        other: ``[N]`` int64, end joint of the other side's limb.

    Returns:
        ``[N]``, 1 if it does, else 0; NaN if no limb is named.

    Example:
        >>> moves_more(torch.tensor([[0.1, 0.3]]).expand(3, 2), torch.tensor([1, 0, -1]), torch.tensor([0, 1, -1]))
        tensor([1., 0., nan])
    """
    first, second = (made.gather(1, place.clamp(min=0)[:, None])[:, 0] for place in (named, other))
    known = (named >= 0) & first.isfinite() & second.isfinite()
    return torch.where(known, (first - second > _TIE).to(made), torch.nan)


@lru_cache(maxsize=512)
def _band_basis(length: int, fps: float, band: tuple[float, float]) -> Tensor:
    """Return the rows ``[K, T]`` of an orthonormal DCT-II in a band, each times the root of its weight, float64."""
    width = fps / (2 * length)
    number = torch.arange(1, length, dtype=torch.float64)
    low, high = ((number - 0.5) * width).clamp(min=band[0]), ((number + 0.5) * width).clamp(max=band[1])
    share = ((high - low) / width).clamp(min=0.0)
    place = torch.arange(length, dtype=torch.float64) + 0.5
    rows = math.sqrt(2 / length) * torch.cos(math.pi / length * number[:, None] * place) * share.sqrt()[:, None]
    return rows[share > 0]


def floor_distance(joints: Tensor, lengths: Tensor, *, tolerance: float = TOLERANCE) -> tuple[Tensor, Tensor]:
    """Return how far the lowest joint is below the floor (penetration) and above it (float), mean over frames.

    PhysDiff measures the lowest vertex of a body mesh; features hold joints only, whose lowest one is put on the floor
    when a clip is processed, so that reference clips have a little of both.

    Args:
        joints: ``[N, T, J, 3]`` metres, Y up, floor at 0.
        lengths: ``[N]`` int64 frames.
        tolerance: Metres; smaller distances count as 0.

    Returns:
        ``[N]`` metres below and ``[N]`` metres above, both at least 0.

    Example:
        >>> below, above = floor_distance(torch.tensor([[[[0.0, -0.1, 0.0]], [[0.0, 0.3, 0.0]]]]), torch.tensor([2]))
        >>> round(float(below), 4), round(float(above), 4)
        (0.05, 0.15)
    """
    lowest = joints[..., 1].amin(-1)  # [N, T]
    valid = torch.arange(joints.shape[1], device=joints.device) < lengths[:, None]
    count = valid.sum(1).clamp(min=1)

    def mean(distance: Tensor) -> Tensor:
        return torch.where(valid & (distance > tolerance), distance, distance.new_zeros(())).sum(1) / count

    return mean(-lowest), mean(lowest)


def joint_speed(joints: Tensor, lengths: Tensor, fps: float) -> Tensor:
    """Return the mean speed of the joints.

    Args:
        joints: ``[N, T, J, 3]`` metres.
        lengths: ``[N]`` int64 frames.
        fps: Frames per second.

    Returns:
        ``[N]`` metres per second; 0 for a motion of one frame.

    Example:
        >>> still, moving = torch.zeros(4, 1, 3), torch.arange(4.0)[:, None, None].expand(4, 1, 3)
        >>> joint_speed(torch.stack([still, moving]), torch.tensor([4, 4]), fps=1.0)
        tensor([0.0000, 1.7321])
    """
    steps, mask = _steps(joints, lengths)
    return fps * steps.mean(-1).masked_fill(~mask, 0.0).sum(1) / mask.sum(1).clamp(min=1)


def joint_jerk(joints: Tensor, fps: float) -> Tensor:
    """Return the jerk of each frame, the mean length of the joints' third differences.

    Args:
        joints: ``[N, T, J, 3]`` metres.
        fps: Frames per second.

    Returns:
        ``[N, T - 3]`` m/s^3, of the frames from the fourth on.

    Example:
        >>> cubic = torch.arange(5.0)[None, :, None, None] ** 3
        >>> joint_jerk(torch.cat([cubic, 0 * cubic, 0 * cubic], dim=-1), fps=1.0)
        tensor([[6., 6.]])
    """
    lengths: Tensor = joints.diff(n=3, dim=1).norm(dim=-1)
    return lengths.mean(-1) * fps**3


def root_path(joints: Tensor, lengths: Tensor) -> Tensor:
    """Return how far the root travels over the ground, ``[N]`` metres; arguments as `joint_speed`, Y up."""
    steps, mask = _steps(joints[..., :1, :] * joints.new_tensor([1.0, 0.0, 1.0]), lengths)
    return steps[..., 0].masked_fill(~mask, 0.0).sum(1)


def sample_spread(motions: Tensor, mask: Tensor) -> Tensor:
    """Return how far the samples of one prompt differ: their standard deviation, averaged over all values.

    Args:
        motions: ``[P, S, T, D]``, S samples of each of P prompts, such as normalised features.
        mask: ``[P, T]`` bool, True = valid; samples of one prompt are equally long.

    Returns:
        ``[P]``; NaN with fewer than two samples.

    Example:
        >>> sample_spread(torch.tensor([[[[0.0]], [[2.0]]]]), torch.ones(1, 1, dtype=torch.bool))
        tensor([1.4142])
    """
    if motions.shape[1] < 2:
        return motions.new_full((len(motions),), torch.nan)
    spread = motions.std(dim=1).mean(-1)  # [P, T]
    return spread.masked_fill(~mask, 0.0).sum(1) / mask.sum(1).clamp(min=1)


def _steps(joints: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """Return how far each joint moves between neighbouring frames, ``[N, T - 1, J]``, and the mask of valid pairs."""
    steps = (joints[:, 1:] - joints[:, :-1]).norm(dim=-1)
    mask = torch.arange(1, joints.shape[1], device=joints.device) < lengths[:, None]
    return steps, mask
