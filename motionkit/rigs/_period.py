"""Where in its step each foot is, from contacts alone."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor

from motionkit.errors import MotionkitError

_HIGHEST = 5.0
"""Hz: no gait repeats faster, contacts flicker faster."""


def soft_period(
    contacts: Tensor, *, method: Literal["edges", "hilbert"] = "edges", fps: float = 0.0
) -> tuple[Tensor, Tensor]:
    """Turn soft contacts into a phase per foot, 0 where the foot comes down.

    ``edges`` is the definition of the predictor's original: between two frames in which a foot's score rises above
    0.5 the phase runs once round, from 0 to 2 pi; before the first such frame from -2 pi to 0, after the last from 0
    to 2 pi at the end of the clip, and once round over the whole clip where there is none.

    ``hilbert`` is the phase of the analytic signal of (left - right) without its mean, a quarter turn on, the right
    foot half a turn behind: it needs no score above 0.5 and moves smoothly with the scores.

    Args:
        contacts: ``[T, 2]`` scores, left and right.
        method: Which of the two.
        fps: Frames per second; with it ``hilbert`` leaves out what is faster than 5 Hz. 0 keeps all.

    Returns:
        ``[T, 4]``: sin left, sin right, cos left, cos right; and ``[T, 2]`` confidence in [0, 1]. For ``edges`` it is
        1 between two contacts of the foot, 0.5 before the first and after the last, 0 without any; for ``hilbert``
        the amplitude of the analytic signal.

    Raises:
        MotionkitError: Not two columns.

    Example:
        >>> contacts = torch.tensor([[0.0, 1], [1, 0], [0, 1], [1, 0]]).repeat_interleave(5, dim=0)
        >>> period, confidence = soft_period(contacts)
        >>> period.shape, confidence[:, 0].unique().tolist()
        (torch.Size([20, 4]), [0.5, 1.0])
    """
    if contacts.ndim != 2 or contacts.shape[1] != 2:
        raise MotionkitError(f"contacts have shape {list(contacts.shape)}; expected [frames, 2].")
    phase, confidence = _edges(contacts) if method == "edges" else _hilbert(contacts, fps)
    return torch.cat([phase.sin(), phase.cos()], dim=-1), confidence


def _edges(contacts: Tensor) -> tuple[Tensor, Tensor]:
    frames = len(contacts)
    high = contacts > 0.5
    place = torch.arange(frames, device=contacts.device)
    phases, confidences = [], []
    for foot in range(2):
        rises = (high[1:, foot] & ~high[:-1, foot]).nonzero()[:, 0] + 1
        bounds = torch.cat([rises.new_zeros(1), rises, rises.new_full((1,), frames)])
        section = torch.searchsorted(rises, place, right=True)
        start, stop = bounds[section], bounds[section + 1]
        turn = (place - start).to(contacts.dtype) / (stop - start).clamp_min(1)
        if len(rises):  # the part before the first contact counts up to it: the same place on the circle
            turn = turn - (section == 0).to(turn)
        outside = (section == 0) | (section == len(rises))
        phases.append(2.0 * math.pi * turn)
        confidences.append(torch.where(outside, 0.5 if len(rises) else 0.0, 1.0).to(contacts.dtype))
    return torch.stack(phases, dim=-1), torch.stack(confidences, dim=-1)


def _hilbert(contacts: Tensor, fps: float) -> tuple[Tensor, Tensor]:
    frames = len(contacts)
    signal = contacts[:, 0] - contacts[:, 1]
    spectrum = torch.fft.fft(signal - signal.mean())
    # Negative frequencies out, positive ones doubled; the middle one of an even count is its own mirror image.
    weight = torch.zeros_like(signal)
    weight[1 : (frames + 1) // 2] = 2.0
    if frames % 2 == 0 and frames:
        weight[frames // 2] = 1.0
    if fps > 0:
        weight = torch.where(torch.fft.fftfreq(frames, 1.0 / fps, device=signal.device) > _HIGHEST, 0.0, weight)
    analytic = torch.fft.ifft(spectrum * weight)
    amplitude = analytic.abs()
    angle = torch.where(amplitude > 1e-9, analytic.angle() + 0.5 * math.pi, torch.zeros_like(amplitude))
    phase = torch.stack([angle, angle + math.pi], dim=-1)
    return phase, amplitude.clamp_max(1.0)[:, None].expand(-1, 2)
