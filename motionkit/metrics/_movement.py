"""How motions move: speed and spread, contacts, floor, spectrum, angles."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

# Foot contacts as a classification, and what the feet do while they stand.


CONTACT = 0.5
"""Soft contact above which a foot stands."""


def f1_terms(predicted: Tensor, truth: Tensor) -> tuple[Tensor, Tensor]:
    """Return what F1 is the quotient of: twice the frames that both call contact, and the sum of what each does.

    Args:
        predicted: ``[N, ...]`` soft contacts in [0, 1].
        truth: The same.

    Returns:
        ``[N]`` each; their sums over a set give its F1.
    """
    said, true = (predicted > CONTACT).flatten(1), (truth > CONTACT).flatten(1)
    return 2.0 * (said & true).sum(1).double(), (said.sum(1) + true.sum(1)).double()


LEVELS = 1025
"""Steps that scores are counted in for `auroc`."""


def score_levels(scores: Tensor) -> Tensor:
    """Return the step of each soft contact in [0, 1], int64 below `LEVELS`; no step holds scores on both sides of 0.5.

    Example:
        >>> score_levels(torch.tensor([0.0, 0.5, 0.5001, 1.0]))
        tensor([   0,  512,  513, 1024])
    """
    return (scores * (LEVELS - 1)).ceil().long().clamp(0, LEVELS - 1)


def auroc(contact: Tensor, none: Tensor) -> Tensor:
    """Return the chance that a frame with contact scores above one without, equal steps counting half.

    Args:
        contact: ``[..., L]`` number of frames with contact at each step of the score, ascending.
        none: ``[..., L]`` the same of frames without.

    Returns:
        ``[...]``; NaN where there is no frame of one kind.

    Example:
        >>> auroc(torch.tensor([0.0, 1.0, 1.0]), torch.tensor([1.0, 1.0, 0.0]))
        tensor(0.8750)
    """
    below = none.cumsum(-1) - none
    pairs = contact.sum(-1) * none.sum(-1)
    return (contact * (below + none / 2)).sum(-1) / torch.where(pairs > 0, pairs, torch.nan)


def slide_terms(feet: Tensor, contacts: Tensor, fps: float) -> tuple[Tensor, Tensor]:
    """Return what foot skate is the quotient of: how far feet slide while they stand, per second, and how long.

    Args:
        feet: ``[N, T + 1, 2, 3]`` metres, left and right, Y up; the frame before the first is the first row.
        contacts: ``[N, T, 2]`` soft contacts.
        fps: Frames per second.

    Returns:
        ``[N]`` each: metres per second summed over the steps to frames with contact, and the number of those.
    """
    speed = fps * feet[..., ::2].diff(dim=1).norm(dim=-1)
    stands = contacts > CONTACT
    return (speed * stands).flatten(1).sum(1), stands.flatten(1).sum(1).to(speed)


def lower_slide(feet: Tensor, fps: float) -> Tensor:
    """Return how fast the lower foot goes along the ground, mean over time. No contact is read.

    Args:
        feet: ``[N, T + 1, 2, 3]`` metres, left and right, Y up.
        fps: Frames per second.

    Returns:
        ``[N]`` metres per second.

    Example:
        >>> feet = torch.zeros(1, 4, 2, 3)
        >>> feet[0, :, 1, 1] = 0.2  # the right foot is in the air and the left one glides ahead
        >>> feet[0, :, :, 2] = torch.stack([torch.arange(4) * 0.1, torch.arange(4) * 0.5], dim=-1)
        >>> lower_slide(feet, 10.0)
        tensor([1.])
    """
    speed = fps * feet[..., ::2].diff(dim=1).norm(dim=-1)  # [N, T, 2]
    lower = (feet[:, 1:, :, 1] + feet[:, :-1, :, 1]).argmin(-1, keepdim=True)
    found: Tensor = speed.gather(-1, lower)[..., 0].mean(1)
    return found


# How far motions sink into the floor or hover above it.


TOLERANCE = 0.005
"""Metres within which a body counts as standing on the floor, as in Yuan et al., "PhysDiff" (ICCV 2023)."""


def floor_distance(joints: Tensor, lengths: Tensor, *, tolerance: float = TOLERANCE) -> tuple[Tensor, Tensor]:
    """Return how far the lowest joint is below the floor (penetration) and above it (float), mean over frames.

    PhysDiff measures the lowest vertex of a body mesh; features hold joints only, whose lowest one is put on the floor
    when a clip is processed, so that real clips have a little of both.

    Args:
        joints: ``[N, T, J, 3]`` metres, Y up, floor at 0.
        lengths: ``[N]`` int64 frames.
        tolerance: Metres; only what is further away counts, whole.

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
    """Return the way of each joint between neighbouring frames, ``[N, T - 1, J]``, and which of them count."""
    steps = (joints[:, 1:] - joints[:, :-1]).norm(dim=-1)
    mask = torch.arange(1, joints.shape[1], device=joints.device) < lengths[:, None]
    return steps, mask


# Angles between rotations and between directions, in degrees.


def geodesic_degrees(first: Tensor, second: Tensor) -> Tensor:
    """Return the angle of the rotation from one to the other, ``[...]`` in degrees, 0 to 180.

    It is roma's form by the chord, which is exact for small angles; ``acos`` of the trace is 0.08 degrees off there.

    Args:
        first: ``[..., 3, 3]`` rotation matrices.
        second: The same; broadcasts.
    """
    import roma

    angle: Tensor = roma.rotmat_geodesic_distance(first, second)
    return torch.rad2deg(angle)


def yaw_degrees(first: Tensor, second: Tensor) -> Tensor:
    """Return the smallest angle between directions ``[...]`` in radians, in degrees, 0 to 180.

    Example:
        >>> yaw_degrees(torch.tensor(3.1), torch.tensor(-3.1)) < 5
        tensor(True)
    """
    turn = first - second
    return torch.rad2deg((torch.remainder(turn + math.pi, 2 * math.pi) - math.pi).abs())


# Normalised power spectrum similarity of sequences.


def npss_terms(predicted: Tensor, truth: Tensor) -> tuple[Tensor, Tensor]:
    """Return what NPSS is the quotient of: distance times power, and power, summed over features.

    For each feature the power spectrum over time is brought to a sum of 1; the distance is the earth mover's between
    the spectra of prediction and truth, in bins, weighted by the power of the truth: Gopalakrishnan et al., "A Neural
    Temporal Model for Human Motion Prediction" (CVPR 2019). ``terms[0].sum() / terms[1].sum()`` is NPSS of a set.

    Args:
        predicted: ``[N, T, D]``.
        truth: The same.

    Returns:
        ``[N]`` each, at least 0.
    """

    def spectrum(values: Tensor) -> tuple[Tensor, Tensor]:
        power = torch.fft.fft(values, dim=1).abs().square()
        total = power.sum(1, keepdim=True)
        # Without any power, as of a value that is 0 throughout, all of it stands in the first bin.
        shares = torch.where(total > 0, power / total.clamp_min(torch.finfo(total.dtype).tiny), 0.0)
        shares[:, :1] = torch.where(total > 0, shares[:, :1], 1.0)
        return shares, total[:, 0]

    shares, power = spectrum(truth)
    moved = (shares.cumsum(1) - spectrum(predicted)[0].cumsum(1)).abs().sum(1)
    return (moved * power).sum(-1), power.sum(-1)


def npss_rows(made: Sequence[Tensor], truths: Sequence[Tensor | None]) -> tuple[Tensor, Tensor]:
    """Return `npss_terms` of N sequences that differ in length.

    Args:
        made: N sequences ``[T, D]``.
        truths: N sequences, or None where there is no truth.

    Returns:
        ``[N]`` each; NaN without a truth that is as long.
    """
    moved, power = (torch.full((len(made),), torch.nan) for _ in range(2))
    if made:
        moved, power = moved.to(made[0]), power.to(made[0])
    for row, (one, truth) in enumerate(zip(made, truths, strict=True)):
        if truth is not None and len(truth) == len(one):
            first, second = npss_terms(one[None], truth[None].to(one))
            moved[row], power[row] = first[0], second[0]
    return moved, power
