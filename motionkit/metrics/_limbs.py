"""How much limbs move: in a band of frequencies, as a share of real clips, by range, and the named limb by the other.

All of it is of joint positions relative to the root and free of the heading, so that a body which glides and turns
like a statue does not move.
"""

from __future__ import annotations

import math
from functools import lru_cache

import torch
from torch import Tensor

from motionkit.geometry import rotate_yaw

BAND = (0.5, 5.0)
"""Hz. Below are changes of posture, above is trembling; steps, waves, kicks and claps lie between."""

SHORTEST = 1.0
"""Seconds from which a motion has a `movement`: half a period of the lowest frequency of `BAND`."""

QUIET = 0.02
"""Metres of `movement` below which real clips of an action hardly move, so that a share of them says nothing."""

STILL = 0.1
"""Metres: a motion in which no joint has this `joint_range` is a statue."""

_TIE = 0.001  # metres: what is left of a statue by rounding is no side


def body_positions(joints: Tensor, headings: Tensor) -> Tensor:
    """Return joints relative to the root (joint 0) and turned to face +Z.

    Args:
        joints: ``[..., T, J, 3]`` metres, Y up.
        headings: ``[..., T]`` radians about +Y, 0 for +Z, as `motionkit.motion.root_trajectory` returns them.

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
    stands for the frequencies ``(k - 1/2) d`` to ``(k + 1/2) d`` with ``d = fps / 2 T``; its square counts by the
    share of them that lies in the band, so that the result changes smoothly with the length. Differentiable.

    A sine within the band keeps all of its power. Of one outside about 1 % of the power remains (amplitude 0.05 to
    0.2 of it, the shorter the clip the more), as the mirrored ends have a kink.

    Args:
        joints: ``[N, T, J, 3]`` metres, Y up; frames past a length may hold anything.
        headings: ``[N, T]`` radians; see `body_positions`.
        lengths: ``[N]`` int64 frames.
        fps: Frames per second; nothing above fps / 2 can be seen.
        band: Lowest and highest frequency in Hz.

    Returns:
        ``[N, J]`` square metres; NaN for motions shorter than `SHORTEST`, and where a frame is not finite.
    """
    count, _, size, _ = joints.shape
    power = [joints.new_full((size,), torch.nan)] * count
    for length in lengths.unique().tolist():
        if length < SHORTEST * fps - 1e-6:
            continue
        rows = (lengths == length).nonzero()[:, 0]
        body = body_positions(joints[rows, :length], headings[rows, :length]).flatten(2)  # [n, T, 3 J]
        basis = _band_basis(int(length), float(fps), band).to(body)
        found = (basis @ body).square().sum(1).unflatten(-1, (size, 3)).sum(-1) / length
        for row, values in zip(rows.tolist(), found, strict=True):
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
    """Return how far each joint gets: the diagonal of the smallest upright box that its `body_positions` stay in.

    Args:
        joints: ``[N, T, J, 3]`` metres, Y up; frames past a length may hold anything.
        headings: ``[N, T]`` radians; see `body_positions`.
        lengths: ``[N]`` int64 frames, at least 1.

    Returns:
        ``[N, J]`` metres; NaN where a frame is not finite.
    """
    body = body_positions(joints, headings)
    valid = (torch.arange(joints.shape[1], device=joints.device) < lengths[:, None])[..., None, None]
    inside = torch.where(valid, body, body[:, :1])  # padding stays where the first frame is
    diagonal: Tensor = (inside.amax(1) - inside.amin(1)).norm(dim=-1)
    return diagonal


def leading_joint(real: Tensor) -> tuple[int, float]:
    """Return the joint that moves most in real clips of one action, and how far it swings there.

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
    """Return how far motions move beside real clips of the same action.

    Args:
        made: ``[N, J]`` `movement`.
        joint: ``[N]`` int64, the `leading_joint` of the action of each.
        real: ``[N]`` metres, that joint's mean in the real clips.

    Returns:
        ``[N]``, 1 where they swing as far; NaN where the real clips swing less than `QUIET`.

    Example:
        >>> movement_share(torch.tensor([[0.0, 0.1]]).expand(2, 2), torch.tensor([1, 1]), torch.tensor([0.2, 0.01]))
        tensor([0.5000,    nan])
    """
    own = made.gather(1, joint[:, None])[:, 0]
    return torch.where(real >= QUIET, own / real.to(own), torch.nan)


def statues(made: Tensor, real: Tensor) -> Tensor:
    """Return which motions are statues: no joint has a range of `STILL`, while in real clips of the action one does.

    Args:
        made: ``[N, J]`` `joint_range`.
        real: ``[N]`` metres, the range of the joint that gets farthest, median over the real clips.

    Returns:
        ``[N]``, 1 for a statue, 0 for a motion; NaN where real clips stay still as well, or nothing is known.

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
        named: ``[N]`` int64, the end of the limb that the caption names; below 0 where it names none.
        other: ``[N]`` int64, the end of its mirror image.

    Returns:
        ``[N]``, 1 where it does, 0 where not; NaN where no limb is named.

    Example:
        >>> moves_more(torch.tensor([[0.1, 0.3]]).expand(3, 2), torch.tensor([1, 0, -1]), torch.tensor([0, 1, -1]))
        tensor([1., 0., nan])
    """
    first, second = (made.gather(1, place.clamp(min=0)[:, None])[:, 0] for place in (named, other))
    known = (named >= 0) & first.isfinite() & second.isfinite()
    return torch.where(known, (first - second > _TIE).to(made), torch.nan)


@lru_cache(maxsize=512)
def _band_basis(length: int, fps: float, band: tuple[float, float]) -> Tensor:
    """Return the rows ``[K, T]`` of an orthonormal DCT-II in a band, each times the root of its share, float64."""
    width = fps / (2 * length)
    number = torch.arange(1, length, dtype=torch.float64)
    low, high = ((number - 0.5) * width).clamp(min=band[0]), ((number + 0.5) * width).clamp(max=band[1])
    share = ((high - low) / width).clamp(min=0.0)
    place = torch.arange(length, dtype=torch.float64) + 0.5
    rows = math.sqrt(2 / length) * torch.cos(math.pi / length * number[:, None] * place) * share.sqrt()[:, None]
    return rows[share > 0]
